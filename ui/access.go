package ui

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/postrider/postrider/ui/act"
)

// Access is what a request may do.
type Access = act.Access

// The levels of access, each including those before it: nothing, looking, actions.
const (
	AccessNone     = act.AccessNone
	AccessReadOnly = act.AccessReadOnly
	AccessOperate  = act.AccessOperate
)

// Identity is who sent a request, and what they may do.
type Identity = act.Identity

// User is a name and password for HTTP basic authentication.
type User struct {
	Name, Password string
	// Access is what the user may do. It must not be AccessNone.
	Access Access
}

// Token is a bearer token.
type Token struct {
	Value string
	// Name stands in the audit for whoever bears the token. Defaults to "token 1" for the first token, and so on.
	Name string
	// Access is what the bearer may do. It must not be AccessNone.
	Access Access
}

// Auth says who may look and who may act. The zero value authenticates nobody: then only connections to a loopback address are served, with
// AccessOperate, and the audit names them "local".
type Auth struct {
	// Users may log in with HTTP basic authentication.
	Users []User
	// Tokens may be sent as "Authorization: Bearer …".
	Tokens []Token
	// ProxyHeader is the header in which a proxy passes on the name of the user whom it authenticated, for instance "X-Forwarded-User". It
	// needs TrustedProxies. The proxy must set it on every request, replacing what the client sent: a request with two of them, or from
	// another address, is refused with 403. A request without it may use Users and Tokens. Defaults to none.
	ProxyHeader string
	// TrustedProxies are the addresses from which ProxyHeader is believed.
	TrustedProxies []netip.Prefix
	// ProxyAccess is what those may do whom the proxy names. It must be given with ProxyHeader.
	ProxyAccess Access
	// Authorize decides instead of all of these, for instance by the session of the program that embeds the monitor: AccessNone,
	// AccessReadOnly or AccessOperate.
	Authorize func(*http.Request) Access
	// Identify names, for the audit, the user whom Authorize let in: at most 200 bytes. Defaults to "embedded".
	Identify func(*http.Request) string
}

// Enabled tells whether requests have to authenticate.
func (a Auth) Enabled() bool {
	return a.Authorize != nil || len(a.Users) > 0 || len(a.Tokens) > 0 || a.ProxyHeader != ""
}

// Validate names the first field whose value is refused. It never quotes a password or token.
func (a Auth) Validate() error {
	if a.Authorize != nil && (len(a.Users) > 0 || len(a.Tokens) > 0 || a.ProxyHeader != "") {
		return errors.New("ui: Auth.Authorize excludes Auth.Users, Auth.Tokens and Auth.ProxyHeader")
	}
	if a.Identify != nil && a.Authorize == nil {
		return errors.New("ui: Auth.Identify is given without Auth.Authorize")
	}
	for i, u := range a.Users {
		switch {
		case u.Name == "" || strings.Contains(u.Name, ":"):
			return fmt.Errorf("ui: Auth.Users[%d].Name is empty or holds a colon", i)
		case !usableName(u.Name):
			return fmt.Errorf("ui: Auth.Users[%d].Name holds control characters or more than %d bytes", i, longestName)
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
		case t.Name != "" && !usableName(t.Name):
			return fmt.Errorf("ui: Auth.Tokens[%d].Name holds control characters or more than %d bytes", i, longestName)
		case t.Access != AccessReadOnly && t.Access != AccessOperate:
			return fmt.Errorf("ui: Auth.Tokens[%d].Access is %v; want read-only or operate", i, t.Access)
		}
	}
	return a.validateProxy()
}

func (a Auth) validateProxy() error {
	switch {
	case a.ProxyHeader == "" && (len(a.TrustedProxies) > 0 || a.ProxyAccess != AccessNone):
		return errors.New("ui: Auth.TrustedProxies and Auth.ProxyAccess need Auth.ProxyHeader")
	case a.ProxyHeader == "":
		return nil
	case !headerName(a.ProxyHeader):
		return fmt.Errorf("ui: Auth.ProxyHeader %q is not the name of a header that may carry a user's name", a.ProxyHeader)
	case len(a.TrustedProxies) == 0:
		return errors.New("ui: Auth.ProxyHeader needs Auth.TrustedProxies: anybody could send the header")
	case a.ProxyAccess != AccessReadOnly && a.ProxyAccess != AccessOperate:
		return fmt.Errorf("ui: Auth.ProxyAccess is %v; want read-only or operate", a.ProxyAccess)
	}
	for i, p := range a.TrustedProxies {
		if !p.IsValid() {
			return fmt.Errorf("ui: Auth.TrustedProxies[%d] is not a range of addresses", i)
		}
	}
	return nil
}

// ParseUser reads "name:password". The password may hold colons. The error does not quote the text.
func ParseUser(text string, access Access) (User, error) {
	name, password, found := strings.Cut(text, ":")
	if !found || name == "" || password == "" {
		return User{}, errors.New("ui: credentials must read name:password or name:token")
	}
	return User{Name: name, Password: password, Access: access}, nil
}

// ReadTokens reads a file of "name:token" lines, by the rules of ReadUsers.
func ReadTokens(path string, access Access) ([]Token, error) {
	users, err := ReadUsers(path, access)
	if err != nil {
		return nil, err
	}
	tokens := make([]Token, len(users))
	for i, u := range users {
		tokens[i] = Token{Name: u.Name, Value: u.Password, Access: access}
	}
	return tokens, nil
}

// ReadUsers reads a file of "name:password" lines; blank lines and lines that begin with # are passed over. A file that its group or others
// may write is refused. One that they may read is not, since mounted secrets of container platforms are.
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
