package schema_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/partition"
)

// TestHashGolden reads the file that the Go package's test reads.
func TestHashGolden(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	file, err := os.Open("../../partition/testdata/xxhash64.golden")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	counts := []int{1, 2, 3, 5, 7, 64, 100, 256, 1000, 32767}
	lines := 0
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		if strings.HasPrefix(scanner.Text(), "#") {
			continue
		}
		lines++
		fields := strings.Split(scanner.Text(), "\t")
		key := goldenKey(t, fields[0])
		if got := one[int64](t, conn, `SELECT outbox_xxhash64($1)`, key); fmt.Sprintf("%016x", uint64(got)) != fields[1] {
			t.Errorf("outbox_xxhash64 of %.60s = %016x, want %s", fields[0], uint64(got), fields[1])
		}
		placed := one[string](t, conn, `SELECT string_agg(outbox_partition($1, n)::text, ' ' ORDER BY n) FROM unnest($2::int[]) AS n`, string(key), counts)
		if placed != fields[2] {
			t.Errorf("outbox_partition of %.60s = %s, want %s", fields[0], placed, fields[2])
		}
	}
	if lines < 70 {
		t.Errorf("golden file has only %d keys", lines)
	}
}

func goldenKey(t *testing.T, field string) []byte {
	t.Helper()
	kind, rest, _ := strings.Cut(field, ":")
	length, unit := -1, rest
	if kind == "repeat" {
		var number string
		number, unit, _ = strings.Cut(rest, ":")
		var err error
		if length, err = strconv.Atoi(number); err != nil {
			t.Fatal(err)
		}
	}
	key, err := hex.DecodeString(unit)
	if err != nil {
		t.Fatal(err)
	}
	if length >= 0 {
		key = []byte(strings.Repeat(string(key), length/len(key)+1)[:length])
	}
	return key
}

// TestHashAgrees compares both implementations on random keys.
func TestHashAgrees(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	rapid.Check(t, func(r *rapid.T) {
		keys := rapid.SliceOfN(rapid.StringN(0, -1, 150), 1, 20).Draw(r, "keys")
		n := rapid.IntRange(1, 32767).Draw(r, "n")
		for i := range keys {
			keys[i] = strings.ReplaceAll(keys[i], "\x00", "0") // PostgreSQL's text has no NUL
		}
		rows, err := conn.Query(t.Context(), `SELECT outbox_partition(k, $2) FROM unnest($1::text[]) WITH ORDINALITY AS u (k, i) ORDER BY i`, keys, n)
		if err != nil {
			r.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[partition.ID])
		if err != nil {
			r.Fatal(err)
		}
		for i, key := range keys {
			if want := partition.Of(key, partition.Count(n)); got[i] != want {
				r.Errorf("outbox_partition(%q, %d) = %d, want %d", key, n, got[i], want)
			}
		}
	})
}

func TestPartitionRefusesCounts(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	for _, n := range []int{-1, 0, 32768} {
		if _, err := conn.Exec(t.Context(), `SELECT outbox_partition('a', $1)`, n); err == nil {
			t.Errorf("outbox_partition accepted %d partitions", n)
		}
	}
	if !one[bool](t, conn, `SELECT outbox_partition(NULL, 4) IS NULL`) {
		t.Error("NULL key is not NULL")
	}
}
