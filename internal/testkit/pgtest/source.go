package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/backend"
)

// Variable names a running server to use instead of starting one.
const Variable = "POSTRIDER_TEST_DATABASE_URL"

const startTimeout = 2 * time.Minute

type source struct {
	url  string // of a database from which others can be created
	stop func(context.Context) error
}

// sharedServer is the one server of this test binary. It is the package's only state: tests have no other place to meet.
type sharedServer struct {
	mu        sync.Mutex
	opened    bool
	started   bool
	source    source
	err       error
	templates map[int]*template
	migrating sync.Mutex
}

var shared sharedServer

type template struct {
	once sync.Once
	name string
	err  error
}

// open is called by Main and allows the server to be started.
func (s *sharedServer) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = true
}

// use starts the server once and returns it.
func (s *sharedServer) use() (source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return source{}, errors.New("pgtest: add `func TestMain(m *testing.M) { pgtest.Main(m) }` to this package")
	}
	if !s.started {
		s.started = true
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		s.source, s.err = startSource(ctx)
	}
	return s.source, s.err
}

// templateFor returns the slot of the template for this number of partitions.
func (s *sharedServer) templateFor(partitions int) *template {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.templates == nil {
		s.templates = map[int]*template{}
	}
	if s.templates[partitions] == nil {
		s.templates[partitions] = &template{}
	}
	return s.templates[partitions]
}

// stop drops the templates and ends the server, if it ever started.
func (s *sharedServer) stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source.stop == nil {
		return nil
	}
	var errs []error
	for _, t := range s.templates {
		if t.name != "" {
			errs = append(errs, dropDatabase(ctx, s.source.url, t.name))
		}
	}
	errs = append(errs, s.source.stop(ctx))
	s.source, s.opened = source{}, false
	return errors.Join(errs...)
}

// startSource chooses by the environment.
func startSource(ctx context.Context) (source, error) {
	if url := os.Getenv(Variable); url != "" {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return source{}, fmt.Errorf("pgtest: connect to the server of %s: %w", Variable, err)
		}
		return source{url: url, stop: func(context.Context) error { return nil }}, conn.Close(ctx)
	}
	kind, err := backend.Selected()
	if err != nil {
		return source{}, fmt.Errorf("pgtest: %w", err)
	}
	if kind == backend.Containers {
		return startContainer(ctx)
	}
	server, err := localpg.Start(ctx, localpg.Config{})
	if err != nil {
		return source{}, fmt.Errorf("pgtest: %w", err)
	}
	return source{url: server.URL(), stop: server.Stop}, nil
}
