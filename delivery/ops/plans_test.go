package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/pgstore"
)

// plan is a node of PostgreSQL's own account of what it did.
type plan struct {
	Node     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Loops    float64 `json:"Actual Loops"`
	Plans    []plan
}

func (p plan) each(visit func(plan)) {
	visit(p)
	for _, child := range p.Plans {
		child.each(visit)
	}
}

// Neither a backlog nor what waits behind a dead message is read to find the
// messages that failed or died.
func TestTroubleIsFoundByItsIndex(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 6000)
	b.exec(t, `UPDATE outbox SET parked = true, blocked = true WHERE global_sequence <= 3000`)
	b.exec(t, `UPDATE outbox SET blocked = false, dead_at = clock_timestamp(), last_error = 'e' WHERE global_sequence IN (1, 2999)`)
	b.exec(t, `ANALYZE outbox`)
	for name, look := range map[string]func(*ops.Operator) error{
		"list": func(op *ops.Operator) error {
			l, err := op.List(t.Context(), ops.Filter{States: []ops.State{ops.Dead}}, ops.Page{})
			if err == nil && len(l.Messages) != 2 {
				err = fmt.Errorf("listed %d", len(l.Messages))
			}
			return err
		},
		"causes": func(op *ops.Operator) error {
			c, err := op.Causes(t.Context(), ops.Filter{}, time.Minute)
			if err == nil && (len(c.List) != 1 || c.List[0].Count != 2) {
				err = fmt.Errorf("found %v", c)
			}
			return err
		},
		"count": func(op *ops.Operator) error {
			r, err := op.Requeue(t.Context(), ops.Command{Selection: ops.Selection{All: true}, Actor: "a", DryRun: true})
			if err == nil && r.Count != 2 {
				err = fmt.Errorf("counted %d", r.Count)
			}
			return err
		},
	} {
		for _, p := range b.plans(t, look) {
			p.each(func(n plan) {
				if (strings.HasPrefix(n.Relation, "outbox_parked") || strings.HasPrefix(n.Relation, "outbox_ready")) && n.Rows+n.Removed > 10 {
					t.Errorf("%s reads %.0f rows of %s by %s %s", name, n.Rows+n.Removed, n.Relation, n.Node, n.Index)
				}
			})
		}
	}
}

// plans runs look and returns how PostgreSQL carried its statements out, as
// auto_explain tells by notices.
func (b *bundle) plans(t *testing.T, look func(*ops.Operator) error) []plan {
	t.Helper()
	var notices []string
	config := b.pool.Config().ConnConfig.Copy()
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Message) }
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;
		SET auto_explain.log_format = json; SET auto_explain.log_level = notice`); err != nil {
		t.Skip("the server has no auto_explain, or this role may not load it: ", err)
	}
	op, err := ops.New(t.Context(), conn, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	notices = nil
	if err := look(op); err != nil {
		t.Fatal(err)
	}
	var list []plan
	for _, text := range notices {
		_, text, found := strings.Cut(text, "plan:\n")
		if !found {
			continue
		}
		var one struct{ Plan plan }
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		list = append(list, one.Plan)
	}
	if len(list) == 0 {
		t.Fatal("no plan was told")
	}
	return list
}
