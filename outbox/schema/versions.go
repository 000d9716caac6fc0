package schema

import (
	"context"
	"fmt"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// versions is goose's own store, for a table that is named with its schema. goose
// would compare the quoted names with the catalog's, which are not.
type versions struct {
	database.Store
	table string
}

func newVersions(table string) (versions, error) {
	store, err := database.NewStore(goose.DialectPostgres, table)
	if err != nil {
		return versions{}, fmt.Errorf("store of versions: %w", err)
	}
	return versions{Store: store, table: table}, nil
}

// TableExists is asked before the table is made.
func (v versions) TableExists(ctx context.Context, db database.DBTxConn) (exists bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, v.table).Scan(&exists)
	return exists, err
}
