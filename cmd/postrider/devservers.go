package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/localpg"
)

// lowestDevPort and highestDevPort bound --port: all ports follow it.
const lowestDevPort, highestDevPort = 1024, 65_500

// devPorts are the ports of the servers of a `dev`; 0: any free one.
type devPorts struct {
	Postgres int   `json:"postgres"`
	Monitor  int   `json:"monitor"`
	NATS     []int `json:"nats"`
}

// portsFile keeps the ports in --data-dir.
const portsFile = "ports.json"

// ports returns the ports of the flags, or of an earlier start.
func (c *devCmd) ports() (p devPorts, err error) {
	if c.Port > 0 {
		p = devPorts{Postgres: c.Port, Monitor: c.Port + 1}
		for i := range c.NatsNodes {
			p.NATS = append(p.NATS, c.Port+2+i)
		}
		return p, nil
	}
	if c.DataDir == "" {
		return p, nil
	}
	text, err := os.ReadFile(filepath.Join(c.DataDir, portsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, fmt.Errorf("%w: --data-dir: %s: %w; remove it, or give --port", errRefused, portsFile, err)
	}
	return p, nil
}

// keepPorts stores the servers' ports for the next start.
func (d *dev) keepPorts() error {
	if d.cmd.DataDir == "" {
		return nil
	}
	if d.postgres != nil {
		d.ports.Postgres = portOf(d.databaseURL)
	}
	if d.broker != nil {
		d.ports.NATS = nil
		for one := range strings.SplitSeq(d.natsURL, ",") {
			d.ports.NATS = append(d.ports.NATS, portOf(one))
		}
	}
	if d.monitor != "" && !d.elsewhere {
		d.ports.Monitor = portOf(d.monitor)
	}
	text, err := json.Marshal(d.ports)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.cmd.DataDir, portsFile), append(text, '\n'), 0o644); err != nil { //nolint:gosec // no secret
		return fmt.Errorf("--data-dir: %w", err)
	}
	return nil
}

func portOf(address string) int {
	parsed, err := url.Parse(address)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(parsed.Port()) // without one, any port is right
	return port
}

// cureOf adds the cure to the error of a taken port.
func (d *dev) cureOf(err error, port int) error {
	taken := errors.Is(err, localpg.ErrPortTaken) || errors.Is(err, localnats.ErrPortTaken) || errors.Is(err, syscall.EADDRINUSE)
	if !taken || port == 0 {
		return err
	}
	from := "--port"
	if d.cmd.Port == 0 {
		from = filepath.Join(d.cmd.DataDir, portsFile)
	}
	return fmt.Errorf("%w (port %d is that of %s; --port chooses others)", err, port, from)
}

// forgetShell removes the variables of PostgreSQL's clients: they are meant for another server than the private one.
func forgetShell() error {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			if err := os.Unsetenv(name); err != nil {
				return fmt.Errorf("remove %s: %w", name, err)
			}
		}
	}
	return nil
}

func (d *dev) startPostgres(ctx context.Context) error {
	if d.databaseURL = d.cmd.DatabaseURL; d.databaseURL != "" {
		return nil
	}
	cfg := localpg.Config{Logger: d.log, Port: d.ports.Postgres, Settings: map[string]string{"wal_level": "logical"}}
	if d.cmd.DataDir != "" {
		// The server's user must be able to enter the folder.
		if err := os.MkdirAll(d.cmd.DataDir, 0o755); err != nil { // the folders inside are closed
			return fmt.Errorf("--data-dir: %w", err)
		}
		cfg.DataDir = filepath.Join(d.cmd.DataDir, "postgres")
	}
	started := time.Now()
	server, err := localpg.Start(ctx, cfg)
	if err != nil {
		return d.cureOf(err, cfg.Port)
	}
	d.later(ctx, "PostgreSQL", 30*time.Second, server.Stop)
	d.postgres, d.databaseURL = server, server.URL()
	d.say("PostgreSQL   private, up in %s", time.Since(started).Round(time.Millisecond))
	return nil
}

func (d *dev) startNATS(ctx context.Context) error {
	if d.natsURL = d.cmd.NatsURL; d.natsURL != "" {
		return nil
	}
	cfg := localnats.Config{Nodes: d.cmd.NatsNodes, Logger: d.log, Ports: d.ports.NATS}
	cfg.Ports = cfg.Ports[:min(len(cfg.Ports), d.cmd.NatsNodes)]
	if d.cmd.DataDir != "" {
		cfg.StoreDir = filepath.Join(d.cmd.DataDir, "nats")
	}
	cluster, err := localnats.Start(ctx, cfg)
	if err != nil {
		if len(cfg.Ports) > 0 {
			return d.cureOf(err, cfg.Ports[0])
		}
		return err
	}
	d.stops = append(d.stops, func() {
		if err := cluster.Stop(); err != nil {
			d.log.Warn("NATS did not stop in good order", "error", err)
		}
	})
	d.broker, d.natsURL = cluster, cluster.URL()
	d.say("NATS         in process, %s", english.Plural(d.cmd.NatsNodes, "node", ""))
	return nil
}

// tellAddresses prints the shell variables that reach the private servers; the user knows the others.
func (d *dev) tellAddresses() {
	out := d.session.stdout
	if d.cmd.JSON {
		out = d.session.stderr
	}
	if d.postgres != nil {
		fmt.Fprintf(out, "export DATABASE_URL='%s'\n", d.databaseURL)
	}
	if d.broker != nil {
		fmt.Fprintf(out, "export NATS_URL=%s\n", d.natsURL)
	}
}
