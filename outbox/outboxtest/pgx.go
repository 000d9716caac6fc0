package outboxtest

import (
	"context"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Query answers the statements of AppendTx and Read.
func (f *Fake) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	values, err := f.answer(sql, args)
	if err != nil {
		return nil, err
	}
	return &rows{values: values}, nil
}

// Begin begins an inner transaction, which Rollback undoes alone. pgx.BeginFunc takes a Fake in the place of a pool.
func (f *Fake) Begin(context.Context) (pgx.Tx, error) { return f.begin() }

// Commit ends the transaction. The events of an inner one stay with the outer one.
func (f *Fake) Commit(context.Context) error { return f.commit() }

// Rollback ends the transaction and takes its events back.
func (f *Fake) Rollback(context.Context) error { return f.rollback() }

// Exec is refused with ErrNotOfTheOutbox.
func (f *Fake) Exec(_ context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	_, err := f.answer(sql, nil)
	return pgconn.CommandTag{}, err
}

// QueryRow is refused with ErrNotOfTheOutbox.
func (f *Fake) QueryRow(_ context.Context, sql string, _ ...any) pgx.Row {
	_, err := f.answer(sql, nil)
	return failing{err}
}

// CopyFrom is refused with ErrNotOfTheOutbox.
func (f *Fake) CopyFrom(_ context.Context, table pgx.Identifier, _ []string, _ pgx.CopyFromSource) (int64, error) {
	return 0, refused("COPY " + table.Sanitize())
}

// SendBatch is refused with ErrNotOfTheOutbox: a Fake does not know QueueAppend.
func (f *Fake) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults {
	return failing{refused("a batch")}
}

// Prepare is refused with ErrNotOfTheOutbox.
func (f *Fake) Prepare(_ context.Context, _, sql string) (*pgconn.StatementDescription, error) {
	return nil, refused(sql)
}

// LargeObjects are of no use.
func (f *Fake) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }

// Conn is nil: there is no connection.
func (f *Fake) Conn() *pgx.Conn { return nil }

// failing is the result of a refused statement.
type failing struct{ err error }

func (f failing) Scan(...any) error                { return f.err }
func (f failing) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, f.err }
func (f failing) Query() (pgx.Rows, error)         { return nil, f.err }
func (f failing) QueryRow() pgx.Row                { return f }
func (f failing) Close() error                     { return f.err }
func (f failing) Tx() pgx.Tx                       { return nil }

// rows are those of an answer. The values are of the types that are scanned into.
type rows struct {
	values [][]any
	row    []any
}

func (r *rows) Next() bool {
	if len(r.values) == 0 {
		return false
	}
	r.row, r.values = r.values[0], r.values[1:]
	return true
}

func (r *rows) Scan(into ...any) error {
	for i, one := range into {
		reflect.ValueOf(one).Elem().Set(reflect.ValueOf(r.row[i]))
	}
	return nil
}

func (r *rows) Close()                                       { r.values = nil }
func (r *rows) Err() error                                   { return nil }
func (r *rows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r *rows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r *rows) Values() ([]any, error)                       { return r.row, nil }
func (r *rows) RawValues() [][]byte                          { return nil }
func (r *rows) Conn() *pgx.Conn                              { return nil }
func (r *rows) TypeMap() *pgtype.Map                         { return pgtype.NewMap() }
