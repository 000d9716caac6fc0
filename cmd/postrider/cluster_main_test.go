package main

import (
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// shortTTL keeps the tests of takeovers fast.
func shortTTL() []string { return []string{"--lease-ttl=3s"} }
