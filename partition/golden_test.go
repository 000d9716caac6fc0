package partition_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/postrider/postrider/partition"
)

var update = flag.Bool("update", false, "write testdata/xxhash64.golden anew; only new keys may change it")

var goldenCounts = []partition.Count{1, 2, 3, 5, 7, 64, 100, 256, 1000, 32767}

const goldenHeader = `# XXH64 (seed 0) of keys and their partitions. Read by the tests of the Go package
# partition and of the SQL function outbox_partition. No line may ever change: stored
# rows were placed by it.
# key <tab> hash, 16 hex digits <tab> partitions for n = 1 2 3 5 7 64 100 256 1000 32767
# A key is "hex:" and its UTF-8 bytes in hexadecimal, or "repeat:" length ":" unit in
# hexadecimal: the unit repeated, cut to that many bytes.
`

func goldenKeys() []string {
	keys := []string{
		"hex:", "hex:" + hexOf("a"), "hex:" + hexOf("order-1"), "hex:" + hexOf("order-2"), "hex:" + hexOf("café"),
		"hex:" + hexOf("Straße"), "hex:" + hexOf("日本語"), "hex:" + hexOf("🐴📯"), "hex:" + hexOf("عربى"),
		"hex:" + hexOf("a\u0301"), "hex:" + hexOf("á"), "hex:" + hexOf(" "), "hex:" + hexOf("\t\n"), "hex:" + hexOf("'; DROP TABLE events; --"),
		"hex:" + hexOf("00000000-0000-0000-0000-000000000000"), "hex:" + hexOf("\x7f\u0080\u07ff\u0800\uffff\U00010000\U0010ffff"),
		"hex:" + hexOf("Nobody inspects the spammish repetition"),
	}
	const text = "postrider carries the mail over one stretch of road"
	for n := 1; n <= 40; n++ {
		keys = append(keys, "hex:"+hexOf(text[:n]))
	}
	for _, n := range []int{63, 64, 65, 127, 128, 255, 1000, 1024, 100_000, 100_003} {
		keys = append(keys, fmt.Sprintf("repeat:%d:%s", n, hexOf("The quick brown fox. ")), fmt.Sprintf("repeat:%d:7f", n))
	}
	return keys
}

func hexOf(s string) string { return hex.EncodeToString([]byte(s)) }

func decodeKey(t *testing.T, field string) string {
	t.Helper()
	if text, ok := strings.CutPrefix(field, "hex:"); ok {
		return unhex(t, text)
	}
	rule, ok := strings.CutPrefix(field, "repeat:")
	length, unit, ok2 := strings.Cut(rule, ":")
	n, err := strconv.Atoi(length)
	if !ok || !ok2 || err != nil {
		t.Fatalf("golden file: unknown key %q", field)
	}
	u := unhex(t, unit)
	return strings.Repeat(u, n/len(u)+1)[:n]
}

func unhex(t *testing.T, text string) string {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatalf("golden file: %v", err)
	}
	return string(b)
}

func goldenLine(field, key string) string {
	var line strings.Builder
	fmt.Fprintf(&line, "%s\t%016x\t", field, partition.Hash(key))
	for i, n := range goldenCounts {
		if i > 0 {
			line.WriteByte(' ')
		}
		fmt.Fprint(&line, partition.Of(key, n))
	}
	return line.String()
}

// TestGolden compares every line with what the code computes now.
func TestGolden(t *testing.T) {
	t.Parallel()
	const file = "testdata/xxhash64.golden"
	if *update {
		var text bytes.Buffer
		text.WriteString(goldenHeader)
		for _, field := range goldenKeys() {
			text.WriteString(goldenLine(field, decodeKey(t, field)) + "\n")
		}
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		line := scanner.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		lines++
		field, _, _ := strings.Cut(line, "\t")
		if got := goldenLine(field, decodeKey(t, field)); got != line {
			t.Errorf("the hash of a key changed:\n got %s\nwant %s", got, line)
		}
	}
	if want := len(goldenKeys()); lines < want {
		t.Errorf("golden file has %d keys, want at least %d", lines, want)
	}
}

// TestHashKnownAnswers holds values that other implementations publish, so that
// the golden file itself cannot be wrong.
func TestHashKnownAnswers(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint64{
		"":     0xef46db3751d8e999,
		"a":    0xd24ec4f1a98c6e5b,
		"as":   0x1c330fb2d66be179,
		"asd":  0x631c37ce72a97393,
		"asdf": 0x415872f599cea71e,
		"Call me Ishmael. Some years ago--never mind how long precisely-": 0x02a2e85470d6fd96,
	} {
		if got := partition.Hash(key); got != want {
			t.Errorf("Hash(%q) = %016x, want %016x", key, got, want)
		}
	}
}
