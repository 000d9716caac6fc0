package localpg_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/localpg"
)

// parentVariable makes the test binary play the process whose death its server must not survive.
const parentVariable = "LOCALPG_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		if err := runParent(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// runParent starts a server, says where, and stops it at the end of standard input.
func runParent() error {
	ctx := context.Background()
	server, err := localpg.Start(ctx, localpg.Config{})
	if err != nil {
		return err
	}
	if _, err := fmt.Printf("server %s %s\n", server.URL(), server.DataDir()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return server.Stop(ctx)
}
