// Package pages is the monitor for people: pages made of the templates of package web, and the forms on them. They work without script.
//
// # Model
//
//	GET  ──▶ Cache, Desk ──▶ view model of package web ──▶ page
//	POST ──▶ form ──▶ Desk ──▶ 303 to the page that the form came from
//
// A file holds a page: overview, messages, causes, message, stream, topics, confirm, replays, story, ownership, audit, drain. [Pages.Routes]
// lists the addresses; the handler of package ui guards them.
//
// # Invariants
//
//   - GET changes nothing. The next page reports an action by fixed words and numbers in its address: nobody can put words of their own on a
//     page.
//   - To act on all matching messages, a page shows their number; where another number matches by then, nothing is done. Of messages too many to
//     count the page shows a lower bound, which must hold then.
//   - No list is read to its end: it is searched for some milliseconds, and the page says how far.
//   - Addresses are relative to the monitor's root: the browser's address is unknown here.
//
// # Failure handling
//
// While the source fails the last state is shown under a warning. A refused form is shown again with the complaint; an error that sending
// again cannot mend has a page of its own ([Pages.Fail]), which shows strangers neither version nor environment.
package pages
