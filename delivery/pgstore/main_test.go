package pgstore_test

import (
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
