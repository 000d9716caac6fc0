//go:build containers

package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/loopback"
	"github.com/postrider/postrider/internal/testkit/container"
)

const (
	// imageVariable names another image that follows the conventions of the official one.
	imageVariable = "POSTRIDER_TEST_POSTGRES_IMAGE"
	defaultImage  = "postrider-test/postgres:latest"
)

// portAttempts bounds the replacements of a port that was taken in the meantime.
const portAttempts = 5

// startContainer starts a server with the same settings as a private temporary one.
func startContainer(ctx context.Context) (s source, err error) {
	for range portAttempts {
		if s, err = tryContainer(ctx); !container.PortTaken(err) {
			break
		}
	}
	return s, err
}

func tryContainer(ctx context.Context) (source, error) {
	port, err := loopback.FreePort(ctx)
	if err != nil {
		return source{}, fmt.Errorf("pgtest: %w", err)
	}
	password := rand.Text()
	address := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", password),
		Host: loopback.Host + ":" + strconv.Itoa(port), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	command := []string{"postgres", "-c", "port=" + strconv.Itoa(port), "-c", "listen_addresses=" + loopback.Host}
	for _, settings := range []map[string]string{localpg.DefaultSettings(), localpg.TemporarySettings()} {
		for name, value := range settings {
			command = append(command, "-c", name+"="+value)
		}
	}
	stop, err := container.Run(ctx, container.Spec{
		Image:   cmp.Or(os.Getenv(imageVariable), defaultImage),
		Command: command,
		Env:     map[string]string{"POSTGRES_PASSWORD": password},
		Ready:   func(ctx context.Context) error { return ping(ctx, address.String()) },
	})
	if err != nil {
		return source{}, fmt.Errorf("pgtest: %w", err)
	}
	return source{url: address.String(), stop: stop}, nil
}

func ping(ctx context.Context, address string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}
