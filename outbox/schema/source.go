package schema

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/partition"
)

//go:embed migrations/*.sql
var embedded embed.FS

// source holds the embedded migrations with the schema's name and the partition count put into them.
type source struct {
	fs.FS
	values *strings.Replacer
}

func newSource(schema string, partitions partition.Count) (source, error) {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return source{}, fmt.Errorf("open embedded migrations: %w", err)
	}
	return source{FS: sub, values: strings.NewReplacer(
		"{schema}", pgx.Identifier{schema}.Sanitize(),
		"{partitions}", strconv.Itoa(int(partitions)),
	)}, nil
}

func (s source) Open(name string) (fs.File, error) {
	file, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read migration %s: %w", name, err)
	}
	return rendered{File: file, text: strings.NewReader(s.values.Replace(string(text)))}, nil
}

type rendered struct {
	fs.File
	text *strings.Reader
}

func (r rendered) Read(p []byte) (int, error) { return r.text.Read(p) }
