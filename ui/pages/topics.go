package pages

import (
	"net/http"
	"net/url"

	"github.com/postrider/postrider/ui/source"
	"github.com/postrider/postrider/web"
)

func (p *Pages) topics(w http.ResponseWriter, r *http.Request) error {
	seen, err := p.desk.Cache.Observe(r.Context())
	if err != nil {
		return errUnread
	}
	loads := p.desk.TopicLoads(r, seen)
	page := web.Topics{
		Shell: p.shellOf(r, "Topics and types", sectionTopics), Trouble: seen.Trouble(), Counted: seen.Named != nil,
		ByTopic: p.nameRows(loads.Topics, paramTopic), ByType: p.nameRows(loads.Types, paramType),
	}
	page.Every = listEvery
	if loads.Flows != nil {
		page.Flowing, page.Sampled, page.Span = true, loads.Flows.Sampled, loads.Flows.Span
	}
	return p.send(w, r, http.StatusOK, "topics", page)
}

func (p *Pages) nameRows(names []source.NameLoad, param string) []web.NameRow {
	var most float64
	for _, n := range names {
		if n.PerSecond != nil {
			most = max(most, *n.PerSecond)
		}
	}
	rows := make([]web.NameRow, 0, len(names))
	for _, n := range names {
		row := web.NameRow{Name: n.Name, Other: n.Other}
		if n.PerSecond != nil {
			row.Rate = web.Rate(*n.PerSecond)
			if most > 0 {
				row.Share = int(100 * *n.PerSecond / most)
			}
		}
		if n.Share != nil {
			row.Counted, row.Dead, row.Oldest, row.Unknown = true, n.Share.Dead, n.Share.Oldest, n.Share.Unknown
		}
		if p.desk.Means().Operator != nil && !row.Other {
			query := url.Values{param: {n.Name}}.Encode()
			row.List, row.Causes = "messages?"+query, "messages/causes?"+query
		}
		rows = append(rows, row)
	}
	return rows
}
