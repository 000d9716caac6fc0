package chaos_test

import (
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }
