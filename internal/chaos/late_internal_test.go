package chaos

import (
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"
)

// Of two connections that are broken while they write, the first one's write is lost; the second one's arrives before the next write that relies
// on the same, and after what does not.
func TestWhatIsKeptArrivesBeforeWhatReliesOnIt(t *testing.T) {
	t.Parallel()
	p, err := NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan string, 10)
	var serving sync.WaitGroup
	t.Cleanup(func() { p.Close(); _ = listener.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				for b := make([]byte, 100); ; {
					n, err := conn.Read(b)
					if err != nil {
						return
					}
					came <- string(b[:n])
					_, _ = conn.Write([]byte("heard")) // what comes back to a broken end must not stop what is kept
				}
			})
		}
	})
	r := route{os.Getpid(), "one"}
	over := make(chan struct{})
	p.ambushes[r] = &ambush{sent: []byte("END"), rely: regexp.MustCompile(`PUT \S+ `), left: 2, over: over}
	write := func(text string) net.Conn {
		conn, err := (Dialer{Proxy: p.Address(), Server: r.server}).Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	broken := func(conn net.Conn) {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("it was not broken: %v", err)
		}
		_ = conn.Close()
	}
	broken(write("PUT a lost END"))
	broken(write("PUT a kept END"))
	other := write("PUT b other")
	defer other.Close()
	if _, err := io.ReadFull(other, make([]byte, len("heard"))); err != nil {
		t.Fatal(err)
	}
	next := write("PUT a next")
	defer next.Close()
	if _, err := io.ReadFull(next, make([]byte, len("heard"))); err != nil {
		t.Fatal(err)
	}
	<-over
	var got []string
	for range len(came) {
		got = append(got, <-came)
	}
	if want := []string{"PUT b other", "PUT a kept END", "PUT a next"}; !slices.Equal(got, want) {
		t.Errorf("there came %q, want %q", got, want)
	}
}
