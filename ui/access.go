package ui

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
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

// User is a name and password for HTTP basic authentication.
type User struct {
	Name, Password string
	// Access is what the user may do. It must not be AccessNone.
	Access Access
}

// Token is a bearer token.
type Token struct {
	Value string
	// Access is what the bearer may do. It must not be AccessNone.
	Access Access
}

// Auth says who may look and who may act. The zero value authenticates nobody:
// then only connections to a loopback address are served, with AccessOperate.
type Auth struct {
	// Users may log in with HTTP basic authentication.
	Users []User
	// Tokens may be sent as "Authorization: Bearer …".
	Tokens []Token
	// Authorize decides instead of Users and Tokens, for instance by the
	// session of the program that embeds the monitor. It excludes both.
	Authorize func(*http.Request) Access
}

// Enabled tells whether requests have to authenticate.
func (a Auth) Enabled() bool {
	return a.Authorize != nil || len(a.Users) > 0 || len(a.Tokens) > 0
}

// Validate names the first field whose value is refused. It never quotes a
// password or token.
func (a Auth) Validate() error {
	if a.Authorize != nil && (len(a.Users) > 0 || len(a.Tokens) > 0) {
		return errors.New("ui: Auth.Authorize excludes Auth.Users and Auth.Tokens")
	}
	for i, u := range a.Users {
		switch {
		case u.Name == "" || strings.Contains(u.Name, ":"):
			return fmt.Errorf("ui: Auth.Users[%d].Name is empty or holds a colon", i)
		case u.Password == "":
			return fmt.Errorf("ui: Auth.Users[%d].Password is empty", i)
		case u.Access != AccessReadOnly && u.Access != AccessOperate:
			return fmt.Errorf("ui: Auth.Users[%d].Access is %v; want read-only or operate", i, u.Access)
		}
	}
	for i, t := range a.Tokens {
		switch {
		case t.Value == "" || strings.ContainsAny(t.Value, " \t\r\n"):
			return fmt.Errorf("ui: Auth.Tokens[%d].Value is empty or holds white space", i)
		case t.Access != AccessReadOnly && t.Access != AccessOperate:
			return fmt.Errorf("ui: Auth.Tokens[%d].Access is %v; want read-only or operate", i, t.Access)
		}
	}
	return nil
}

// ParseUser reads "name:password". The password may hold colons. The error does
// not quote the text.
func ParseUser(text string, access Access) (User, error) {
	name, password, found := strings.Cut(text, ":")
	if !found || name == "" || password == "" {
		return User{}, errors.New("ui: credentials must read name:password")
	}
	return User{Name: name, Password: password, Access: access}, nil
}

// ReadUsers reads a file of "name:password" lines; blank lines and lines that
// begin with # are passed over. A file that its group or others may write is
// refused. One that they may read is not, since mounted secrets of container
// platforms are.
func ReadUsers(path string, access Access) ([]User, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("ui: credentials file: %w", err)
	}
	const othersMayWrite = 0o022
	if info.Mode().Perm()&othersMayWrite != 0 {
		return nil, fmt.Errorf("ui: credentials file %s may be written by others (mode %v); chmod go-w it", path, info.Mode().Perm())
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("ui: credentials file: %w", err)
	}
	var users []User
	for number, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if trimmed := strings.TrimSpace(line); trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		user, err := ParseUser(line, access)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d of %s", err, number+1, path)
		}
		users = append(users, user)
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("ui: credentials file %s holds no credentials", path)
	}
	return users, nil
}

// authenticator holds digests, since comparing them takes the same time
// whatever the length of what was sent.
type authenticator struct {
	authorize func(*http.Request) Access
	users     []credential
	tokens    []credential
}

type credential struct {
	digest [sha256.Size]byte
	access Access
}

func newAuthenticator(a Auth) *authenticator {
	auth := &authenticator{authorize: a.Authorize}
	for _, u := range a.Users {
		auth.users = append(auth.users, credential{digest: sha256.Sum256([]byte(u.Name + ":" + u.Password)), access: u.Access})
	}
	for _, t := range a.Tokens {
		auth.tokens = append(auth.tokens, credential{digest: sha256.Sum256([]byte(t.Value)), access: t.Access})
	}
	return auth
}

func (a *authenticator) enabled() bool {
	return a.authorize != nil || len(a.users) > 0 || len(a.tokens) > 0
}

// challenges lists the WWW-Authenticate values that tell a client how to log
// in; none when a hook decides.
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

func (a *authenticator) access(r *http.Request) Access {
	if a.authorize != nil {
		return a.authorize(r)
	}
	if !a.enabled() {
		if onLoopback(r) {
			return AccessOperate
		}
		return AccessNone
	}
	if name, password, ok := r.BasicAuth(); ok {
		return match(a.users, name+":"+password)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return match(a.tokens, strings.TrimSpace(token))
	}
	return AccessNone
}

// match looks at every credential, so that its time tells nothing about which
// one came close.
func match(known []credential, sent string) Access {
	digest := sha256.Sum256([]byte(sent))
	access := AccessNone
	for _, c := range known {
		if subtle.ConstantTimeCompare(c.digest[:], digest[:]) == 1 {
			access = max(access, c.access)
		}
	}
	return access
}

// onLoopback tells whether the connection arrived at a loopback address. It is
// false when the server does not say, as in a handler called without one.
func onLoopback(r *http.Request) bool {
	address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
