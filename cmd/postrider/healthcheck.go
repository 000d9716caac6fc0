package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// healthcheckTimeout bounds the request. The server answers /readyz within 5 s; a container's health check should wait longer than both.
const healthcheckTimeout = 6 * time.Second

// healthcheckCmd asks a worker's monitor for its health. It replaces curl in images that hold this program alone.
type healthcheckCmd struct {
	HTTPAddr string `name:"http-addr" help:"Address of the worker's monitor, as the worker has it. Default 127.0.0.1:8080." placeholder:"HOST:PORT"`
	Ready    bool   `help:"Ask /readyz, which needs both servers, instead of /healthz."`
	JSON     bool   `help:"Print one JSON object, also where it fails." name:"json"`
}

// addresses returns the URLs of the monitor: loopback for a bind to all interfaces.
func (c *healthcheckCmd) addresses() ([]string, error) {
	if c.HTTPAddr == "off" {
		return nil, fmt.Errorf("%w: --http-addr is off: there is no monitor to ask", errRefused)
	}
	host, port, err := net.SplitHostPort(cmp.Or(c.HTTPAddr, defaultHTTPAddr))
	if err != nil {
		return nil, fmt.Errorf("%w: --http-addr: %w", errRefused, err)
	}
	if port == "" || port == "0" {
		return nil, fmt.Errorf("%w: --http-addr must name the port, got %q", errRefused, c.HTTPAddr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}, nil
	}
	return []string{net.JoinHostPort(host, port)}, nil
}

func (c *healthcheckCmd) Run(s *session) error {
	addresses, err := c.addresses()
	if err != nil {
		return err
	}
	path := "/healthz"
	if c.Ready {
		path = "/readyz"
	}
	ctx, cancel := context.WithTimeout(s.ctx, healthcheckTimeout)
	defer cancel()
	var failures error
	for _, address := range addresses {
		status, err := askHealth(ctx, "http://"+address+path)
		if err == nil {
			return answer(s.stdout, c.JSON, map[string]any{"healthy": true, "status": status, "address": address}, status)
		}
		failures = errors.Join(failures, err)
	}
	if c.JSON {
		return errors.Join(errSilent, writeJSON(s.stdout, map[string]any{"healthy": false, "error": redact(failures.Error())}))
	}
	return fmt.Errorf("healthcheck: %w", failures)
}

// askHealth returns the monitor's status.
func askHealth(ctx context.Context, url string) (status string, err error) {
	// No proxy: the request stays on this machine.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	var answer struct{ Status, Reason string }
	const most = 64 << 10
	decoded := json.NewDecoder(io.LimitReader(response.Body, most)).Decode(&answer)
	switch {
	case response.StatusCode != http.StatusOK && answer.Reason != "":
		return "", fmt.Errorf("%s answers %s: %s", url, response.Status, answer.Reason)
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s answers %s", url, response.Status)
	case decoded != nil || answer.Status == "":
		return "", fmt.Errorf("%s is no monitor of postrider: its answer is not the expected JSON", url)
	}
	return answer.Status, nil
}
