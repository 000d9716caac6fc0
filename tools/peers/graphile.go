package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/tools/bench/measure"
)

// graphileVersion is the newest that runs on Node.js before 22.
const graphileVersion = "0.17.3"

//go:embed graphile.mjs
var graphileScript []byte

// graphiles returns graphile-worker with and without a local queue, installed into a directory, or the error of the installation.
func graphiles(ctx context.Context, dir string) ([]measure.System, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	if err := installGraphile(ctx, dir); err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "graphile.mjs")
	if err := os.WriteFile(script, graphileScript, 0o600); err != nil {
		return nil, err
	}
	create := func(ctx context.Context, database string) error {
		cli := filepath.Join(dir, "node_modules", "graphile-worker", "dist", "cli.js")
		if out, err := exec.CommandContext(ctx, node, cli, "--schema-only", "--connection", database).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	system := func(about, argument string) measure.System {
		return measure.System{
			Name: "graphile-worker " + graphileVersion + ", " + about, Command: []string{node, script, argument}, Create: create, Producer: produceGraphile,
		}
	}
	return []measure.System{system("24 jobs", "single"), system("24 jobs, local queue", "local")}, nil
}

// installGraphile installs graphile-worker with npm unless that version is there.
func installGraphile(ctx context.Context, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", "graphile-worker", "package.json"))
	var installed struct{ Version string }
	if err == nil && json.Unmarshal(text, &installed) == nil && installed.Version == graphileVersion {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	install := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts",
		"graphile-worker@"+graphileVersion)
	if out, err := install.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return nil
}

func produceGraphile() (measure.Insert, error) {
	return func(ctx context.Context, tx pgx.Tx, e measure.PeerEvent) error {
		payload, err := json.Marshal(handledOf(e))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT graphile_worker.add_job('handled', $1::json)`, string(payload))
		return err
	}, nil
}
