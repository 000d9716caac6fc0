package outboxtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
)

// DB returns the fake as a database, closed when the test ends. Its transactions are inner ones of f: begin the next when the last has ended.
// Read finds their commits in f.
func (f *Fake) DB(t testing.TB) *sql.DB {
	t.Helper()
	db := sql.OpenDB(&connector{fake: f})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// errSecond stands for a wait, or a conflict, which a fake does not know.
var errSecond = errors.New("outboxtest: a Fake has one transaction at a time: end the other one first")

type connector struct {
	fake *Fake
	open bool
}

func (c *connector) Connect(context.Context) (driver.Conn, error) { return &conn{connector: c}, nil }
func (c *connector) Driver() driver.Driver                        { return nil }

type conn struct {
	connector *connector
	tx        *Fake // nil between transactions
}

func (c *conn) Close() error                                                 { return nil }
func (c *conn) Prepare(query string) (driver.Stmt, error)                    { return nil, refused(query) }
func (c *conn) Begin() (driver.Tx, error)                                    { return c.begin() }
func (c *conn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return c.begin() }

func (c *conn) begin() (driver.Tx, error) {
	if c.connector.open {
		return nil, errSecond
	}
	tx, err := c.connector.fake.begin()
	if err != nil {
		return nil, err
	}
	c.tx, c.connector.open = tx, true
	return c, nil
}

// Commit ends the transaction. As PostgreSQL does, it rolls back one that failed; to database/sql that is an error.
func (c *conn) Commit() error {
	failed := c.tx.stored.failed
	err := c.tx.commit()
	if failed {
		err = errors.Join(err, c.tx.rollback())
	}
	c.tx, c.connector.open = nil, false
	return err
}

func (c *conn) Rollback() error {
	err := c.tx.rollback()
	c.tx, c.connector.open = nil, false
	return err
}

func (c *conn) QueryContext(_ context.Context, query string, named []driver.NamedValue) (driver.Rows, error) {
	args := make([]any, len(named))
	for i, one := range named {
		args[i] = one.Value
	}
	tx := c.tx
	if tx == nil {
		tx = c.connector.fake
	}
	values, err := tx.answer(query, args)
	if err != nil {
		return nil, err
	}
	return &sqlRows{values: values}, nil
}

// sqlRows are those of an answer, for database/sql.
type sqlRows struct{ values [][]any }

func (r *sqlRows) Close() error { return nil }

// Columns have no names: nobody asks for them.
func (r *sqlRows) Columns() []string {
	if len(r.values) == 0 {
		return nil
	}
	return make([]string, len(r.values[0]))
}

func (r *sqlRows) Next(into []driver.Value) (err error) {
	if len(r.values) == 0 {
		return io.EOF
	}
	for i, value := range r.values[0] {
		if into[i], err = driver.DefaultParameterConverter.ConvertValue(value); err != nil {
			return err
		}
	}
	r.values = r.values[1:]
	return nil
}
