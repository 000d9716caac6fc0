package faultproxy

import "slices"

type protocol interface {
	// name is for messages.
	name() string
	// frame returns the length of the first frame in data, which may be more than there is, or 0 when that cannot be told yet.
	frame(data []byte) (int, error)
	// judge returns the bytes that pass in the place of a whole frame: the frame, others, or none. With an action nothing passes behind that,
	// and the action follows it.
	judge(frame []byte) ([]byte, action)
	// rest returns, at the end of the stream, kept bytes that pass after all.
	rest() []byte
}

// filter gives a stream to a protocol frame by frame. A nil filter lets everything pass.
type filter struct {
	proxy    *Proxy
	protocol protocol
	tail     []byte // the beginning of a frame
	blind    bool   // the stream is not of the protocol
}

// pass takes the next bytes and returns those that may go on. They are a copy.
func (f *filter) pass(data []byte) (out []byte, after action) {
	if f == nil || f.blind {
		return slices.Clone(data), nil
	}
	f.tail = append(f.tail, data...)
	left := f.tail
	for len(left) > 0 {
		n, err := f.protocol.frame(left)
		if err != nil {
			f.proxy.unreadable(f.protocol.name(), err)
			out = append(out, f.protocol.rest()...)
			out = append(out, left...)
			f.blind, f.tail = true, nil
			return out, nil
		}
		if n == 0 || n > len(left) {
			break
		}
		passed, act := f.protocol.judge(left[:n])
		out = append(out, passed...)
		if act != nil {
			f.tail = nil
			return out, act
		}
		left = left[n:]
	}
	if len(left) < len(f.tail) {
		f.tail = append(f.tail[:0], left...)
	}
	return out, nil
}

// rest returns, once, the bytes kept back while the stream went on.
func (f *filter) rest() []byte {
	if f == nil || f.blind {
		return nil
	}
	out := append(f.protocol.rest(), f.tail...)
	f.tail = nil
	return out
}
