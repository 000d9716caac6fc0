package ui_test

import (
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// Pages and API are tested here through the handler, as people and programs meet them. Main also fails the run when a goroutine is left.
func TestMain(m *testing.M) { clustertest.Main(m) }
