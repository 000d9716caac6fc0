package contracts_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/ops/contracts"
)

type object = map[string]any

var placeholder = regexp.MustCompile(`\{([a-z]+)\}`)

// about has a template with each field.
func about() contracts.About {
	return contracts.About{
		Title: "Shop", Version: "1.2.3", Stream: "EVENTS",
		Servers: []string{"nats://me:pl4nted@n1", "tls://pl4nted@n2:4333", "wss://n3/path?x=pl4nted", "n4:1"},
		Address: func(topic string) string { return "events." + topic + ".{tenant}.{type}.{partition}.{stream}" },
		Token:   func(text string) string { return strings.ReplaceAll(text, ".", "%2E") },
	}
}

func sample(t *testing.T) object {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	money := `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/x", "$ref": "#/$defs/a.b", "$defs": {"a.b": {"items": {"$ref": "#/$defs/a.b"}}},
		"properties": {"$ref": {"const": {"$ref": "#/kept"}, "maximum": 12345678901234567890}, "whole": {"$ref": "#"}}, "examples": [{"$ref": "#/kept"}],
		"anyOf": [{"$ref": "#/definitions/d"}], "definitions": {"d": {"$ref": "other.json"}}}`
	list := []contracts.Contract{
		{Type: "headers", Schema: json.RawMessage(`{}`), UpdatedAt: at},
		{Type: "order paid", Schema: json.RawMessage(money), Checked: true, Description: "it was <paid>", UpdatedAt: at},
		{Type: "order_paid", Schema: json.RawMessage(`{"type": "object"}`), UpdatedAt: at},
	}
	seen := []contracts.Seen{
		{Topic: "shop", Type: "order paid", Events: 2}, {Topic: "shop", Type: "order.seen", Events: 1}, {Topic: "a b", Type: "order.seen", Events: 1}, {Topic: "a_b", Type: "order_paid"},
	}
	first, err := contracts.Document(about(), list, seen)
	if err != nil {
		t.Fatal(err)
	}
	again, err := contracts.Document(about(), list, seen)
	if err != nil || !bytes.Equal(first, again) {
		t.Error("the same input gives another document")
	}
	if text := string(first); strings.Contains(text, "pl4nted") || !strings.Contains(text, "it was <paid>") || !strings.Contains(text, "12345678901234567890") {
		t.Errorf("the document:\n%s", text)
	}
	var document object
	if err := json.Unmarshal(first, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

// The document keeps the rules of AsyncAPI 3.0.0, and says what there is.
func TestADocumentKeepsTheRules(t *testing.T) {
	t.Parallel()
	d := sample(t)
	for _, problem := range problems(d) {
		t.Error(problem)
	}
	for pointer, want := range map[string]any{
		"/asyncapi": "3.0.0", "/info/title": "Shop", "/info/version": "1.2.3",
		"/servers/nats-1/host": "n1:4222", "/servers/nats-2/host": "n2:4333", "/servers/nats-2/description": "Over TLS.",
		"/servers/nats-3/host": "n3", "/servers/nats-3/protocol": "wss", "/servers/nats-4/host": "n4:1",
		"/channels/shop/address": "events.shop.{tenant}.{type}.{partition}.{stream}", "/channels/a_b/address": "events.a b.{tenant}.{type}.{partition}.{stream}",
		"/channels/a_b-2/title": "a_b", "/channels/shop/parameters/type/enum/1": "order%2Eseen",
		"/operations/publish-shop/action": "send", "/components/messages/order_paid/name": "order paid", "/components/messages/order_paid-2/name": "order_paid",
		"/components/messages/order_paid/description": "Payloads are checked with the schema when events are appended. It was set at 2026-01-02T03:04:05Z.",
		"/components/messages/headers-2/name":         "headers", "/components/messages/order.seen/payload": nil,
		"/components/schemas/order_paid/$schema": nil, "/components/schemas/order_paid/$id": nil,
		"/components/schemas/order_paid/$ref": "#/components/schemas/order_paid/$defs/a.b", "/components/schemas/order_paid/$defs/a.b/items/$ref": "#/components/schemas/order_paid/$defs/a.b",
		"/components/schemas/order_paid/properties/whole/$ref": "#/components/schemas/order_paid", "/components/schemas/order_paid/properties/$ref/const/$ref": "#/kept",
		"/components/schemas/order_paid/examples/0/$ref": "#/kept", "/components/schemas/order_paid/anyOf/0/$ref": "#/components/schemas/order_paid/definitions/d",
		"/components/schemas/order_paid/definitions/d/$ref":                 "other.json",
		"/components/schemas/headers/properties/Outbox-Stream-Version/type": "string", "/components/schemas/headers/required/0": "Outbox-Event-Id",
	} {
		if got := at(d, pointer); got != want {
			t.Errorf("%s is %v, want %v", pointer, got, want)
		}
	}
	empty, err := contracts.Document(contracts.About{Title: "x", Version: "1"}, nil, nil)
	var document object
	if err != nil || json.Unmarshal(empty, &document) != nil || document["servers"] != nil || len(problems(document)) > 0 {
		t.Errorf("%s: %v, %v", empty, err, problems(document))
	}
	if _, err := contracts.Document(contracts.About{Servers: []string{"nats://u:a/pl4nted@n"}}, nil, nil); err == nil || strings.Contains(err.Error(), "pl4nted") {
		t.Errorf("a URL that cannot be read: %v", err)
	}
}

// The rules notice what is broken.
func TestTheRulesNotice(t *testing.T) {
	t.Parallel()
	for what, wrong := range map[string]struct {
		pointer, key string
		value        any // nil takes it away
	}{
		"version":              {"", "asyncapi", "3.1"},
		"no title":             {"/info", "title", nil},
		"no protocol":          {"/servers/nats-1", "protocol", nil},
		"reference to nothing": {"/components/messages/order_paid/payload", "$ref", "#/components/schemas/none"},
		"deep reference":       {"/components/schemas/order_paid", "$defs", nil},
		"parameter missing":    {"/channels/shop/parameters", "stream", nil},
		"parameter too many":   {"/channels/shop", "address", "events.shop"},
		"action":               {"/operations/publish-shop", "action", "publish"},
		"message of another":   {"/operations/publish-shop", "messages", []any{object{"$ref": "#/components/messages/order_paid"}}},
		"key":                  {"/components/schemas", "a b", object{}},
		"headers":              {"/components/schemas/headers", "type", "array"},
	} {
		d := sample(t)
		part, is := at(d, wrong.pointer).(object)
		if !is {
			t.Fatalf("%s: nothing is at %s", what, wrong.pointer)
		}
		if part[wrong.key] = wrong.value; wrong.value == nil {
			delete(part, wrong.key)
		}
		if len(problems(d)) == 0 {
			t.Errorf("%s: nothing is noticed", what)
		}
	}
}

// at is what a JSON pointer leads to, nil for nothing.
func at(value any, pointer string) any {
	for _, token := range strings.Split(pointer, "/")[1:] {
		switch v := value.(type) {
		case object:
			value = v[token]
		case []any:
			var n int
			if _, err := fmt.Sscan(token, &n); err != nil || n >= len(v) {
				return nil
			}
			value = v[n]
		default:
			return nil
		}
	}
	return value
}

// problems are the rules of AsyncAPI 3.0.0 that a document breaks, as far as they are about what is written here.
func problems(d object) (list []string) {
	refuse := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	text := func(pointer string) string {
		s, is := at(d, pointer).(string)
		if !is || s == "" {
			refuse("%s is no text", pointer)
		}
		return s
	}
	if text("/asyncapi") != "3.0.0" {
		refuse("another version")
	}
	text("/info/title")
	text("/info/version")
	servers, _ := d["servers"].(object)
	for name := range servers {
		text("/servers/" + name + "/host")
		text("/servers/" + name + "/protocol")
	}
	key := regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
	for _, kind := range []string{"/channels", "/operations", "/components/messages", "/components/schemas"} {
		members, is := at(d, kind).(object)
		if !is {
			refuse("%s is no object", kind)
		}
		for name := range members {
			if !key.MatchString(name) {
				refuse("%s has the key %q", kind, name)
			}
		}
	}
	channels, _ := d["channels"].(object)
	for name := range channels {
		parameters, _ := at(d, "/channels/"+name+"/parameters").(object)
		var named []string
		for _, found := range placeholder.FindAllStringSubmatch(text("/channels/"+name+"/address"), -1) {
			named = append(named, found[1])
		}
		if !slices.Equal(slices.Sorted(slices.Values(named)), slices.Sorted(maps.Keys(parameters))) {
			refuse("channel %s has the parameters %v for %v", name, parameters, named)
		}
	}
	operations, _ := d["operations"].(object)
	for name := range operations {
		if action := text("/operations/" + name + "/action"); action != "send" && action != "receive" {
			refuse("operation %s does %s", name, action)
		}
		channel := text("/operations/" + name + "/channel/$ref")
		messages, _ := at(d, "/operations/"+name+"/messages").([]any)
		for i := range messages {
			if ref := text(fmt.Sprintf("/operations/%s/messages/%d/$ref", name, i)); !strings.HasPrefix(ref, channel+"/messages/") {
				refuse("operation %s has the message %s of another channel than %s", name, ref, channel)
			}
		}
	}
	messages, _ := at(d, "/components/messages").(object)
	for name := range messages {
		headers := strings.TrimPrefix(text("/components/messages/"+name+"/headers/$ref"), "#")
		if at(d, headers+"/type") != "object" {
			refuse("headers of %s are no object", name)
		}
	}
	return append(list, dangling(d, d, "")...)
}

// dangling are the references into the document that lead to nothing. What is a value, and no schema, has none.
func dangling(d object, value any, pointer string) (list []string) {
	switch v := value.(type) {
	case []any:
		for i := range v {
			list = append(list, dangling(d, v[i], fmt.Sprint(pointer, "/", i))...)
		}
	case object:
		for name, one := range v {
			if name == "const" || name == "examples" {
				continue
			}
			if ref, is := one.(string); is && name == "$ref" && strings.HasPrefix(ref, "#") && at(d, strings.TrimPrefix(ref, "#")) == nil {
				list = append(list, pointer+": nothing is at "+ref)
			}
			list = append(list, dangling(d, one, pointer+"/"+name)...)
		}
	}
	return list
}
