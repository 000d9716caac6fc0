package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/web"
)

// auditNamed bounds the named messages or partitions of an action, recordShown the shown bytes of its record.
const (
	auditNamed  = 8
	recordShown = 4 << 10
)

func (p *Pages) audit(w http.ResponseWriter, r *http.Request) error {
	after, err := act.Number(r.URL.Query(), ops.FieldAfter)
	if err != nil {
		return err
	}
	found, err := act.Look(p.desk, r, func(ctx context.Context, op *ops.Operator) (ops.AuditPage, error) {
		return op.Audit(ctx, after, pageRows+1)
	})
	if err != nil {
		return err
	}
	now := p.desk.Now(r.Context())
	page := web.Audit{Shell: p.shellOf(r, "Audit", sectionAudit)}
	if after == 0 {
		page.Every = listEvery
	} else {
		page.Newest = "audit"
	}
	// One row more than the page shows reveals a next page.
	if len(found.Entries) > pageRows {
		found.Entries = found.Entries[:pageRows]
		page.Older = "audit?after=" + number(found.Entries[pageRows-1].ID)
	}
	for _, e := range found.Entries {
		page.Rows = append(page.Rows, auditRow(e, now))
	}
	return p.send(w, r, http.StatusOK, "audit", page)
}

// auditRow reads the fields of known actions. The record shows the rest.
func auditRow(e ops.AuditEntry, now time.Time) web.AuditRow {
	row := web.AuditRow{ID: e.ID, At: web.Moment{At: e.At, Now: now}, Actor: e.Actor, Action: e.Action, Reason: e.Reason}
	var target struct {
		Sequences  []int64 `json:"sequences"`
		Partitions []int   `json:"partitions"`
		Worker     string  `json:"worker_id"`
	}
	var details struct {
		Count int64 `json:"count"`
	}
	// An entry of another shape names nothing.
	_ = json.Unmarshal(e.Target, &target)
	_ = json.Unmarshal(e.Details, &details)
	row.Worker, row.Count = target.Worker, details.Count
	if len(target.Sequences) > 0 {
		row.Sequences = target.Sequences[:min(len(target.Sequences), auditNamed)]
		row.More = len(target.Sequences) - len(row.Sequences)
	} else {
		row.Partitions = target.Partitions[:min(len(target.Partitions), auditNamed)]
		row.More = len(target.Partitions) - len(row.Partitions)
	}
	row.Record, row.Cut = auditRecord(e)
	return row
}

func auditRecord(e ops.AuditEntry) (text string, cut bool) {
	var b bytes.Buffer
	for _, part := range []struct {
		name string
		json json.RawMessage
	}{{"target", e.Target}, {"details", e.Details}} {
		if len(part.json) == 0 {
			continue
		}
		b.WriteString(part.name + " ")
		if json.Indent(&b, part.json, "", "  ") != nil {
			b.Write(part.json)
		}
		b.WriteByte('\n')
	}
	if b.Len() <= recordShown {
		return b.String(), false
	}
	return strings.ToValidUTF8(b.String()[:recordShown], ""), true
}
