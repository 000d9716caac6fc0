package house_test

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// shared are the names of exported types that several packages declare, with the one meaning that they share.
var shared = map[string]string{
	"Config":    "the settings of a package's work",
	"Event":     "an event of the application: to be appended, stored, to be published, applied",
	"Gap":       "what is missing or wrong, in the stream or in a projection",
	"GapKind":   "how a Gap is wrong",
	"Handler":   "what answers: to requests, or to messages",
	"Message":   "an event with what its delivery needs: in the outbox, on the wire, as received, as an operator sees it",
	"Observer":  "who is told of a relay's steps; the tracing one makes spans of them",
	"Options":   "how a package's work is to be done this time",
	"Ordering":  "what is kept in order: partitions or streams",
	"Outcome":   "what became of one message",
	"Progress":  "how far something came",
	"Repaired":  "what a repair of gaps did",
	"Report":    "what a check found",
	"Selection": "what of the outbox or of the events an operator chose",
	"Server":    "a server that runs in this process, or a child of it",
	"Snapshot":  "a table, or the cluster, at one instant",
	"Store":     "the statements of a package",
	"State":     "what a package's object is doing",
	"Table":     "a table of the database",
	"Worker":    "one process of the cluster: as its row says, and as it runs",
	"Bell":      "what wakes other workers: as the coordinator needs it, and over NATS",
}

// views are packages whose types show, on a page or in an answer, what others declare.
var views = []string{"web", "ui/source"}

func TestATypesNameHasOneMeaning(t *testing.T) {
	t.Parallel()
	declared := map[string]map[string]bool{}
	sources(t, func(name string, _ *token.FileSet, file *ast.File) {
		folder := path.Dir(name)
		kit := slices.ContainsFunc(append([]string{"tools", "examples"}, testsAlone...), func(f string) bool { return within(folder, f) })
		if kit || slices.Contains(views, folder) || strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, d := range file.Decls {
			for _, s := range specsOf(d) {
				if spec, is := s.(*ast.TypeSpec); is && spec.Name.IsExported() && !spec.Assign.IsValid() {
					if declared[spec.Name.Name] == nil {
						declared[spec.Name.Name] = map[string]bool{}
					}
					declared[spec.Name.Name][folder] = true
				}
			}
		}
	})
	for name, folders := range declared {
		if len(folders) > 1 && shared[name] == "" {
			t.Errorf("%s is a type of %v: name the meaning that they share, or name them apart", name, slices.Sorted(maps.Keys(folders)))
		}
	}
	for name := range shared {
		if len(declared[name]) < 2 {
			t.Errorf("%s is a type of one package at most: its line can go", name)
		}
	}
}

func specsOf(d ast.Decl) []ast.Spec {
	if general, is := d.(*ast.GenDecl); is {
		return general.Specs
	}
	return nil
}
