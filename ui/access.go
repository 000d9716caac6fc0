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

// Access is the level of a request's rights.
type Access = act.Access

// The levels of access, each including those before it: nothing, looking, actions.
const (
	AccessNone     = act.AccessNone
	AccessReadOnly = act.AccessReadOnly
	AccessOperate  = act.AccessOperate
)

// Identity is the sender of a request, with their access.
type Identity = act.Identity

// User is a name and password for HTTP basic authentication.
type User struct {
	Name, Password string
	// Access is the user's. It must not be AccessNone.
	Access Access
}

// Token is a bearer token.
type Token struct {
	Value string
	// Name stands in the audit for the bearer. Defaults to "token 1" for the first token, and so on.
	Name string
	// Access is the bearer's. It must not be AccessNone.
	Access Access
}

// Auth decides who may look and who may act. The zero value authenticates nobody: only connections to a loopback address are served, with
// AccessOperate, and the audit names them "local".
type Auth struct {
	// Users may log in with HTTP basic authentication.
	Users []User
	// Tokens may be sent as "Authorization: Bearer …".
	Tokens []Token
	// ProxyHeader is the header in which a proxy passes on the name of the user whom it authenticated, for instance "X-Forwarded-User". It
	// needs TrustedProxies. The proxy must set it on every request, replacing the client's: a request with two of them, or from
	// another address, is refused with 403. A request without it may use Users and Tokens. Defaults to none.
	ProxyHeader string
	// TrustedProxies are the addresses whose ProxyHeader is believed.
	TrustedProxies []netip.Prefix
	// ProxyAccess is the access of users whom the proxy names. It must be given with ProxyHeader.
	ProxyAccess Access
	// Authorize replaces all of these, for instance by the session of the program that embeds the monitor: AccessNone, AccessReadOnly or
	// AccessOperate.
	Authorize func(*http.Request) Access
	// Identify names, for the audit, the user whom Authorize let in: at most 200 bytes. Defaults to "embedded".
	Identify func(*http.Request) string
}

// Enabled reports whether requests have to authenticate.
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
		if fault := u.fault(); fault != "" {
			return fmt.Errorf("ui: Auth.Users[%d].%s", i, fault)
		}
	}
	for i, t := range a.Tokens {
		if fault := t.fault(); fault != "" {
			return fmt.Errorf("ui: Auth.Tokens[%d].%s", i, fault)
		}
	}
	return a.validateProxy()
}

// fault names the first field whose value is refused, and why; it is empty when there is none.
func (u User) fault() string {
	switch {
	case u.Name == "" || strings.Contains(u.Name, ":"):
		return "Name is empty or holds a colon"
	case !usableName(u.Name):
		return fmt.Sprintf("Name holds control characters or more than %d bytes", longestName)
	case u.Password == "":
		return "Password is empty"
	case u.Access != AccessReadOnly && u.Access != AccessOperate:
		return fmt.Sprintf("Access is %v; want read-only or operate", u.Access)
	}
	return ""
}

// fault names the first field whose value is refused, and why; it is empty when there is none.
func (t Token) fault() string {
	switch {
	case t.Value == "" || strings.ContainsAny(t.Value, " \t\r\n"):
		return "Value is empty or holds white space"
	case t.Name != "" && !usableName(t.Name):
		return fmt.Sprintf("Name holds control characters or more than %d bytes", longestName)
	case t.Access != AccessReadOnly && t.Access != AccessOperate:
		return fmt.Sprintf("Access is %v; want read-only or operate", t.Access)
	}
	return ""
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

// ReadAuth reads a file with a line for each user, "ROLE KIND NAME SECRET", and one for a trusted proxy, "ROLE proxy HEADER ADDRESSES". The role
// is read-only or operate, the kind of a user password or token; spaces or tabs separate them, and the secret is the rest of the line. The
// addresses from which the proxy's header is believed are single ones or ranges, separated by commas. Blank lines and lines that begin with #
// are skipped. A file that its group or others may write is refused. They may read it, since they can read mounted secrets of container
// platforms. No error quotes the file.
func ReadAuth(path string) (Auth, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Auth{}, fmt.Errorf("ui: users file: %w", err)
	}
	const othersMayWrite = 0o022
	if info.Mode().Perm()&othersMayWrite != 0 {
		return Auth{}, fmt.Errorf("ui: users file %s may be written by others (mode %v); chmod go-w it", path, info.Mode().Perm())
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return Auth{}, fmt.Errorf("ui: users file: %w", err)
	}
	var auth Auth
	for number, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if trimmed := strings.TrimSpace(line); trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		if fault := auth.add(line); fault != "" {
			return Auth{}, fmt.Errorf("ui: users file %s, line %d: %s", path, number+1, fault)
		}
	}
	if !auth.Enabled() {
		return Auth{}, fmt.Errorf("ui: users file %s lets nobody in", path)
	}
	return auth, nil
}

// add adds the user or proxy of a line; the fault is empty for a correct line.
func (a *Auth) add(line string) (fault string) {
	user, kind, fault := parseUser(line)
	switch {
	case fault != "":
		return fault
	case kind == kindToken:
		token := Token{Value: user.Password, Name: user.Name, Access: user.Access}
		a.Tokens = append(a.Tokens, token)
		return token.fault()
	case kind == kindPassword:
		a.Users = append(a.Users, user)
		return user.fault()
	case a.ProxyHeader != "":
		return "this is a second proxy; one line names its header and all addresses"
	case !headerName(user.Name):
		return "the word after proxy must be the name of a header that may carry a user's name, such as X-Forwarded-User"
	}
	a.ProxyHeader, a.ProxyAccess = user.Name, user.Access
	for text := range strings.SplitSeq(user.Password, ",") {
		prefix, err := netip.ParsePrefix(text)
		if address, single := netip.ParseAddr(text); single == nil && address.Zone() == "" {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil || prefix.Addr().Is4In6() {
			return "the last word must be addresses or ranges separated by commas, such as 10.0.0.0/8,::1"
		}
		a.TrustedProxies = append(a.TrustedProxies, prefix.Masked())
	}
	return ""
}

// The kinds of lines in a users file.
const (
	kindPassword = "password"
	kindToken    = "token"
	kindProxy    = "proxy"
)

// parseUser reads the words of one line of a users file, the last into Password. The fault does not quote it: any word of a wrong line may be the secret.
func parseUser(line string) (user User, kind, fault string) {
	const blanks = " \t"
	var words [3]string
	rest := strings.TrimLeft(line, blanks)
	for i := range words {
		end := strings.IndexAny(rest, blanks)
		if end < 0 {
			return User{}, "", "want ROLE KIND NAME SECRET, such as: operate password alice s3cret"
		}
		words[i], rest = rest[:end], strings.TrimLeft(rest[end:], blanks)
	}
	user = User{Name: words[2], Password: rest}
	switch words[0] {
	case AccessReadOnly.String():
		user.Access = AccessReadOnly
	case AccessOperate.String():
		user.Access = AccessOperate
	default:
		return User{}, "", "the first word, the role, must be read-only or operate"
	}
	switch {
	case words[1] != kindPassword && words[1] != kindToken && words[1] != kindProxy:
		return User{}, "", "the second word, the kind, must be password, token or proxy"
	case rest == "":
		return User{}, "", "the secret after the name is missing"
	}
	return user, words[1], ""
}

// onLoopback reports whether the connection arrived at a loopback address; false where no server says so, as in a handler called
// without one.
func onLoopback(r *http.Request) bool {
	address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
