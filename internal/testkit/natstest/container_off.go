//go:build !containers

package natstest

import (
	"context"
	"errors"
	"testing"

	"github.com/postrider/postrider/internal/localnats"
)

// startContainers needs the Docker client, which is linked on demand only.
func startContainers(context.Context, testing.TB, localnats.Config) (string, error) {
	return "", errors.New("the containers backend needs `go test -tags containers`")
}
