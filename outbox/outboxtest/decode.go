package outboxtest

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"
)

// decode reads the arguments as values, from AppendTx, and as text, from AppendSQL.
func decode(args []any) (*batch, error) {
	b, types := &batch{}, pgtype.NewMap()
	arrays := []struct {
		oid  uint32
		into any
	}{ // in the order of the function's parameters
		{pgtype.TextArrayOID, &b.streams},
		{pgtype.TextArrayOID, &b.types},
		{pgtype.ByteaArrayOID, &b.payloads},
		{pgtype.UUIDArrayOID, &b.ids},
		{pgtype.Int8ArrayOID, &b.expected},
		{pgtype.JSONBArrayOID, &b.metadata},
		{pgtype.TextArrayOID, &b.topics},
		{pgtype.TextArrayOID, &b.keys},
		{pgtype.Int8ArrayOID, &b.hashes},
		{pgtype.TextArrayOID, &b.dedupe},
		{pgtype.TextArrayOID, &b.tenants},
		{pgtype.BoolArrayOID, &b.published},
		{pgtype.TimestamptzArrayOID, &b.notBefore},
		{pgtype.TimestamptzArrayOID, &b.occurred},
	}
	if len(args) != len(arrays) {
		return nil, fmt.Errorf("outboxtest: the statement has %d arguments, not %d", len(args), len(arrays))
	}
	for i, array := range arrays {
		text, is := args[i].(string)
		encoded := []byte(text)
		if !is {
			var err error
			if encoded, err = types.Encode(array.oid, pgtype.TextFormatCode, args[i], nil); err != nil {
				return nil, fmt.Errorf("outboxtest: argument %d: %w", i+1, err)
			}
		}
		if encoded == nil {
			continue
		}
		if err := types.Scan(array.oid, pgtype.TextFormatCode, encoded, array.into); err != nil {
			return nil, fmt.Errorf("outboxtest: argument %d: %w", i+1, err)
		}
	}
	return b, nil
}
