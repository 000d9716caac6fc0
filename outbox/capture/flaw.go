package capture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Flaw is a trigger's fault, and the cure.
type Flaw struct {
	Problem string `json:"problem"`
	Cure    string `json:"cure"`
	// Unseen: changes have no events. Else writes fail, or other readers see changes twice.
	Unseen bool `json:"changes_unseen"`
}

func (f Flaw) String() string { return f.Problem + "; to mend it: " + f.Cure }

// facts is a trigger's surroundings in PostgreSQL. enabled and truncate are pg_trigger.tgenabled, "" for none.
type facts struct {
	enabled, owner, truncate string
	// children have rows that the trigger does not see; so have partitions without it.
	children, partitions []string
	may                  bool
	published            []string
}

func fires(enabled string) bool { return enabled == "O" || enabled == "A" }

// faults returns the trigger's faults. A session's own session_replication_role is invisible to others.
func (t *Trigger) faults(f facts) (list []Flaw) {
	add := func(unseen bool, cure, problem string, args ...any) {
		list = append(list, Flaw{fmt.Sprintf(problem, args...), cure, unseen})
	}
	anew := fmt.Sprintf("postrider %s create --table '%s' --replace --yes", t.Purpose, strings.ReplaceAll(t.table.quoted(), "'", `'\''`))
	if t.Purpose == Adopted {
		anew = strings.Replace(anew, " --yes", " …", 1)
	}
	if t.oid == 0 {
		add(true, fmt.Sprintf("create it again with --replace, or postrider %s drop --table %s", t.Purpose, t.Table),
			"no trigger calls %s: its table was dropped, or made anew without it", t.Function)
		return list
	}
	enable := func(trigger string) string {
		return "ALTER TABLE " + t.table.quoted() + " ENABLE TRIGGER " + identifier(trigger)
	}
	if !fires(f.enabled) {
		add(true, enable(t.Purpose.trigger()), "its trigger is disabled, or fires on replicas alone")
	}
	for _, one := range f.partitions {
		add(true, "ALTER TABLE "+one+" ENABLE TRIGGER "+identifier(t.Purpose.trigger()), "partition %s has no trigger that fires", one)
	}
	for _, one := range f.children {
		add(true, "capture each child by itself, or ALTER TABLE "+one+" NO INHERIT "+t.table.quoted(), "%s inherits from it, and the trigger does not see its rows", one)
	}
	if t.Owner != f.owner {
		add(false, anew, "the table is owned by %s now, and the function runs as %s: adopted with --delete, rows stay unless that role may remove them, and %[1]s makes and attaches no partitions", f.owner, t.Owner)
	}
	if !f.may {
		add(false, "as the outbox's owner: GRANT USAGE ON SCHEMA, and EXECUTE on the append function, TO "+t.Owner, "%s may not append any more: writes fail", t.Owner)
	}
	if t.note.Publication != nil && slices.Contains(f.published, t.note.Publication.Name) {
		add(false, publication+identifier(t.note.Publication.Name)+" DROP TABLE "+t.table.quoted(),
			"it is in publication %s again: another relay tells its changes, too", t.note.Publication.Name)
	}
	if t.Settings == nil {
		add(false, "postrider "+string(t.Purpose)+" drop, and create it anew", "the comment of %s, which holds the settings, was changed", t.Function)
		return list
	}
	if t.moved() {
		add(false, anew, "the table is not the one that the function was made for: it was restored from a dump, and renamed columns cannot be followed")
		return list
	}
	return append(list, t.columnFaults(f, anew)...)
}

// columnFaults returns the faults of the columns that the function needs.
func (t *Trigger) columnFaults(f facts, anew string) (list []Flaw) {
	if t.Purpose == Adopted {
		for _, one := range t.note.Used {
			if t.nowCalled(one) == "" {
				list = append(list, Flaw{fmt.Sprintf("column %s was dropped: writes fail", one), anew, false})
			}
		}
		return list
	}
	var c Capture
	if json.Unmarshal(t.Settings, &c) != nil {
		return nil
	}
	if c.tells("delete") && !fires(f.truncate) {
		list = append(list, Flaw{"TRUNCATE is not refused any more, since its trigger is gone or disabled", anew, true})
	}
	if len(c.Key) < t.keys {
		list = append(list, Flaw{"the columns of its key were dropped: writes fail", strings.Replace(anew, "--replace", "--replace --key COLUMN", 1), false})
	}
	return list
}
