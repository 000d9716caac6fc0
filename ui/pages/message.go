package pages

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/web"
)

func (p *Pages) message(w http.ResponseWriter, r *http.Request) error {
	detail, err := p.desk.ShowMessage(r)
	if err != nil {
		return err
	}
	now := p.desk.Now(r.Context())
	who := act.Who(r)
	page := messagePage(detail, now)
	page.Shell = p.shellOf(r, "Message "+number(detail.Sequence), sectionMessages)
	page.Every = listEvery
	if open := p.desk.MayReadPayload(who); open && detail.Event != nil {
		page.MayPayload, page.Metadata = true, metadata(detail.Event.Metadata)
	}
	if page.MayPayload && r.URL.Query().Get("payload") == "show" {
		body, err := act.Look(p.desk, r, func(ctx context.Context, op *ops.Operator) ([]byte, error) { return op.Payload(ctx, detail.Sequence) })
		if err != nil {
			return err
		}
		p.desk.Logger.InfoContext(r.Context(), "monitor shows a payload", logSequence, detail.Sequence, logActor, who.Name)
		page.Payload, page.Every = showPayload(body), 0
	}
	return p.send(w, r, http.StatusOK, "message", page)
}

func messagePage(d ops.Detail, now time.Time) web.Message {
	page := web.Message{
		MessageRow: messageRow(d.Message, now), StreamVersion: d.StreamVersion, Generation: d.Generation,
		Dead: moment(d.DeadAt, now), Known: d.Event != nil, Behind: d.Behind, BehindCapped: d.BehindMore, Explain: explain(d),
		StreamQuery: "messages?" + url.Values{paramStream: {d.Stream}}.Encode(),
	}
	if d.EventID != uuid.Nil {
		page.EventID = d.EventID.String()
	}
	if e := d.Event; e != nil {
		page.Tenant, page.AuditOnly, page.Occurred = e.TenantID, e.AuditOnly, moment(e.OccurredAt, now)
	}
	if page.Known && !page.AuditOnly {
		page.Published = publishedHeaders(d)
	}
	for _, one := range slices.Backward(d.Failures) {
		row := web.FailedAttempt{At: web.Moment{At: one.At, Now: now}, Class: one.Class, Text: one.Text}
		if one.Worker != nil {
			row.Worker = one.Worker.String()
		}
		page.Failures = append(page.Failures, row)
	}
	for _, one := range d.Deliveries {
		row := web.Delivery{
			State: string(one.State), At: web.Moment{At: one.PublishedAt, Now: now}, Partition: int(one.Partition), Epoch: one.Epoch,
			Attempts: one.Attempts, Generation: one.Generation, Lost: one.Lost,
		}
		if one.StreamSequence != nil {
			row.StreamSequence = *one.StreamSequence
		}
		page.Deliveries = append(page.Deliveries, row)
	}
	if d.BlockedBy != nil {
		page.BlockedBy = &web.Neighbour{Sequence: d.BlockedBy.Sequence, State: string(d.BlockedBy.State)}
	}
	for _, n := range d.Next {
		page.Followers = append(page.Followers, web.Neighbour{Sequence: n.Sequence, State: string(n.State)})
	}
	for _, a := range d.Actions {
		page.Actions = append(page.Actions, web.Action{
			At: web.Moment{At: a.At, Now: now}, Actor: a.Actor, Action: a.Action, Reason: a.Reason,
			Attempts: a.Attempts, Generation: a.Generation, Error: a.LastError,
		})
	}
	return page
}

// explain describes the state of this message in a sentence.
func explain(d ops.Detail) string {
	switch d.State {
	case ops.Pending:
		if d.BlockedBy != nil {
			return "It is to be published after the earlier messages of its stream."
		}
		return "It is to be published as soon as its partition's owner reaches it."
	case ops.Scheduled:
		return "It waits for its time. Later messages of its stream wait behind it, unless workers run with --behind none."
	case ops.Failed:
		return "The last attempt failed. It will be tried again by itself when it is due."
	case ops.Blocked:
		return "It waits for an earlier message of its stream, and goes on by itself once that is settled."
	case ops.Dead:
		why := "after its last attempt"
		if n := len(d.Failures); n > 0 && d.Failures[n-1].Class == "permanent" {
			why = "at once, since trying again mends nothing,"
		}
		return "It was given up " + why + " and waits for a person: requeue it once the cause is mended, or skip or discard it."
	case ops.Published:
		return "The stream has acknowledged it."
	case ops.Skipped:
		return "It was settled without being published."
	case ops.Discarded:
		return "An operator gave it up. It was not published."
	case ops.AuditOnly:
		return "This event was never meant to be published."
	default:
		return "It is neither in the outbox nor in its history: it was published before the history begins, or never queued."
	}
}

// metadata lists the producer's metadata, objects in it by their members' paths.
func metadata(stored json.RawMessage) []web.Header {
	var object map[string]json.RawMessage
	if len(stored) == 0 {
		return nil
	}
	if err := json.Unmarshal(stored, &object); err != nil {
		return []web.Header{{Name: "metadata", Value: string(stored)}}
	}
	var list []web.Header
	for name, value := range object {
		var inner map[string]json.RawMessage
		if err := json.Unmarshal(value, &inner); err == nil && inner != nil && len(inner) > 0 {
			for key, one := range inner {
				list = append(list, web.Header{Name: name + "." + key, Value: plainJSON(one)})
			}
			continue
		}
		list = append(list, web.Header{Name: name, Value: plainJSON(value)})
	}
	slices.SortFunc(list, func(a, b web.Header) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// plainJSON returns a string's text, and other JSON as it stands.
func plainJSON(value json.RawMessage) string {
	var text string
	if err := json.Unmarshal(value, &text); err == nil && bytes.HasPrefix(value, []byte{'"'}) {
		return text
	}
	return string(value)
}

// publishedHeaders returns the headers that each message has under any configuration of workers, which may only rename the type.
func publishedHeaders(d ops.Detail) []web.Header {
	list := []web.Header{
		{Name: message.HeaderEventID, Value: d.EventID.String()},
		{Name: message.HeaderSequence, Value: number(d.Sequence)},
		{Name: message.HeaderPartition, Value: strconv.Itoa(int(d.Partition))},
		{Name: message.HeaderStream, Value: d.Stream},
		{Name: message.HeaderStreamVersion, Value: number(d.StreamVersion)},
		{Name: message.HeaderType, Value: d.Type},
	}
	if d.Generation > 0 {
		list = append(list, web.Header{Name: message.HeaderGeneration, Value: strconv.Itoa(d.Generation)})
	}
	return list
}

// The shown part of a payload, in bytes.
const (
	textShown  = 64 << 10
	bytesShown = 4 << 10
)

func showPayload(body []byte) *web.Payload {
	p := &web.Payload{Kind: "text", Size: int64(len(body))}
	if !utf8.Valid(body) {
		p.Kind, p.Cut = "bytes", len(body) > bytesShown
		p.Text = hex.Dump(body[:min(len(body), bytesShown)])
		return p
	}
	var indented bytes.Buffer
	if len(body) <= textShown && json.Indent(&indented, body, "", "  ") == nil {
		p.Kind, p.Text = "JSON, indented", indented.String()
		return p
	}
	if json.Valid(body) {
		p.Kind = "JSON"
	}
	if p.Text, p.Cut = string(body), len(body) > textShown; p.Cut {
		end := textShown
		for !utf8.RuneStart(body[end]) {
			end--
		}
		p.Text = string(body[:end])
	}
	return p
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
