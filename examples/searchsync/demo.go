package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// demoDocuments is how many documents the demo imports at once.
const demoDocuments = 500

// demo is the command demo: the whole of it in one process, with an index in a temporary folder.
func demo(ctx context.Context, s settings, _ []string, stdout io.Writer, _ *slog.Logger) (err error) {
	if s.dir, err = os.MkdirTemp("", "searchsync-demo-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	s.kind, s.listen = "bleve", "127.0.0.1:0"
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	ended := make(chan error, 1)
	read, write := io.Pipe()
	running.Go(func() {
		err := runServer(ctx, s, nil, write, slog.New(slog.DiscardHandler))
		ended <- err
		_ = write.CloseWithError(fmt.Errorf("searchsync ended: %w", err))
	})
	var address string
	if _, err := fmt.Fscanf(read, "searchsync answers on %s\n", &address); err != nil {
		return <-ended
	}
	c := client{address: address, stdout: stdout}
	return withStore(func(ctx context.Context, st *store, _ []string) error {
		return demoSteps(ctx, st, c, stdout)
	})(ctx, s, nil, stdout, nil)
}

func demoSteps(ctx context.Context, st *store, c client, stdout io.Writer) error {
	// A new index begins with what is in the database, and follows the events from there on.
	if err := c.reindex(ctx); err != nil {
		return err
	}
	documents := make([]document, demoDocuments)
	for i := range documents {
		documents[i] = document{ID: fmt.Sprintf("demo-%03d", i), Title: fmt.Sprintf("Letter %d", i), Body: "carried by the postrider"}
	}
	began := time.Now()
	if err := st.save(ctx, documents...); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "imported %d documents in one transaction\n", len(documents))
	if err := c.check(ctx, "60s"); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "in step after %.1f s\n", time.Since(began).Seconds())
	documents[7].Body = "lost on the road, and found"
	if err := st.save(ctx, documents[7]); err != nil {
		return err
	}
	for _, d := range documents[100:] {
		if err := st.remove(ctx, d.ID); err != nil {
			return err
		}
	}
	fmt.Fprintln(stdout, "changed one document and deleted 400")
	if err := c.check(ctx, "60s"); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "searching for: found road")
	return c.search(ctx, "found road")
}
