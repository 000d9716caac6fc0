// Package web holds the monitor's face: its html/template pages, style sheet and ES modules, embedded in the binary.
//
// # Model
//
// A page is a Go struct ([Monitor], [Story], [Messages], [Message], [Confirm], [Drain], [Audit], [OwnershipPage], [ErrorPage]) and a
// template of the same name. Package ui fills the struct from a snapshot; this package turns it into HTML. It knows no database, no HTTP
// route and no other package of this module: the look can change without the server, and a literal tests a template.
//
// One renderer exists, on the server. The script in static/live.js never builds markup from data: it fetches the page it is on and patches
// the difference into the element marked data-live, every data-every seconds. A page therefore reads the same with and without JavaScript,
// and every form works without it. Elements that need a script (selecting all, single keys, the choice of a theme) have the class
// scripted-only, and are hidden without one.
//
// # Invariants
//
//   - Nothing inline. The strict content security policy that ui sends forbids
//     inline script and style, so templates use neither, and colours reach an
//     element by class name or SVG geometry.
//   - Every address is relative (see Shell.Root), so that any base path works, behind
//     proxies that strip it and proxies that keep it.
//   - Text from events, workers and users is escaped by html/template. No
//     template uses a type that bypasses escaping.
//     Characters that are invisible or turn the direction of writing are shown as
//     escapes (see Visible), and texts of unknown direction are isolated.
//   - Pages are accessible by WCAG 2.2 AA as far as a program can tell: names,
//     landmarks, headings, tables, focus, contrast in both themes. The tests of ui
//     look at every page.
//   - Numbers are exact: grouped by thousands, never rounded to "1.2k".
//   - Colour never carries a meaning alone; a word stands beside it.
//
// # Failure handling
//
// A page is rendered into memory before the first byte is sent. A template
// that fails therefore yields an error to the caller and never half a page.
//
// Decision: ADR 10.
package web
