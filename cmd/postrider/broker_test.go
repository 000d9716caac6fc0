package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
)

// settingsOf is a context as its file has it.
type settingsOf map[string]any

// write writes a context, as the nats command line does: also what is empty.
func (c settingsOf) write(t *testing.T) string {
	t.Helper()
	all := settingsOf{
		"description": "of a test", "url": "", "socks_proxy": "", "token": "", "user": "", "password": "", "creds": "", "nkey": "", "cert": "", "key": "",
		"ca": "", "nsc": "", "jetstream_domain": "", "jetstream_api_prefix": "", "jetstream_event_prefix": "", "inbox_prefix": "", "user_jwt": "",
		"user_seed": "", "color_scheme": "", "tls_first": false, "windows_cert_store": "", "windows_cert_match_by": "", "windows_cert_match": "",
		"windows_ca_certs_match": nil,
	}
	for name, value := range c {
		all[name] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "context.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestContextsThatAreRefused(t *testing.T) {
	t.Parallel()
	file := writeFile(t, planted)
	for name, c := range map[string]struct {
		settings settingsOf
		says     []string
	}{
		"two logins":            {settingsOf{"creds": file, "nkey": file}, []string{"creds and nkey", "remove"}},
		"user and token":        {settingsOf{"user": "u", "token": planted}, []string{"user and token"}},
		"a key that is none":    {settingsOf{"nkey": file}, []string{"nkey: "}},
		"a key that is away":    {settingsOf{"nkey": "/nowhere/x.nk"}, []string{"nkey: ", "/nowhere/x.nk"}},
		"creds that are away":   {settingsOf{"creds": "/nowhere/x.creds"}, []string{"creds", "/nowhere/x.creds"}},
		"a certificate alone":   {settingsOf{"cert": file}, []string{"cert needs key"}},
		"no certificate":        {settingsOf{"cert": file, "key": file}, []string{"cert, key: "}},
		"no authority":          {settingsOf{"ca": "/nowhere/ca.pem"}, []string{"ca ", "/nowhere/ca.pem"}},
		"a password alone":      {settingsOf{"password": planted}, []string{"password needs user"}},
		"a variable not set":    {settingsOf{"token": "env://POSTRIDER_NO_SUCH_VARIABLE"}, []string{"POSTRIDER_NO_SUCH_VARIABLE"}},
		"a proxy":               {settingsOf{"socks_proxy": "socks5://u:" + planted + "@x"}, []string{"socks_proxy"}},
		"nsc":                   {settingsOf{"nsc": "nsc://o/a/u"}, []string{"nsc is not supported"}},
		"a password manager":    {settingsOf{"token": "op://vault/item"}, []string{"token", "op:"}},
		"a setting of tomorrow": {settingsOf{"quantum_link": planted}, []string{"quantum_link", "remove"}},
		"domain and prefix":     {settingsOf{"jetstream_domain": "a", "jetstream_api_prefix": "b"}, []string{"exclude"}},
		"a domain of two":       {settingsOf{"jetstream_domain": "a.b"}, []string{"jetstream_domain", `"a.b"`}},
		"a prefix of any":       {settingsOf{"jetstream_api_prefix": "a.>"}, []string{"jetstream_api_prefix", `"a.>"`}},
		"answers of any":        {settingsOf{"inbox_prefix": "a.*"}, []string{"inbox_prefix", `"a.*"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := c.settings.write(t)
			complaint{[]string{"tail", "--limit=1", "--nats-context=" + file}, exitRefused, append(c.says, "--nats-context", file)}.check(t)
		})
	}
	complaint{onRun("--nats-context=" + file), exitRefused, []string{file, "invalid character"}}.check(t)
	complaint{onRun("--nats-context=/nowhere/x.json"), exitRefused, []string{"/nowhere/x.json", "no such file"}}.check(t)
}

// A context is found by its name; what it refers to is put in; flags win.
func TestAContextByItsName(t *testing.T) {
	home := t.TempDir()
	folder := filepath.Join(home, "configured", "nats", "context")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "configured"))
	t.Setenv("OUR_KEYS", filepath.Join(home, "keys"))
	t.Setenv("OUR_TOKEN", "t0ken")
	cert, _ := pems(t)
	for name, target := range map[string]string{"ca.pem": cert, "other.pem": cert} {
		if err := os.Symlink(target, filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, c settingsOf) {
		if err := os.Rename(c.write(t), filepath.Join(folder, name+".json")); err != nil {
			t.Fatal(err)
		}
	}
	write("shop", settingsOf{"url": "nats://n1,nats://n2", "token": "env://OUR_TOKEN", "ca": "~/ca.pem", "inbox_prefix": "answers", "jetstream_domain": "hub"})
	write("other.dc", settingsOf{"user": "u", "password": "secret", "ca": "$HOME/other.pem"})
	got := func(f natsFlags) (b broker, o nats.Options) {
		b, err := f.broker()
		if err != nil {
			t.Fatal(err)
		}
		for _, option := range b.options {
			if err := option(&o); err != nil {
				t.Error(err)
			}
		}
		return b, o
	}
	if b, o := got(natsFlags{NatsContext: "shop"}); b.url != "nats://n1,nats://n2" || b.apiPrefix != "$JS.hub.API" || o.Token != "t0ken" || o.InboxPrefix != "answers" || o.RootCAsCB == nil {
		t.Errorf("shop is %+v, %+v", b, o)
	}
	if b, o := got(natsFlags{NatsContext: "shop", NatsURL: "nats://n3", NatsInboxPrefix: "mine"}); b.url != "nats://n3" || o.InboxPrefix != "mine" || b.apiPrefix == "" {
		t.Errorf("with flags it is %+v, %+v", b, o)
	}
	_, token, seed := serveOperator(t)
	creds, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		t.Fatal(err)
	}
	if _, o := got(natsFlags{NatsContext: "other.dc", NatsCreds: writeFile(t, string(creds))}); o.UserJWT == nil || o.User != "" || o.RootCAsCB == nil {
		t.Errorf("with credentials it is %+v", o)
	}
	if b, o := got(natsFlags{NatsContext: "other.dc"}); b.url != nats.DefaultURL || o.User != "u" || o.Password != "secret" || b.apiPrefix != "" {
		t.Errorf("other.dc is %+v, %+v", b, o)
	}
	if b, o := got(natsFlags{}); b.url != nats.DefaultURL || o.InboxPrefix != "" || b.apiPrefix != "" {
		t.Errorf("without a context it is %+v, %+v", b, o)
	}
	complaint{[]string{"tail", "--limit=1", "--nats-context=shoop"}, exitRefused, []string{"shoop", folder, "other.dc, shop"}}.check(t)
}

// A context on the command line is not overruled by what the shell or a file says, and one of the shell not by a file.
func TestAContextIsWorthThePlaceThatNamesIt(t *testing.T) {
	file := settingsOf{"url": "nats://context", "user": "u", "password": "p"}.write(t)
	config := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(config, []byte("nats-url: nats://file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		environment map[string]string
		args        []string
		url         string
		overruled   int
	}{
		"flag above the shell":   {map[string]string{"NATS_URL": "nats://shell"}, []string{"--nats-context=" + file}, "nats://context", 4},
		"flag above the file":    {nil, []string{"--config=" + config, "--nats-context=" + file}, "nats://context", 4},
		"shell above the file":   {map[string]string{"POSTRIDER_NATS_CONTEXT": file}, []string{"--config=" + config}, "nats://context", 4},
		"both in the shell":      {map[string]string{"POSTRIDER_NATS_CONTEXT": file, "NATS_URL": "nats://shell"}, nil, "nats://shell", 3},
		"both flags":             {map[string]string{"NATS_URL": "nats://shell"}, []string{"--nats-context=" + file, "--nats-url=nats://flag"}, "nats://flag", 3},
		"flag above the context": {map[string]string{"POSTRIDER_NATS_CONTEXT": file}, []string{"--nats-url=nats://flag"}, "nats://flag", 3},
		"no context":             {map[string]string{"NATS_URL": "nats://shell"}, nil, "nats://shell", 0},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range c.environment {
				t.Setenv(variable, value)
			}
			var all cli
			parser, err := kong.New(&all, kong.Name("postrider"), kong.DefaultEnvars("POSTRIDER"), kong.Configuration(loadFile))
			if err != nil {
				t.Fatal(err)
			}
			for command, flags := range map[string]*natsFlags{"run": &all.Run.natsFlags, "doctor": &all.Doctor.natsFlags, "tail": &all.Tail.natsFlags} {
				if _, err := parser.Parse(append([]string{command}, c.args...)); err != nil {
					t.Fatal(err)
				}
				b, err := flags.broker()
				if err != nil || b.url != c.url || len(flags.overruled) != c.overruled {
					t.Errorf("%s: %s, %q overruled: %v", command, b.url, flags.overruled, err)
				}
			}
		})
	}
}
