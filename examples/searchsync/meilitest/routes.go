package meilitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	indexUID   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,400}$`)
	documentID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,511}$`)
)

// route answers one request. The caller holds the lock.
func (s *Server) route(r *http.Request, body []byte, f Fault) (int, any) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodGet && len(parts) == 1 && parts[0] == "health":
		return http.StatusOK, map[string]string{"status": "available"}
	case r.Method == http.MethodGet && len(parts) == 2 && parts[0] == "tasks":
		return s.task(parts[1])
	case r.Method == http.MethodPost && len(parts) == 1 && parts[0] == "indexes":
		return s.createIndex(body, f)
	case r.Method == http.MethodPost && len(parts) == 1 && parts[0] == "swap-indexes":
		return s.swapIndexes(body, f)
	case len(parts) >= 2 && parts[0] == "indexes":
		return s.indexRoute(r, parts[1], parts[2:], body, f)
	}
	return fail(refuse(http.StatusNotFound, "invalid_request", "not_found", "The route does not exist."))
}

func (s *Server) indexRoute(r *http.Request, uid string, rest []string, body []byte, f Fault) (int, any) {
	if !indexUID.MatchString(uid) {
		return fail(refuse(http.StatusBadRequest, "invalid_request", "invalid_index_uid", "`"+uid+"` is not a valid index uid."))
	}
	switch route := r.Method + " " + strings.Join(rest, "/"); {
	case route == "DELETE ":
		return s.enqueue("indexDeletion", uid, f, func() *apiError {
			if s.indexes[uid] == nil {
				return missing(uid)
			}
			delete(s.indexes, uid)
			return nil
		})
	case route == "PATCH settings":
		return s.changeSettings(uid, body, f)
	case route == "GET settings":
		return s.reading(uid, func(i *index) (int, any) { return http.StatusOK, i.settings })
	case route == "POST documents":
		return s.addDocuments(uid, r.URL.Query().Get("primaryKey"), body, f)
	case route == "POST documents/delete-batch":
		return s.deleteDocuments(uid, body, f)
	case route == "GET documents":
		return s.reading(uid, func(i *index) (int, any) { return i.list(r) })
	case r.Method == http.MethodGet && len(rest) == 2 && rest[0] == "documents":
		return s.reading(uid, func(i *index) (int, any) { return i.one(r, rest[1]) })
	case route == "POST search":
		return s.reading(uid, func(i *index) (int, any) { return i.search(body) })
	}
	return fail(refuse(http.StatusNotFound, "invalid_request", "not_found", "The route does not exist."))
}

func fail(e *apiError) (int, any) { return e.status, e }

func missing(uid string) *apiError {
	return refuse(http.StatusNotFound, "invalid_request", "index_not_found", "Index `"+uid+"` not found.")
}

func malformed(err error) (int, any) {
	return fail(refuse(http.StatusBadRequest, "invalid_request", "malformed_payload", "The payload is malformed: "+err.Error()))
}

func (s *Server) reading(uid string, read func(*index) (int, any)) (int, any) {
	if i := s.indexes[uid]; i != nil {
		return read(i)
	}
	return fail(missing(uid))
}

// enqueue takes a task and answers as the API does.
func (s *Server) enqueue(kind, uid string, f Fault, work func() *apiError) (int, any) {
	t := &taskState{UID: len(s.tasks), Status: "enqueued", Type: kind, EnqueuedAt: time.Now(), slow: f.SlowTask, work: work}
	if uid != "" {
		t.IndexUID = &uid
	}
	if f.FailTask {
		t.work = func() *apiError { return refuse(0, "internal", "internal", "An internal error has occurred.") }
	}
	s.tasks = append(s.tasks, t)
	s.queue <- t
	return http.StatusAccepted, map[string]any{
		"taskUid": t.UID, "indexUid": t.IndexUID, "status": t.Status, "type": t.Type, "enqueuedAt": t.EnqueuedAt,
	}
}

func (s *Server) task(text string) (int, any) {
	uid, err := strconv.Atoi(text)
	if err != nil {
		return fail(refuse(http.StatusBadRequest, "invalid_request", "invalid_task_uids", "Invalid value for task uid."))
	}
	if uid < 0 || uid >= len(s.tasks) {
		return fail(refuse(http.StatusNotFound, "invalid_request", "task_not_found", "Task `"+text+"` not found."))
	}
	return http.StatusOK, s.tasks[uid]
}

func (s *Server) createIndex(body []byte, f Fault) (int, any) {
	var wanted struct {
		UID        string `json:"uid"`
		PrimaryKey string `json:"primaryKey"`
	}
	if err := json.Unmarshal(body, &wanted); err != nil {
		return malformed(err)
	}
	if !indexUID.MatchString(wanted.UID) {
		return fail(refuse(http.StatusBadRequest, "invalid_request", "invalid_index_uid", "`"+wanted.UID+"` is not a valid index uid."))
	}
	return s.enqueue("indexCreation", wanted.UID, f, func() *apiError {
		if s.indexes[wanted.UID] != nil {
			return refuse(0, "invalid_request", "index_already_exists", "Index `"+wanted.UID+"` already exists.")
		}
		s.indexes[wanted.UID] = newIndex(wanted.PrimaryKey)
		return nil
	})
}

func newIndex(primaryKey string) *index {
	return &index{
		primaryKey: primaryKey, documents: map[string]map[string]any{},
		settings: map[string]any{"searchableAttributes": []any{"*"}, "filterableAttributes": []any{}},
	}
}

func (s *Server) swapIndexes(body []byte, f Fault) (int, any) {
	var pairs []struct {
		Indexes []string `json:"indexes"`
	}
	if err := json.Unmarshal(body, &pairs); err != nil {
		return malformed(err)
	}
	for _, p := range pairs {
		if len(p.Indexes) != 2 {
			return fail(refuse(http.StatusBadRequest, "invalid_request", "invalid_swap_indexes", "Two indexes must be given for each swap."))
		}
	}
	return s.enqueue("indexSwap", "", f, func() *apiError {
		for _, p := range pairs {
			for _, uid := range p.Indexes {
				if s.indexes[uid] == nil {
					return missing(uid)
				}
			}
		}
		for _, p := range pairs {
			a, b := p.Indexes[0], p.Indexes[1]
			s.indexes[a], s.indexes[b] = s.indexes[b], s.indexes[a]
		}
		return nil
	})
}

func (s *Server) changeSettings(uid string, body []byte, f Fault) (int, any) {
	var change map[string]any
	if err := json.Unmarshal(body, &change); err != nil {
		return malformed(err)
	}
	for name := range change {
		if !slices.Contains([]string{"searchableAttributes", "filterableAttributes", "displayedAttributes", "sortableAttributes"}, name) {
			return fail(refuse(http.StatusBadRequest, "invalid_request", "bad_request", "Unknown field `"+name+"`."))
		}
	}
	return s.enqueue("settingsUpdate", uid, f, func() *apiError {
		if s.indexes[uid] == nil { // the settings of an index that is not there make it
			s.indexes[uid] = newIndex("")
		}
		maps.Copy(s.indexes[uid].settings, change)
		return nil
	})
}

func (s *Server) addDocuments(uid, primaryKey string, body []byte, f Fault) (int, any) {
	var documents []map[string]any
	if err := json.Unmarshal(body, &documents); err != nil {
		return malformed(err)
	}
	return s.enqueue("documentAdditionOrUpdate", uid, f, func() *apiError {
		if s.indexes[uid] == nil {
			s.indexes[uid] = newIndex(primaryKey)
		}
		i := s.indexes[uid]
		if i.primaryKey == "" {
			i.primaryKey = primaryKey
		}
		for _, d := range documents { // all of a task or nothing
			id, ok := d[i.primaryKey].(string)
			if !ok {
				return refuse(0, "invalid_request", "missing_document_id", fmt.Sprintf("Document doesn't have a `%s` attribute.", i.primaryKey))
			}
			if !documentID.MatchString(id) {
				return refuse(0, "invalid_request", "invalid_document_id", fmt.Sprintf("Document identifier `%q` is invalid.", id))
			}
		}
		for _, d := range documents {
			id, _ := d[i.primaryKey].(string)
			i.documents[id] = d
		}
		return nil
	})
}

func (s *Server) deleteDocuments(uid string, body []byte, f Fault) (int, any) {
	var ids []string
	if err := json.Unmarshal(body, &ids); err != nil {
		return malformed(err)
	}
	return s.enqueue("documentDeletion", uid, f, func() *apiError {
		if s.indexes[uid] == nil {
			return missing(uid)
		}
		for _, id := range ids {
			delete(s.indexes[uid].documents, id)
		}
		return nil
	})
}
