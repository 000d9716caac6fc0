package ui_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/ui"
)

// However many connections are held open, in whatever state, most are closed, health checks get through, and what is answered goes on.
func TestAThousandConnectionsLeaveTheMonitorAnswering(t *testing.T) {
	t.Parallel()
	const many, mostFrom = 1000, 256
	for name, text := range map[string]string{
		"that say nothing": "", "with half a request": "GET / HTTP/1.1\r\nHost: loc", "kept alive": "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logged
			// Nothing but the bound may close them.
			server, err := ui.NewServer(ui.ServerConfig{
				Addr: "127.0.0.1:0", ReadHeaderTimeout: time.Hour, ReadTimeout: time.Hour, IdleTimeout: time.Hour,
				Options: ui.Options{Source: always(cluster(1)), Logger: slog.New(slog.NewTextHandler(&log, nil))},
			})
			if err != nil {
				t.Fatal(err)
			}
			addr, err := server.Listen(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- server.Run(ctx) }()
			_, lines := stream(t, "http://"+addr.String())
			nextSnapshot(t, lines)

			closed := make(chan bool, many)
			var reading sync.WaitGroup
			var conns []net.Conn
			for range many {
				conn := begin(t, addr.String(), text)
				conns = append(conns, conn)
				reading.Go(func() {
					_, err := io.Copy(io.Discard, bufio.NewReader(conn))
					closed <- !errors.Is(err, os.ErrDeadlineExceeded)
				})
			}
			for n := range many - mostFrom {
				if !<-closed {
					t.Fatalf("%d connections were closed, want %d", n, many-mostFrom)
				}
			}
			answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}).Get("http://" + addr.String() + "/healthz") // it has a timeout
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("/healthz: status %d", answer.StatusCode)
			}
			nextSnapshot(t, lines) // a stream is no idle connection
			for _, conn := range conns {
				conn.Close()
			}
			reading.Wait()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if n := strings.Count(log.String(), "too many connections"); n != 1 {
				t.Errorf("%d warnings, want 1", n)
			}
		})
	}
}
