package delivery

import "testing"

// Whose life of the records is known, and which the stream has, tells up to where it holds what was acknowledged.
func TestALossShowsByTheLifeOfTheRecords(t *testing.T) {
	t.Parallel()
	first, second, third := Life{ID: "1.a"}, Life{ID: "2.b", Kept: 40}, Life{ID: "3.c", Kept: 70}
	for name, c := range map[string]struct {
		lives []Life
		known Known
		kept  uint64
		lost  bool
	}{
		"none":                                    {[]Life{first}, Known{90, "1.a"}, 90, false},
		"the end":                                 {[]Life{first}, Known{91, "1.a"}, 90, true},
		"nothing was known":                       {[]Life{first, second}, Known{0, ""}, 90, false},
		"a row that came back":                    {[]Life{first, second}, Known{91, ""}, 90, true},
		"the database forgot one life":            {[]Life{first, second}, Known{80, "1.a"}, 40, true},
		"it forgot two":                           {[]Life{first, second, third}, Known{80, "1.a"}, 40, true},
		"it forgot more than are handed on":       {[]Life{second, third}, Known{80, "1.a"}, 40, true},
		"it forgot the last":                      {[]Life{first, second, third}, Known{80, "2.b"}, 70, true},
		"the stream is an older copy":             {[]Life{first}, Known{80, "2.b"}, 90, true},
		"an older copy that goes on":              {[]Life{first, third}, Known{80, "2.b"}, 70, true},
		"an older copy, and another second life":  {[]Life{first, {ID: "2.x", Kept: 60}}, Known{80, "2.b"}, 60, true},
		"a publisher that knows of no life":       {nil, Known{80, ""}, 90, false},
		"the same life, and older ones before it": {[]Life{first, second, third}, Known{80, "3.c"}, 90, false},
	} {
		if kept, lost := (Standing{Kept: 90, Lives: c.lives}).LostSince(c.known); kept != c.kept || lost != c.lost {
			t.Errorf("%s: kept up to %d, lost %t; want %d, %t", name, kept, lost, c.kept, c.lost)
		}
	}
}
