package faultproxy

import (
	"net/url"
	"strings"
	"testing"
)

// Point is the place of a cut.
type Point int

const (
	// BeforeServer cuts when the server has everything but the commit: the transaction is rolled back.
	BeforeServer Point = iota + 1
	// AfterServer cuts when the server has committed and before the client learns of it.
	AfterServer
)

// Postgres is a proxy that follows the PostgreSQL protocol, version 3, without encryption.
type Postgres struct {
	*Proxy
	original *url.URL
	commits  armed[commitRule]
}

type commitRule struct {
	point Point
	match func(sql string) bool
}

// StartPostgres opens a proxy for the server of this postgres:// URL. It ends with the test.
func StartPostgres(t testing.TB, databaseURL string) *Postgres {
	t.Helper()
	original, target, err := parseTarget(databaseURL, 5432, "postgres", "postgresql")
	if err != nil {
		t.Fatalf("faultproxy: %v", err)
	}
	g := &Postgres{Proxy: create(t, target), original: original}
	g.protocol = g.follow
	g.begin()
	return g
}

// URL returns the database's URL by way of the proxy.
func (g *Postgres) URL() string { return g.through(g.original) }

// CutAtCommit cuts the connection at the commit of the first transaction in which a statement was executed whose text
// matches; nil matches every one, those that only read too. The commit is that of an explicit transaction or the
// implicit one of a Query or a Sync outside. Prepared statements match by the text that they were
// prepared from on this connection. Match is called by the proxy's goroutines and must not call the proxy.
func (g *Postgres) CutAtCommit(point Point, match func(sql string) bool) *Trigger {
	g.t.Helper()
	if point != BeforeServer && point != AfterServer {
		g.t.Fatalf("faultproxy: CutAtCommit: %d is no point: use BeforeServer or AfterServer", point)
	}
	if match == nil {
		match = func(string) bool { return true }
	}
	return g.commits.add(commitRule{point, match})
}

// Mentions matches texts that contain this one, whatever the case.
func Mentions(text string) func(sql string) bool {
	text = strings.ToLower(text)
	return func(sql string) bool { return strings.Contains(strings.ToLower(sql), text) }
}

// claim returns the trigger that strikes at the commit of these statements, or nil. When failed, the commit is a
// rollback in truth and no trigger strikes before it.
func (g *Postgres) claim(executed statements, failed bool) (*Trigger, Point) {
	trigger, rule := g.commits.claim(func(r commitRule) bool {
		return (r.point == AfterServer || !failed) && executed.any(r.match)
	})
	return trigger, rule.point
}
