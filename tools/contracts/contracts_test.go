package contracts_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	schemas   = 600
	documents = 30
	seeds     = 2
)

// keywords are those that can decide.
var keywords = []string{
	"type", "enum", "const", "minLength", "maxLength", "pattern", "minimum", "maximum", "minItems", "maxItems", "required", "additionalProperties", "false",
}

// The check in SQL decides as a validator does that others wrote.
func TestTheCheckInSQLDecidesAsAnotherValidator(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 1))
	decided, fits, all := map[string]int{}, 0, 0
	for seed := range uint64(seeds) {
		g := generator{Rand: rand.New(rand.NewPCG(seed, 7)), defs: []string{"one", "t-w.o_2"}}
		for range schemas {
			rules, defs := g.root()
			var texts []string
			for range documents {
				texts = append(texts, text(t, g.near(rules, defs, 5)))
			}
			for i, answer := range compare(t, pool, seed, text(t, rules), texts) {
				if all++; answer == nil {
					fits++
					continue
				}
				keyword, _, _ := strings.Cut(answer[1], ":")
				if decided[keyword]++; !slices.Contains(keywords, keyword) {
					t.Errorf("%s is refused for %q", texts[i], answer[1])
				}
			}
		}
	}
	t.Logf("%d documents, %d fit, refused for %v", all, fits, decided)
	for _, keyword := range keywords {
		if decided[keyword] < all/2000 {
			t.Errorf("%s decided %d of %d documents alone", keyword, decided[keyword], all)
		}
	}
	if fits < all/5 || all-fits < all/5 {
		t.Errorf("%d of %d documents fit: that compares little", fits, all)
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// compare returns what SQL answers: for each document nil, or pointer and rule.
func compare(t *testing.T, pool *pgxpool.Pool, seed uint64, rules string, documents []string) [][]string {
	t.Helper()
	var problem *string
	if err := pool.QueryRow(t.Context(), `SELECT outbox_schema_problem($1::text::jsonb)`, rules).Scan(&problem); err != nil || problem != nil {
		t.Fatalf("seed %d: %s is refused: %v, %v", seed, rules, problem, err)
	}
	rows, err := pool.Query(t.Context(), `
		SELECT outbox_mismatch(s.rules, s.rules -> '$defs', d.document::jsonb, '', 0)
		  FROM (SELECT $1::text::jsonb AS rules) AS s, unnest($2::text[]) WITH ORDINALITY AS d (document, nth) ORDER BY d.nth`, rules, documents)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := pgx.CollectRows(rows, pgx.RowTo[[]string])
	if err != nil {
		t.Fatalf("seed %d: %s: %v", seed, rules, err)
	}
	other := compiled(t, rules)
	for i, document := range documents {
		parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
		if err != nil {
			t.Fatal(err)
		}
		refusal := other.Validate(parsed)
		if (refusal == nil) != (answers[i] == nil) || refusal != nil && !blames(refusal, answers[i]) {
			t.Errorf("seed %d: schema %s\ndocument %s\nSQL answers %q, the other validator %v", seed, rules, document, answers[i], refusal)
		}
	}
	return answers
}

// compiled is the other validator. Its dot matches ends of lines, too.
func compiled(t *testing.T, rules string) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(rules))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) { return regexp.Compile("(?s)" + pattern) })
	if err := c.AddResource("mem:///schema.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///schema.json")
	if err != nil {
		t.Fatalf("%s: %v", rules, err)
	}
	return s
}

// blames tells whether a refusal is, among others, for the part that the answer names.
func blames(refusal error, answer []string) bool {
	var top *jsonschema.ValidationError
	if !errors.As(refusal, &top) {
		return false
	}
	places := map[string]bool{}
	var visit func(*jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			var b strings.Builder
			for _, token := range e.InstanceLocation {
				b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
			}
			places[b.String()] = true
		}
		for _, cause := range e.Causes {
			visit(cause)
		}
	}
	visit(top)
	pointer := answer[0]
	if strings.HasPrefix(answer[1], "additionalProperties: ") { // there it is the object that has too much
		pointer = pointer[:strings.LastIndex(pointer, "/")]
	}
	return places[pointer]
}
