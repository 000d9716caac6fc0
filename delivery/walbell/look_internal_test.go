package walbell

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/partition"
)

func TestAPoolerIsNamed(t *testing.T) {
	t.Parallel()
	for _, answer := range []pgconn.PgError{
		{Code: violation, Message: "unsupported startup parameter: replication"},
		{Code: syntaxIsUnknown, Message: `syntax error at or near "IDENTIFY_SYSTEM"`},
	} {
		if err := explained(&answer); !strings.Contains(err.Error(), "pooler") || !errors.Is(err, &answer) {
			t.Errorf("%v", err)
		}
	}
	if err := explained(&pgconn.PgError{Code: "57P01"}); strings.Contains(err.Error(), "to mend it") {
		t.Errorf("%v", err)
	}
}

func TestALongNameIsCutAsPostgreSQLDoes(t *testing.T) {
	t.Parallel()
	if name := publication(strings.Repeat("s", 63)); len(name) != 63 || !strings.HasPrefix(name, "postrider_s") {
		t.Errorf("%s", name)
	}
}

func TestConfigRefusesByName(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{"Ring": {}, "Interval": {Ring: func(...partition.ID) {}, Interval: 1}} {
		if _, err := New(c, nil); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
