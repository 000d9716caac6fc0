package main

import "fmt"

// postgres is a release of PostgreSQL.
type postgres struct {
	major    int
	packaged string // version of the npm package
}

// broker is a release of nats-server.
type broker struct {
	line    string // its name for people
	version string
	batches bool // it supports atomic batches
}

// databases returns the releases that the schema allows, oldest first.
func databases() []postgres {
	return []postgres{
		{14, "14.23.0-beta.17"}, {15, "15.18.0-beta.17"}, {16, "16.14.0-beta.17"}, {17, "17.10.0-beta.17"}, {18, "18.4.0-beta.17"},
	}
}

func brokers() []broker {
	return []broker{
		{"2.11", "2.11.17", false}, {"2.12", "2.12.15", true}, {"2.14", "2.14.9", true}, {"2.15", "2.15.2", true},
	}
}

// cell is one pair of servers.
type cell struct {
	database postgres
	broker   broker
	refuses  bool // the functions that managed servers refuse
}

// String names the cell.
func (c cell) String() string {
	name := fmt.Sprintf("PostgreSQL %d, nats-server %s", c.database.major, c.broker.line)
	if c.refuses {
		name += ", functions refused"
	}
	return name
}

// storing returns the way of storing messages there.
func (c cell) storing() string {
	if c.broker.batches {
		return "batches"
	}
	return "one by one"
}

// row returns the cells of a release of PostgreSQL.
func row(database postgres) (cells []cell) {
	all := brokers()
	for _, b := range all {
		cells = append(cells, cell{database: database, broker: b})
	}
	return append(cells, cell{database: database, broker: all[len(all)-1], refuses: true})
}

func cells() (all []cell) {
	for _, d := range databases() {
		all = append(all, row(d)...)
	}
	return all
}

// corners returns the oldest and the newest of both, and the oldest that refuses its functions.
func corners() []cell {
	d, b := databases(), brokers()
	oldest := cell{database: d[0], broker: b[0]}
	refusing := oldest
	refusing.refuses = true
	return []cell{oldest, refusing, {database: d[len(d)-1], broker: b[len(b)-1]}}
}
