package act

import (
	"context"
	"fmt"
	"net/http"
)

// Access is the level of a request's rights.
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

// Identity is the sender of a request, with their access.
type Identity struct {
	// Name stands in the audit: that of a user or token, the one a trusted proxy or the embedding program gave, or "local" for a loopback
	// connection without authentication. The request never chooses it.
	Name   string
	Access Access
}

type identityKey struct{}

// WithIdentity notes the sender in the request.
func WithIdentity(r *http.Request, who Identity) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, who))
}

// Who returns the sender of a request that passed the guard; nobody otherwise.
func Who(r *http.Request) Identity {
	who, _ := r.Context().Value(identityKey{}).(Identity)
	return who
}

// Access returns the level of who here.
func (d *Desk) Access(who Identity) Access {
	if d.Means().ReadOnly {
		return min(who.Access, AccessReadOnly)
	}
	return who.Access
}
