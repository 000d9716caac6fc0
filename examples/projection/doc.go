// Command projection turns the history of a repository, one stream per file, into two tables: what every file is now, and
// what happened to it. It is a whole program on package projection: workers, modes, inspection, requeue, gaps, integrity.
//
//	go run ./cmd/postrider dev --import testdata/repo-history-12k.jsonl.gz      # prints the two addresses
//	export DATABASE_URL=… NATS_URL=…
//	go -C examples run ./projection run
//
// README.md has a tour.
//
// # Model
//
// files.go is what is particular about this projection: the tables and what an event does. settings.go reads flags and
// environment, the other files are commands.
//
// # Failure handling
//
// Wrong settings and combinations are refused by name with status 2. Commands that look (gaps detect, integrity) end
// with status 1 when something is wrong.
package main
