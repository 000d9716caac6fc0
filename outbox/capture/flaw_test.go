package capture_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}

// What keeps changes from being told is named, with a cure that ends it.
func TestWhatIsWrongWithATriggerIsNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	stranger := l.role(t)
	for _, c := range []struct{ breaks, says, cure string }{
		{`ALTER TABLE orders DISABLE TRIGGER "00_postrider_capture"`, "disabled", ""},
		{`ALTER TABLE orders ENABLE REPLICA TRIGGER "00_postrider_capture"`, "replicas alone", ""},
		{`CREATE TABLE child () INHERITS (orders)`, "child inherits", `DROP TABLE child`},
		{`DROP TRIGGER "00_postrider_capture_truncate" ON orders`, "TRUNCATE", `anew`},
		{`ALTER TABLE orders OWNER TO ` + stranger, "owned by " + stranger, `ALTER TABLE orders OWNER TO CURRENT_USER`},
		{`CREATE PUBLICATION again FOR TABLE orders`, "again", `DROP PUBLICATION again`},
		{`COMMENT ON FUNCTION postrider_capture_orders() IS 'x'`, "comment", `drop`},
		{`DROP TABLE orders`, "no trigger calls", `drop`},
	} {
		l.run(t, `DROP TABLE IF EXISTS orders`, `DROP FUNCTION IF EXISTS postrider_capture_orders`, `CREATE TABLE orders (id int PRIMARY KEY)`)
		o := capture.Options{}
		if strings.HasPrefix(c.breaks, "CREATE PUBLICATION") {
			l.run(t, `CREATE PUBLICATION again FOR TABLE orders`)
			o.Publication = "again"
		}
		if _, err := l.Capture(t.Context(), capture.Capture{Table: "orders"}, o); err != nil {
			t.Fatal(err)
		}
		faults := func() []capture.Flaw {
			t.Helper()
			list, err := l.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				return nil
			}
			return list[0].Flaws
		}
		if found := faults(); len(found) != 0 {
			t.Errorf("before %s it says %v", c.breaks, found)
		}
		if o.Publication != "" {
			l.run(t, `ALTER PUBLICATION again ADD TABLE orders`)
		} else {
			l.run(t, c.breaks)
		}
		found := faults()
		if len(found) == 0 || !strings.Contains(found[0].Problem, c.says) {
			t.Errorf("after %s it says %v", c.breaks, found)
			continue
		}
		switch c.cure {
		case "anew":
			if _, err := l.Capture(t.Context(), capture.Capture{Table: "orders"}, capture.Options{Replace: true}); err != nil {
				t.Error(err)
			}
		case "drop":
			if _, err := l.Drop(t.Context(), capture.Captured, "orders", capture.Options{}); err != nil {
				t.Error(err)
			}
		case "":
			l.run(t, found[0].Cure)
		default:
			l.run(t, c.cure)
		}
		if found := faults(); len(found) != 0 {
			t.Errorf("%s is cured, and it says %v", c.breaks, found)
		}
	}
}

// A table's name means one table.
func TestANameThatMeansTwoTablesIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE SCHEMA shop`, `CREATE TABLE shop.orders (id int PRIMARY KEY)`, `CREATE TABLE public."shop.orders" (id int PRIMARY KEY)`,
		`CREATE TABLE "It's" (id int PRIMARY KEY)`)
	ctx := t.Context()
	_, err := l.Capture(ctx, capture.Capture{Table: "shop.orders"}, capture.Options{})
	wantRefused(t, err, "--table", `"shop"."orders"`, `"public"."shop.orders"`)
	for _, table := range []string{`"shop"."orders"`, `"shop.orders"`, `"It's"`} {
		l.capture(t, capture.Capture{Table: table})
	}
	_, err = l.Drop(ctx, capture.Captured, "shop.orders", capture.Options{})
	wantRefused(t, err, "--table", `"shop"."orders"`, `"public"."shop.orders"`)
	for table, want := range map[string]string{`shop."orders"`: "shop.orders", `public."shop.orders"`: "public.shop.orders", `It's`: "public.It's"} {
		done, err := l.Drop(ctx, capture.Captured, table, capture.Options{})
		if err != nil || done.Table != want {
			t.Errorf("%s: %+v, %v", table, done, err)
		}
	}
}
