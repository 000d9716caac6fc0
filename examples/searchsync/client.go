package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
)

// errDifferences makes check end with status 1; what differs was printed.
var errDifferences = errors.New("the index differs from the database")

// client asks a running searchsync.
type client struct {
	address string
	json    bool
	stdout  io.Writer
}

func (c client) do(ctx context.Context, method, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.address, "/")+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("--server: is searchsync run up? %w", err)
	}
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
		return nil, errors.Join(fmt.Errorf("%s", strings.TrimSpace(string(text))), err, response.Body.Close())
	}
	return response.Body, nil
}

// get reads an answer into value, and prints it as it is with --json.
func (c client) get(ctx context.Context, method, path string, value any) error {
	body, err := c.do(ctx, method, path)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return err
	}
	if c.json {
		fmt.Fprintln(c.stdout, string(bytes.TrimSpace(text)))
	}
	return json.Unmarshal(text, value)
}

func (c client) search(ctx context.Context, query string) error {
	var found []document
	if err := c.get(ctx, http.MethodGet, "/search?q="+url.QueryEscape(query), &found); err != nil || c.json {
		return err
	}
	table := tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', 0)
	for _, d := range found {
		fmt.Fprintf(table, "%s\tv%d\t%s\n", d.ID, d.Version, d.Title)
	}
	return table.Flush()
}

func (c client) check(ctx context.Context, settle string) error {
	var r report
	if err := c.get(ctx, http.MethodGet, "/check?settle="+url.QueryEscape(settle), &r); err != nil {
		return err
	}
	if !c.json {
		c.print(r)
	}
	if r.differences() > 0 {
		return errDifferences
	}
	return nil
}

func (c client) print(r report) {
	fmt.Fprintf(c.stdout, "%d documents, %d in the index: %d missing, %d stale, %d extra\n",
		r.Documents, r.Entries, len(r.Missing), len(r.Stale), len(r.Extra))
	for name, ids := range map[string][]string{"missing": r.Missing, "stale": r.Stale, "extra": r.Extra} {
		for _, id := range ids {
			fmt.Fprintf(c.stdout, "%s\t%s\n", name, id)
		}
	}
}

func (c client) repair(ctx context.Context, settle string) error {
	var r repaired
	if err := c.get(ctx, http.MethodPost, "/repair?settle="+url.QueryEscape(settle), &r); err != nil {
		return err
	}
	if !c.json {
		c.print(r.report)
		fmt.Fprintf(c.stdout, "repaired %d, failed %d, refused %d\n", r.differences()-r.Failed-r.Refused, r.Failed, r.Refused)
	}
	if r.Failed+r.Refused > 0 {
		return errDifferences
	}
	return nil
}

// reindex prints what the server says until it is done.
func (c client) reindex(ctx context.Context) error {
	body, err := c.do(ctx, http.MethodPost, "/reindex")
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		if problem, failed := strings.CutPrefix(lines.Text(), "error: "); failed {
			return errors.New(problem)
		}
		fmt.Fprintln(c.stdout, lines.Text())
		if lines.Text() == "done" {
			return nil
		}
	}
	return errors.Join(errors.New("the answer ended before the reindex was done; run it again"), lines.Err())
}

func (c client) parked(ctx context.Context) error {
	var list []parkedMessage
	if err := c.get(ctx, http.MethodGet, "/parked", &list); err != nil || c.json {
		return err
	}
	table := tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "DOCUMENT\tSTATE\tATTEMPTS\tREASON")
	for _, p := range list {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", p.Document, p.State, p.Attempts, p.Reason)
	}
	return table.Flush()
}

func (c client) requeue(ctx context.Context) error {
	var n struct {
		Requeued int `json:"requeued"`
	}
	if err := c.get(ctx, http.MethodPost, "/requeue", &n); err != nil || c.json {
		return err
	}
	fmt.Fprintln(c.stdout, n.Requeued, "documents are tried again")
	return nil
}
