package inbox_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.URL(t))
	box, err := inbox.New(pool, inbox.Config{Name: "n", Schema: "Odd_1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Process(t.Context(), event("s", 1), apply); !errors.Is(err, inbox.ErrNotMigrated) {
		t.Errorf("without tables it gives %v", err)
	}
	if _, _, err := inbox.Version(t.Context(), pool, "Odd_1"); !errors.Is(err, inbox.ErrNotMigrated) {
		t.Errorf("the version of nothing gives %v", err)
	}
	var group sync.WaitGroup
	for range 4 { // any number at once, again and again
		group.Go(func() {
			if err := inbox.Migrate(t.Context(), pool, "Odd_1"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	stored, needed, err := inbox.Version(t.Context(), pool, "Odd_1")
	if err != nil || stored != needed || stored == 0 {
		t.Errorf("version %d of %d, %v", stored, needed, err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO "Odd_1".inbox_schema_version (version) VALUES (99)`); err != nil {
		t.Fatal(err)
	}
	if err := inbox.Migrate(t.Context(), pool, "Odd_1"); !errors.Is(err, inbox.ErrNewer) {
		t.Errorf("newer tables give %v", err)
	}
	if err := inbox.Migrate(t.Context(), pool, `a"b`); err == nil {
		t.Error("a schema with a quote is accepted")
	}
}
