package act

import (
	"context"
	"fmt"
	"net/http"
)

// Access is what a request may do.
type Access int

// The levels of access, each including those before it.
const (
	// AccessNone refuses the request.
	AccessNone Access = iota
	// AccessReadOnly allows looking.
	AccessReadOnly
	// AccessOperate allows actions.
	AccessOperate
)

// String names the level.
func (a Access) String() string {
	switch a {
	case AccessNone:
		return "none"
	case AccessReadOnly:
		return "read-only"
	case AccessOperate:
		return "operate"
	default:
		return fmt.Sprintf("access(%d)", int(a))
	}
}

// Identity is who sent a request, and what they may do.
type Identity struct {
	// Name stands in the audit: the user's, the token's, the one that a trusted proxy or the embedding program gave, or "local" for a
	// loopback connection without authentication. It never comes from the request itself.
	Name   string
	Access Access
}

type identityKey struct{}

// WithIdentity notes who sent the request.
func WithIdentity(r *http.Request, who Identity) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, who))
}

// Who returns who sent a request that the guard let through; nobody otherwise.
func Who(r *http.Request) Identity {
	who, _ := r.Context().Value(identityKey{}).(Identity)
	return who
}

// Access returns what who may do here.
func (d *Desk) Access(who Identity) Access {
	if d.Means().ReadOnly {
		return min(who.Access, AccessReadOnly)
	}
	return who.Access
}
