package ui_test

import (
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// Main also fails the run when a goroutine is left.
func TestMain(m *testing.M) { pgtest.Main(m) }
