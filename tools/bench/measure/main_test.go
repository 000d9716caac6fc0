package measure

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == PartCommand { // a child of the benchmark
		if err := RunPart(context.Background(), os.Args[2], os.Stdin, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	clustertest.Main(m)
}
