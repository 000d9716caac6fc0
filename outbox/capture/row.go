package capture

import (
	"fmt"
	"slices"
	"strings"
)

// reading makes the trigger of an adopted table read the event's columns into texts, under their current names and types: a session's cached
// plan fails for others.
type reading struct {
	*table
	values []column
	used   []string
}

// text returns the variable that holds a column's text.
func (r *reading) text(c column) string {
	at := slices.Index(r.values, c)
	if at < 0 {
		at = len(r.values)
		r.values = append(r.values, c)
	}
	r.name(c.Name)
	return fmt.Sprintf("value_%d", at)
}

// name returns the expression of a column's current name.
func (r *reading) name(column string) string {
	at := slices.Index(r.used, column)
	if at < 0 {
		at = len(r.used)
		r.used = append(r.used, column)
	}
	return fmt.Sprintf("used[%d]", at+1)
}

// statements returns those that read the row. The JSON under a key may be no text.
func (r *reading) statements(payload column) string {
	static, dynamic, parts := "", "", ""
	if payload.part == "" {
		static = "        body := " + inBytes(payload, payload.of("NEW")) + ";\n"
		dynamic = "        EXECUTE format(CASE used_types[" + strings.TrimPrefix(r.name(payload.Name), "used[") +
			" WHEN 'bytea'::regtype THEN 'SELECT ($1).%I' ELSE 'SELECT convert_to(($1).%I::text, ''UTF8'')' END, " + r.name(payload.Name) + ") INTO body USING NEW;\n"
	}
	for i, c := range r.values {
		into, later := fmt.Sprintf("value_%d", i), "SELECT ($1).%I::text"
		if c.part != "" {
			later += "::json ->> " + strings.ReplaceAll(literal(c.part), "%", "%%")
		}
		now := "        " + into + " := " + c.of("NEW") + "::text;\n"
		later = "        EXECUTE format(" + literal(later) + ", " + r.name(c.Name) + ") INTO " + into + " USING NEW;\n"
		if c.part != "" {
			parts += "    BEGIN\n        IF same THEN\n    " + now + "        ELSE\n    " + later + "        END IF;\n    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN\n        NULL; -- no text can hold it\n    END;\n"
			continue
		}
		static, dynamic = static+now, dynamic+later
	}
	return fmt.Sprintf(`    IF TG_RELID = %[1]d OR EXISTS (SELECT FROM pg_partition_ancestors(TG_RELID) AS a WHERE a.relid = %[1]d) THEN
        %[2]s;
    ELSE -- it was restored from a dump
        %[3]sFROM unnest(%[4]s) WITH ORDINALITY AS u (name, place)
          JOIN pg_attribute AS a ON a.attrelid = TG_RELID AND a.attname = u.name AND NOT a.attisdropped;
    END IF;
    IF cardinality(used) <> %[5]d THEN
        RAISE EXCEPTION 'a column of %%, which is adopted, was dropped that its events need', TG_RELID::regclass
            USING ERRCODE = '55000', HINT = '`+"`postrider adopt create --replace` names others, `postrider adopt drop` ends it."+`';
    END IF;
    same := %[6]s;
    IF same THEN
%[7]s    ELSE
%[8]s    END IF;
%[9]s`, r.oid, r.found("used", r.used), fmt.Sprintf(found, "u.place", "used"), array(r.used), len(r.used), r.as("used", r.used), static, dynamic, parts)
}

// body returns the function's body.
func (a *Adoption) body(t *table, calls string, s shape) string {
	r := &reading{table: t}
	e, test := s.of(r.text), s.chosen(r.text)
	e["source"] = literal(a.Source)
	e["stream_id"], e["type"] = "coalesce("+e["stream_id"]+", "+e["source"]+")", "coalesce("+e["type"]+", "+e["source"]+")"
	e["payload"] = "coalesce(body, ''::bytea)"
	payload := s.columns["payload"]
	if payload.part != "" {
		e["payload"] = inBytes(payload, r.text(payload))
	}
	then := ""
	if c, found := s.columns["occurred_at"]; found {
		e["occurred_at"] = r.text(c)
		then = "    BEGIN\n        PERFORM " + e["occurred_at"] + "::timestamptz;\n    EXCEPTION WHEN data_exception THEN\n        " + e["occurred_at"] + " := NULL; -- of another type by now\n    END;\n"
	}
	if test != "" {
		then += "    IF (" + test + ") IS NOT TRUE THEN\n        RETURN NULL;\n    END IF;\n"
	}
	then += "    PERFORM " + calls + arguments(appended, e) + ";\n"
	if a.Delete {
		then += r.deletion()
	}
	declared := "DECLARE\n    used text[];\n    used_types oid[];\n    same boolean;\n    body bytea;\n"
	read := r.statements(payload)
	for i := range r.values {
		declared += fmt.Sprintf("    value_%d text;\n", i)
	}
	t.used = r.used
	return declared + "BEGIN\n" + read + then + "    RETURN NULL;\nEND\n"
}

// deletion removes the row from the trigger's own table. Another table may have its name at the adoption, which has a plan, by now. Where
// another owner gave no right, the row stays.
func (r *reading) deletion() string {
	var static, dynamic, names []string
	for i, key := range r.primary() {
		c, _ := r.column(key)
		equals := " OPERATOR(" + identifier(c.Operators) + ".=) "
		static = append(static, "t."+identifier(key)+equals+"NEW."+identifier(key))
		dynamic = append(dynamic, fmt.Sprintf("t.%%%[1]d$I%[2]s($1).%%%[1]d$I", i+1, strings.ReplaceAll(equals, "%", "%%")))
		names = append(names, r.name(key))
	}
	place := r.place()
	return "    IF has_schema_privilege((SELECT c.relnamespace FROM pg_class AS c WHERE c.oid = " + place + "), 'USAGE') AND has_table_privilege(" + place + ", 'SELECT') AND has_table_privilege(" + place + ", 'DELETE') THEN\n" +
		"        IF same AND to_regclass(" + literal(r.quoted()) + ") = " + place + " THEN\n" +
		"            DELETE FROM " + r.quoted() + " AS t WHERE " + strings.Join(static, " AND ") + ";\n        ELSE\n" +
		"            EXECUTE 'DELETE FROM ' || " + place + " || format(" + literal(" AS t WHERE "+strings.Join(dynamic, " AND ")) +
		", VARIADIC ARRAY[" + strings.Join(names, ", ") + "]) USING NEW;\n        END IF;\n    END IF;\n"
}

// inBytes returns a payload.
func inBytes(c column, value string) string {
	if c.Type != "bytea" {
		value = "convert_to(" + value + "::text, 'UTF8')"
	}
	return "coalesce(" + value + ", ''::bytea)"
}
