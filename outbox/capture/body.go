package capture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// events returns the trigger's events. A changed key ends one row and begins another, also without captured updates. UPDATE OF the key would
// not do: its columns could not be given another type.
func (c *Capture) events() string {
	var list []string
	for _, name := range []string{"insert", "update", "delete"} {
		if c.tells(name) || name == "update" {
			list = append(list, strings.ToUpper(name))
		}
	}
	return strings.Join(list, " OR ")
}

// chosen returns the named columns, none for all.
func (c *Capture) chosen() []string {
	if len(c.Columns) > 0 {
		return c.Columns
	}
	return c.Exclude
}

// told restricts a list to the captured columns, by their numbers or names in the catalog.
func (c *Capture) told(what, list string) string {
	if len(c.Columns) > 0 {
		return what + " = ANY (" + list + ")"
	}
	return what + " <> ALL (" + list + ")"
}

// row sets a variable to the text of a row's captured columns. Parts of a row's JSON would not do: not all JSON is readable for it.
func (c *Capture) row(t *table, into, of string) string {
	names := c.chosen()
	if len(names) == 0 {
		return into + " := row_to_json(" + of + ")::text;"
	}
	var told, values []string
	for _, one := range t.columns {
		if slices.Contains(names, one.Name) == (len(c.Columns) > 0) {
			told, values = append(told, one.Name), append(values, of+"."+identifier(one.Name))
		}
	}
	return `IF ` + t.as("chosen", told) + ` THEN
            ` + into + ` := (SELECT row_to_json(r.*)::text FROM (SELECT ` + strings.Join(values, ", ") + `) AS r);
        ELSE
            EXECUTE 'SELECT row_to_json(r.*)::text FROM (SELECT ' ||
                coalesce((SELECT string_agg(format('($1).%I', c.name), ', ' ORDER BY c.place) FROM unnest(chosen) WITH ORDINALITY AS c (name, place)), '') ||
                ') AS r' INTO ` + into + ` USING ` + of + `;
        END IF;`
}

// as tests whether columns kept their names and types. A session's cached plan fails for a column of another type.
func (t *table) as(which string, names []string) string {
	var types []string
	for _, one := range names {
		column, _ := t.column(one)
		types = append(types, strconv.Itoa(int(column.TypeID)))
	}
	return which + " = " + array(names) + " AND " + which + "_types = '{" + strings.Join(types, ",") + "}'::oid[]"
}

// stream sets a variable to the stream's id, which a key is made to fit. For changed key columns it is made with the new ones.
func (c *Capture) stream(t *table, into, of string) string {
	prefix, null := literal(t.String()+":")+" || ", ", '~d41d8cd98f00b204e9800998ecf8427e')" // the column may take NULL by now
	value, later := "coalesce("+of+"."+identifier(c.Key[0])+"::text"+null, "($1).%I::text"
	if len(c.Key) > 1 {
		values := make([]string, len(c.Key))
		for i, key := range c.Key {
			values[i] = of + "." + identifier(key)
		}
		value = "json_build_array(" + strings.Join(values, ", ") + ")::text"
		later = "json_build_array(" + strings.Repeat("($1).%I, ", len(c.Key)-1) + "($1).%I)::text"
	}
	return `IF ` + t.as("keys", c.Key) + ` THEN
            ` + into + ` := ` + prefix + value + `;
        ELSE
            EXECUTE format('SELECT ` + later + `', VARIADIC keys) INTO ` + into + ` USING ` + of + `;
            ` + into + ` := ` + prefix + `coalesce(` + into + null + `;
        END IF;
        IF ` + nameless(into) + ` THEN
            ` + into + ` := ltrim(left(regexp_replace(` + into + ` COLLATE "C", E'` + controls + `+', ' ', 'g'), 240)) || '~' || md5(` + into + `);
        END IF;`
}

// controls matches the characters that outbox_bad_text refuses. A key is made to fit as outbox_adopted_name does it.
const controls = `[\\u0001-\\u001f\\u007f-\\u009f]`

// nameless tests whether a text names no stream. In other encodings than UTF8 the bytes 80 to 9f may be letters.
func nameless(text string) string {
	return strings.ReplaceAll(`octet_length(convert_to({text}, 'UTF8')) > 1024 OR (CASE WHEN getdatabaseencoding() = 'UTF8' THEN {text} COLLATE "C" ~ E'^ | $|`+controls+`'
            ELSE {text} COLLATE "C" ~ E'^ | $|[\\u0001-\\u001f\\u007f]' OR encode(convert_to({text}, 'UTF8'), 'hex') ~ '^(..)*c2[89]' END)`, "{text}", text)
}

// array returns an array of texts in SQL.
func array(texts []string) string {
	if len(texts) == 0 {
		return "'{}'::text[]"
	}
	return "ARRAY[" + literals(texts) + "]::text[]"
}

const found = "SELECT coalesce(array_agg(a.attname::text ORDER BY %[1]s), '{}'), coalesce(array_agg(a.atttypid ORDER BY %[1]s), '{}') INTO %[2]s, %[2]s_types\n          "

// found sets a variable to the current names of the table's columns, and another to their types.
func (t *table) found(into string, names []string) string {
	return fmt.Sprintf(found+`FROM unnest(%[3]s) WITH ORDINALITY AS u (number, place)
          JOIN pg_attribute AS a ON a.attrelid = %[4]d AND a.attnum = u.number AND NOT a.attisdropped`, "u.place", into, t.numbers(names), t.oid)
}

func (t *table) numbers(names []string) string { return "'" + t.listed(names) + "'::int[]" }

// listed are the numbers of columns, as an array's text.
func (t *table) listed(names []string) string {
	var list []string
	for _, one := range names {
		column, _ := t.column(one)
		list = append(list, strconv.Itoa(int(column.Number)))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// follow finds the columns' current names by their numbers in PostgreSQL. A restored table has other numbers; there the former names hold,
// unless a column came since, which may be one of those with another name.
func (c *Capture) follow(t *table) []string {
	keys := t.found("keys", c.Key)
	now, before, doubt := "", "", "false"
	if chosen := c.chosen(); len(chosen) > 0 {
		now = fmt.Sprintf(found+"FROM pg_attribute AS a WHERE a.attrelid = %[3]d AND a.attnum > 0 AND NOT a.attisdropped AND %[4]s;",
			"a.attnum", "chosen", t.oid, c.told("a.attnum", t.numbers(chosen)))
		before = fmt.Sprintf("chosen := ARRAY(SELECT a.attname::text FROM pg_attribute AS a WHERE a.attrelid = TG_RELID AND a.attnum > 0 AND NOT a.attisdropped AND %s ORDER BY a.attnum);",
			c.told("a.attname::text", array(chosen)))
		var all []string
		for _, one := range t.columns {
			all = append(all, one.Name)
		}
		doubt = fmt.Sprintf(`(SELECT NOT %s <@ array_agg(a.attname::text) OR NOT array_agg(a.attname::text) <@ %s
              FROM pg_attribute AS a WHERE a.attrelid = TG_RELID AND a.attnum > 0 AND NOT a.attisdropped)`, array(chosen), array(all))
	}
	return []string{"{TABLE}", strconv.Itoa(int(t.oid)), "{KEYS}", keys, "{NOW}", now, "{MOST}", strconv.Itoa(len(c.Key)), "{NAMES}", array(c.Key), "{BEFORE}", before, "{DOUBT}", doubt}
}

// other sets a variable to the row that has the key which this one leaves: a key that is compared late may be another row's by then.
func (c *Capture) other(t *table) string {
	var tests []string
	for i, key := range c.Key {
		column, _ := t.column(key)
		tests = append(tests, fmt.Sprintf("t.%%%[1]d$I OPERATOR(%[2]s.=) ($1).%%%[1]d$I", i+1, strings.ReplaceAll(identifier(column.Operators), "%", "%%")))
	}
	columns := "'t.*'"
	if len(c.chosen()) > 0 {
		columns = "coalesce((SELECT string_agg(format('t.%I', c.name), ', ' ORDER BY c.place) FROM unnest(chosen) WITH ORDINALITY AS c (name, place)), '')"
	}
	return "EXECUTE 'SELECT row_to_json(x.*)::text FROM ' || " + t.place() + " || ' AS t CROSS JOIN LATERAL (SELECT ' || " + columns + " ||\n            ') AS x WHERE ' || format(" +
		literal(strings.Join(tests, " AND ")) + ", VARIADIC keys) || ' LIMIT 1' INTO other USING OLD;"
}

// place is the trigger's table, whatever its name now.
func (t *table) place() string {
	return fmt.Sprintf("coalesce((SELECT a.relid FROM pg_partition_ancestors(TG_RELID) AS a WHERE a.relid = %d), TG_RELID)::regclass", t.oid)
}

// body returns the function's body.
func (c *Capture) body(t *table, template, calls string) string {
	tell := func(operation, stream, payload string) string {
		if !c.tells(operation) {
			return "NULL;"
		}
		return "PERFORM " + calls + arguments(parameters, map[string]string{
			"stream_id": stream, "type": literal(c.kind(t, operation)), "payload": "convert_to(" + payload + ", 'UTF8')", "topic": literal(c.Topic),
		}) + ";"
	}
	updated := `'{"new":' || new_row || '}'`
	if c.Old {
		updated = `'{"old":' || old_row || ',"new":' || new_row || '}'`
	}
	deleted := tell("delete", "old_stream", `'{"old":' || old_row || '}'`)
	if t.late {
		stays := map[bool]string{true: "update", false: "insert"}[c.tells("update")]
		deleted = c.other(t) + "\n        IF other IS NULL THEN\n            " + deleted +
			"\n        ELSE\n            " + tell(stays, "old_stream", strings.Replace(updated, "new_row", "other", 1)) + "\n        END IF;"
	}
	return strings.NewReplacer(append(c.follow(t),
		"{OLD_STREAM}", c.stream(t, "old_stream", "OLD"), "{NEW_STREAM}", c.stream(t, "new_stream", "NEW"),
		"{OLD_ROW}", c.row(t, "old_row", "OLD"), "{NEW_ROW}", c.row(t, "new_row", "NEW"), "{UPDATES}", strconv.FormatBool(c.tells("update")),
		"{UPDATED}", tell("update", "new_stream", updated), "{DELETED}", deleted, "{INSERTED}", tell("insert", "new_stream", `'{"new":' || new_row || '}'`))...).Replace(template)
}
