//go:build !containers

package pgtest

import (
	"context"
	"errors"
)

// startContainer needs the Docker client, which is linked on demand only.
func startContainer(context.Context) (source, error) {
	return source{}, errors.New("pgtest: the containers backend needs `go test -tags containers`")
}
