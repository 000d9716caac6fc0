package importer

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

const (
	readBuffer = 1 << 20
	// maxLine bounds a line, without its end; it is the outbox's own bound on a payload.
	maxLine = 64 << 20
)

// source yields the lines of a plain or gzip-compressed file.
type source struct {
	raw   *countingReader
	lines *bufio.Reader
	long  []byte // a line that outgrew the buffer
	line  int    // number of the line read last
	total int64
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func newSource(r io.Reader) (*source, error) {
	s := &source{raw: &countingReader{r: r}, total: sizeOf(r)}
	compressed := bufio.NewReaderSize(s.raw, readBuffer)
	magic, err := compressed.Peek(2)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return s, fmt.Errorf("read: %w", err)
	case !bytes.Equal(magic, []byte{0x1f, 0x8b}):
		s.lines = compressed
		return s, nil
	}
	unzip, err := gzip.NewReader(compressed)
	if err != nil {
		return s, readError(err)
	}
	s.lines = bufio.NewReaderSize(unzip, readBuffer)
	return s, nil
}

// sizeOf returns the rest of a regular file in bytes, else 0.
func sizeOf(r io.Reader) int64 {
	file, ok := r.(interface {
		Stat() (fs.FileInfo, error)
	})
	if !ok {
		return 0
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	size := info.Size()
	if seeker, ok := r.(io.Seeker); ok {
		if at, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			size -= at
		}
	}
	return max(size, 0)
}

// next returns the next line that is not blank, without its end, or io.EOF. The bytes are valid until the next call.
func (s *source) next() ([]byte, error) {
	for {
		line, err := s.read()
		if err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)) {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (s *source) read() ([]byte, error) {
	s.line++
	line, err := s.lines.ReadSlice('\n')
	if err == nil {
		return line, nil
	}
	s.long = append(s.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = s.lines.ReadSlice('\n')
		s.long = append(s.long, line...)
		if len(bytes.TrimRight(s.long, "\r\n")) > maxLine {
			return nil, inputError("the line is over %d MiB long", maxLine>>20)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, readError(err)
	}
	if err != nil && len(s.long) == 0 {
		s.line--
	}
	return s.long, err
}

// readError distinguishes a damaged file from a failing disk or network.
func readError(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return inputError("the gzip file is truncated: %w", err)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return inputError("the gzip file is damaged: %w", err)
	default:
		return fmt.Errorf("read: %w", err)
	}
}
