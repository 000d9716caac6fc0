// Package pages is the monitor for people: pages made of the templates of package web, and the forms on them. They work without script.
//
// # Model
//
//	GET  ──▶ Cache, Desk ──▶ view model of package web ──▶ page
//	POST ──▶ form ──▶ Desk ──▶ 303 to the page that the form came from
//
// A file holds a page: overview, messages, causes, message, stream, topics, confirm, replays, story, ownership, audit, drain. [Pages.Routes] lists the addresses; the handler
// of package ui guards them.
//
// # Invariants
//
//   - GET changes nothing. What was done is told on the next page by fixed words and numbers in its address, so that nobody can put words of
//     their own on a page.
//   - To act on all that match, a page tells how many those are, and where another number matches by then nothing is done. What is too many
//     to be counted at once is told as at least so many, and must be so many or more.
//   - No list is read to its end: it is searched for some milliseconds, and the page says how far.
//   - Addresses are relative to the monitor's root: the one that the browser sees is not known here.
//
// # Failure handling
//
// While the source fails the last state is shown under a warning. A form that was refused is shown again with the complaint; what nobody
// can mend by sending it again is a page of its own ([Pages.Fail]), which tells strangers neither version nor environment.
package pages
