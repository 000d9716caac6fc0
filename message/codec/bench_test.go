package codec_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/postrider/postrider/message/codec"
)

// history are the payloads of the demo's real events.
func history(tb testing.TB) [][]byte {
	tb.Helper()
	file, err := os.Open("../testdata/repo-history-12k.jsonl.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	var list [][]byte
	lines := bufio.NewScanner(unzipped)
	for lines.Scan() {
		var line struct{ Payload json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			tb.Fatal(err)
		}
		list = append(list, line.Payload)
	}
	return list
}

// bodies are the real payloads one by one, or gathered in arrays of about that size, as larger documents of the same kind.
func bodies(tb testing.TB, size int) [][]byte {
	tb.Helper()
	payloads := history(tb)
	if size == 0 {
		return payloads
	}
	var list [][]byte
	var gathered [][]byte
	n := 0
	for _, p := range payloads {
		gathered, n = append(gathered, p), n+len(p)
		if n >= size {
			list = append(list, fmt.Appendf(nil, "[%s]", bytes.Join(gathered, []byte(","))))
			gathered, n = nil, 0
		}
	}
	return list
}

func BenchmarkRealEvents(b *testing.B) {
	for _, e := range encodings {
		for _, size := range []int{0, 2 << 10, 8 << 10, 64 << 10, 1 << 20} {
			c := compressor(b, e, 0)
			list := bodies(b, size)
			var compressed [][]byte
			before, after := 0, 0
			for _, body := range list {
				out, did := c.Compress(body)
				before, after = before+len(body), after+len(out)
				if did {
					compressed = append(compressed, out)
				}
			}
			each := int64(before / len(list))
			b.Run(fmt.Sprintf("%s/%d/compress", e, size), func(b *testing.B) {
				b.SetBytes(each)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					c.Compress(list[i%len(list)])
				}
				b.ReportMetric(100*float64(after)/float64(before), "%size")
			})
			if len(compressed) == 0 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d/decompress", e, size), func(b *testing.B) {
				b.SetBytes(each)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := codec.Decompress(e, compressed[i%len(compressed)], 0); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
