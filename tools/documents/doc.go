// Package documents renders the pages for people and checks the outcome.
//
// # Model
//
// Each Markdown file of the repository is parsed as GitHub and the site do it.
//
// # Invariants
//
//   - A table renders as a table: no text outside of code holds a bar.
//
// # Failure handling
//
// A page that renders otherwise fails the test, which names the page and the text.
package documents
