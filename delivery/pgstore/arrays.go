package pgstore

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/partition"
)

// Arrays of many elements as parameters of statements, as pgtype.ArrayGetter. The driver takes each element as an any and asks it for its
// value; a pointer into the array gives both without an allocation, where the element itself would cost two.
type (
	keys      []partition.ID // smallint[]
	integers  []int32        // int[]
	bigints   []int64        // bigint[]
	positions []uint64       // bigint[], with NULL for 0
	strs      []string       // text[]

	key      partition.ID
	integer  int32
	bigint   int64
	position uint64
	str      string
)

func (a keys) Dimensions() []pgtype.ArrayDimension { return dimension(len(a)) }
func (a keys) Index(i int) any                     { return (*key)(&a[i]) }
func (a keys) IndexType() any                      { return new(key) }
func (v *key) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: int64(*v), Valid: true}, nil
}

func (a integers) Dimensions() []pgtype.ArrayDimension { return dimension(len(a)) }
func (a integers) Index(i int) any                     { return (*integer)(&a[i]) }
func (a integers) IndexType() any                      { return new(integer) }
func (v *integer) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: int64(*v), Valid: true}, nil
}

func (a bigints) Dimensions() []pgtype.ArrayDimension { return dimension(len(a)) }
func (a bigints) Index(i int) any                     { return (*bigint)(&a[i]) }
func (a bigints) IndexType() any                      { return new(bigint) }
func (v *bigint) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: int64(*v), Valid: true}, nil
}

func (a positions) Dimensions() []pgtype.ArrayDimension { return dimension(len(a)) }
func (a positions) Index(i int) any                     { return (*position)(&a[i]) }
func (a positions) IndexType() any                      { return new(position) }

func (v *position) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: int64(*v), Valid: *v != 0}, nil // a stream's sequence never reaches 2^63
}

func (a strs) Dimensions() []pgtype.ArrayDimension { return dimension(len(a)) }
func (a strs) Index(i int) any                     { return (*str)(&a[i]) }
func (a strs) IndexType() any                      { return new(str) }
func (v *str) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: string(*v), Valid: true}, nil
}

func dimension(n int) []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(n), LowerBound: 1}} // far below 2^31
}
