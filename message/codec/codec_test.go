package codec_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/message/codec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var encodings = []codec.Encoding{codec.Zstd, codec.S2, codec.Gzip}

func compressor(t testing.TB, e codec.Encoding, above int) *codec.Compressor {
	t.Helper()
	c, err := codec.NewCompressor(e, above)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// samples are bodies of many kinds and lengths, the same in every run.
func samples() map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	var text bytes.Buffer
	for i := range 2_000 {
		fmt.Fprintf(&text, `{"order":%d,"customer":"c-%d","lines":[{"sku":"s%x","n":%d}]}`, i, random.IntN(500), random.Uint32(), random.IntN(9))
	}
	return map[string][]byte{
		"one byte": {'x'}, "short": []byte(`{"a":1}`), "noise": noise, "zeros": make([]byte, 300_000),
		"text 1k": text.Bytes()[:1000], "text 10k": text.Bytes()[:10_000], "text": text.Bytes(),
	}
}

func TestBodiesComeBack(t *testing.T) {
	t.Parallel()
	for _, e := range encodings {
		c := compressor(t, e, 0)
		for name, body := range samples() {
			before := bytes.Clone(body)
			out, compressed := c.Compress(body)
			if !bytes.Equal(body, before) {
				t.Errorf("%s %s: the body was changed", e, name)
			}
			if !compressed {
				if !bytes.Equal(out, body) || strings.HasPrefix(name, "text") || name == "zeros" {
					t.Errorf("%s %s was not compressed", e, name)
				}
				continue
			}
			if len(out) >= len(body) {
				t.Errorf("%s %s: %d bytes became %d", e, name, len(body), len(out))
			}
			back, err := codec.Body(map[string][]string{codec.Header: {string(e)}}, out, 0)
			if err != nil || !bytes.Equal(back, body) {
				t.Errorf("%s %s: %v, %d bytes of %d", e, name, err, len(back), len(body))
			}
		}
	}
}

func TestOnlyBodiesAboveTheSizeAreCompressed(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("a"), 1000)
	for _, e := range encodings {
		if _, compressed := compressor(t, e, 1000).Compress(body); compressed {
			t.Errorf("%s compressed a body of just that size", e)
		}
		if _, compressed := compressor(t, e, 999).Compress(body); !compressed {
			t.Errorf("%s compressed no body above the size", e)
		}
	}
	if out, compressed := (*codec.Compressor)(nil).Compress(body); compressed || !bytes.Equal(out, body) {
		t.Error("no compressor compressed something")
	}
	if _, err := codec.NewCompressor("br", 0); !errors.Is(err, codec.ErrEncoding) {
		t.Errorf("br: %v", err)
	}
	if _, err := codec.NewCompressor(codec.Zstd, -1); err == nil {
		t.Error("a negative size was taken")
	}
}

var update = flag.Bool("update", false, "write testdata/golden.json anew")

// The same bytes are compressed to the same bytes: beside others in the same process, and in processes of other days, which the golden
// file stands for. It changes when the library does; then the bytes of messages that are published again change, too, and the changelog
// has to say so.
func TestCompressingIsDeterministic(t *testing.T) {
	t.Parallel()
	const golden = "testdata/golden.json"
	want := map[string]string{}
	if text, err := os.ReadFile(golden); err == nil {
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
	} else if !*update {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range encodings {
		shared := compressor(t, e, 0)
		first := map[string]string{}
		for name, body := range samples() {
			out, _ := compressor(t, e, 0).Compress(body)
			first[name] = sum(out)
			if key := string(e) + " " + name; e != codec.S2 || runtime.GOARCH == "amd64" {
				got[key] = sum(out)
			}
		}
		var running sync.WaitGroup
		for range 4 { // many at once, in an order that the map makes random
			running.Go(func() {
				for range 2 {
					for name, body := range samples() {
						if out, _ := shared.Compress(body); sum(out) != first[name] {
							t.Errorf("%s %s: other bytes than the first time", e, name)
						}
					}
				}
			})
		}
		running.Wait()
	}
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll("testdata", 0o755); err != nil { // part of the repository
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, append(text, '\n'), 0o644); err != nil { // part of the repository
			t.Fatal(err)
		}
		return
	}
	for key, sum := range got {
		if want[key] != sum {
			t.Errorf("%s: other bytes than the golden file's", key)
		}
	}
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:8])
}

func TestBombsAreStopped(t *testing.T) { //nolint:paralleltest // it measures memory
	bomb := make([]byte, 96<<20)
	bombs := map[codec.Encoding][]byte{}
	for _, e := range encodings {
		bombs[e], _ = compressor(t, e, 0).Compress(bomb)
	}
	bomb = nil
	_ = bomb
	const limit = 1 << 20
	for e, body := range bombs {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		if _, err := codec.Decompress(e, body, limit); !errors.Is(err, codec.ErrTooLarge) {
			t.Errorf("%s: 96 MiB in %d bytes: %v", e, len(body), err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 40<<20 {
			t.Errorf("%s: %d bytes of memory for a limit of %d", e, used, limit)
		}
		if out, err := codec.Decompress(e, body, 96<<20); err != nil || len(out) != 96<<20 {
			t.Errorf("%s within its limit: %d bytes, %v", e, len(out), err)
		}
		if _, err := codec.Decompress(e, body, 0); !errors.Is(err, codec.ErrTooLarge) {
			t.Errorf("%s: without a limit: %v", e, err)
		}
	}
}

func TestDamagedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	body := samples()["text 10k"]
	for _, e := range encodings {
		whole, _ := compressor(t, e, 0).Compress(body)
		for name, damaged := range map[string][]byte{
			"empty": {}, "cut off": whole[:len(whole)-1], "only a beginning": whole[:5], "garbage behind it": append(bytes.Clone(whole), "garbage"...),
			"other bytes": []byte("not compressed at all"),
		} {
			out, err := codec.Decompress(e, damaged, 0)
			if !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, codec.ErrTooLarge) {
				t.Errorf("%s %s: %d bytes, %v", e, name, len(out), err)
			}
		}
	}
	for _, name := range []string{"br", "zstd, gzip", strings.Repeat("x", 10_000)} {
		_, err := codec.Body(map[string][]string{"content-encoding": {name}}, body, 0)
		if !errors.Is(err, codec.ErrEncoding) || len(err.Error()) > 200 {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	if out, err := codec.Body(map[string][]string{"Content-Type": {"zstd"}}, body, 0); err != nil || !bytes.Equal(out, body) {
		t.Errorf("without the header: %v", err)
	}
}

// Other programs can read what is called gzip.
func TestGzipIsGzip(t *testing.T) {
	t.Parallel()
	body := samples()["text"]
	out, _ := compressor(t, codec.Gzip, 0).Compress(body)
	r, err := gzip.NewReader(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if back, err := io.ReadAll(r); err != nil || !bytes.Equal(back, body) {
		t.Errorf("%v, %d bytes", err, len(back))
	}
}

func FuzzDecompress(f *testing.F) {
	for i, e := range encodings {
		for _, body := range [][]byte{[]byte(strings.Repeat("postrider ", 50)), make([]byte, 5000)} {
			out, _ := compressor(f, e, 0).Compress(body)
			f.Add(i, out)
		}
	}
	f.Fuzz(func(t *testing.T, which int, body []byte) {
		const limit = 1 << 16
		e := encodings[uint(which)%uint(len(encodings))]
		out, err := codec.Decompress(e, body, limit)
		if err == nil && len(out) > limit {
			t.Errorf("%s: %d bytes above the limit", e, len(out)-limit)
		}
	})
}
