package act

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// Refused is an error about one parameter or field.
func Refused(field, format string, args ...any) error {
	return &ops.InputError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Filter reads the message filter that pages and API share; each reads ids and sequences in its own way.
func Filter(values url.Values, now time.Time) (f ops.Filter, err error) {
	f.Stream, f.Topic, f.Type, f.Tenant = values.Get("stream"), values.Get("topic"), values.Get("type"), values.Get("tenant")
	f.ErrorContains, f.ErrorFamily = values.Get("error_contains"), values.Get("error_family")
	for _, name := range values["state"] {
		s, err := ops.ParseState(name)
		if err != nil {
			return f, err
		}
		f.States = append(f.States, s)
	}
	for _, text := range values["partition"] {
		id, err := PartitionNumber(text)
		if err != nil {
			return f, err
		}
		f.Partitions = append(f.Partitions, id)
	}
	if f.Since, err = Moment(values, "since", now); err != nil {
		return f, err
	}
	f.Until, err = Moment(values, "until", now)
	return f, err
}

// OwnershipQuery reads the query of a list of changes.
func OwnershipQuery(values url.Values, now time.Time) (q lease.HistoryQuery, err error) {
	if text := strings.TrimSpace(values.Get("partition")); text != "" {
		id, err := PartitionNumber(text)
		if err != nil {
			return q, err
		}
		q.Partition = &id
	}
	if q.Since, err = Moment(values, "since", now); err != nil {
		return q, err
	}
	if q.Until, err = Moment(values, "until", now); err != nil {
		return q, err
	}
	q.Before, q.Limit, err = Paging(values)
	return q, err
}

// A page of the API has at most mostListed entries.
const (
	mostListed    = 1000
	defaultListed = 100
)

// Paging reads after and limit.
func Paging(values url.Values) (after int64, limit int, err error) {
	if after, err = Number(values, "after"); err != nil {
		return 0, 0, err
	}
	most, err := Number(values, "limit")
	if err != nil {
		return 0, 0, err
	}
	if most > mostListed {
		return 0, 0, Refused("limit", "must lie between 1 and %d, got %d", mostListed, most)
	}
	most = cmp.Or(most, defaultListed)
	return after, int(most), nil
}

// Number reads a whole number above 0; 0 where there is none.
func Number(values url.Values, name string) (int64, error) {
	text := values.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || text[0] == '+' {
		return 0, Refused(name, "must be a whole number of at least 1")
	}
	return n, nil
}

// Moment reads a time, or a duration before now.
func Moment(values url.Values, name string, now time.Time) (time.Time, error) {
	text := values.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := ParseMoment(text, now)
	if err != nil {
		return time.Time{}, Refused(name, "must be a time as 2026-01-02T03:04:05Z or a duration before now as 10m")
	}
	return at, nil
}

// ParseMoment reads a time, or a duration before now.
func ParseMoment(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err == nil && at.IsZero() {
		err = fmt.Errorf("%s is no time", text)
	}
	return at, err
}

// PartitionNumber reads the number of a partition.
func PartitionNumber(text string) (partition.ID, error) {
	n, err := strconv.ParseInt(text, 10, 16)
	if err != nil || n < 0 || text[0] == '+' {
		return 0, Refused(ops.FieldPartition, "must be a whole number between 0 and %d", partition.MaxCount-1)
	}
	return partition.ID(n), nil
}
