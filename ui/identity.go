package ui

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Names of senders without one.
const (
	localName    = "local"
	embeddedName = "embedded"
)

// longestName is the audit's limit, in bytes.
const longestName = 200

func usableName(name string) bool {
	return len(name) <= longestName && utf8.ValidString(name) && strings.TrimSpace(name) != "" && !strings.ContainsFunc(name, unicode.IsControl)
}

// headerName reports whether name is a valid header without another meaning.
func headerName(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "cookie", "host", "origin", "content-type", "content-length", "user-agent", "accept", "referer", "connection":
		return false
	}
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// refusal is the reason to reject a request before its credentials count.
type refusal int

const (
	notRefused refusal = iota
	// untrustedProxy sent an identity header from elsewhere, or a bad one.
	untrustedProxy
	// tooManyAttempts came from that address, at that user or at nobody.
	tooManyAttempts
)

// verdict is an authenticator's decision about a request.
type verdict struct {
	Identity
	refusal refusal
	// retry is the time until a refused address may try again.
	retry time.Duration
}

// authenticator holds digests, since their comparison takes the same time for secrets of any length.
type authenticator struct {
	auth     Auth
	users    []credential
	tokens   []credential
	names    map[string]bool // of users
	attempts *attempts
}

type credential struct {
	digest [sha256.Size]byte
	Identity
}

func newAuthenticator(a Auth, log *slog.Logger) *authenticator {
	auth := &authenticator{auth: a, names: map[string]bool{}, attempts: newAttempts(log)}
	for _, u := range a.Users {
		auth.names[u.Name] = true
		auth.users = append(auth.users, credential{sha256.Sum256([]byte(u.Name + ":" + u.Password)), Identity{Name: u.Name, Access: u.Access}})
	}
	for i, t := range a.Tokens {
		name := cmp.Or(t.Name, fmt.Sprintf("token %d", i+1))
		auth.tokens = append(auth.tokens, credential{sha256.Sum256([]byte(t.Value)), Identity{Name: name, Access: t.Access}})
	}
	return auth
}

func (a *authenticator) enabled() bool { return a.auth.Enabled() }

// challenges lists the WWW-Authenticate values of the ways to log in; none where Authorize decides.
func (a *authenticator) challenges() []string {
	var schemes []string
	if len(a.users) > 0 {
		schemes = append(schemes, `Basic realm="Postrider monitor", charset="UTF-8"`)
	}
	if len(a.tokens) > 0 {
		schemes = append(schemes, `Bearer realm="Postrider monitor"`)
	}
	return schemes
}

func (a *authenticator) judge(r *http.Request) verdict {
	switch {
	case a.auth.Authorize != nil:
		return verdict{Identity: a.embedded(r)}
	case !a.enabled() && onLoopback(r):
		return verdict{Identity: Identity{Name: localName, Access: AccessOperate}}
	case !a.enabled():
		return verdict{}
	}
	if a.auth.ProxyHeader != "" {
		if names := r.Header.Values(a.auth.ProxyHeader); len(names) > 0 {
			return a.proxied(r, names)
		}
	}
	known, sent, kind := a.users, "", guessedToken
	name, password, basic := r.BasicAuth()
	if basic {
		sent, kind = name+":"+password, guessedNobody
		if a.names[name] {
			kind = guessedUser
		}
	} else if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		known, sent = a.tokens, strings.TrimSpace(token)
	}
	if sent == "" {
		return verdict{}
	}
	var who Identity
	retry := a.attempts.try(peer(r), kind, name, func() bool {
		who = match(known, sent)
		return who.Access > AccessNone
	})
	if retry > 0 {
		return verdict{refusal: tooManyAttempts, retry: retry}
	}
	return verdict{Identity: who}
}

func (a *authenticator) embedded(r *http.Request) Identity {
	who := Identity{Name: embeddedName, Access: a.auth.Authorize(r)}
	if who.Access < AccessNone || who.Access > AccessOperate {
		return Identity{}
	}
	if a.auth.Identify != nil && who.Access > AccessNone {
		who.Name = cmp.Or(a.auth.Identify(r), embeddedName)
	}
	return who
}

// proxied believes the header of a trusted proxy. Two headers, or one with a comma, may be the client's own before the proxy's.
func (a *authenticator) proxied(r *http.Request, names []string) verdict {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || len(names) != 1 || !usableName(names[0]) || strings.Contains(names[0], ",") {
		return verdict{refusal: untrustedProxy}
	}
	from := address.Addr().Unmap().WithZone("")
	for _, p := range a.auth.TrustedProxies {
		if p.Contains(from) {
			return verdict{Identity: Identity{Name: strings.TrimSpace(names[0]), Access: a.auth.ProxyAccess}}
		}
	}
	return verdict{refusal: untrustedProxy}
}

// match compares every credential, so that its time does not reveal which one came close.
func match(known []credential, sent string) Identity {
	digest := sha256.Sum256([]byte(sent))
	var who Identity
	for _, c := range known {
		if subtle.ConstantTimeCompare(c.digest[:], digest[:]) == 1 && c.Access > who.Access {
			who = c.Identity
		}
	}
	return who
}
