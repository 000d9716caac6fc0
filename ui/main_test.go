package ui_test

import (
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// Main also fails the run when a goroutine is left.
func TestMain(m *testing.M) { clustertest.Main(m) }
