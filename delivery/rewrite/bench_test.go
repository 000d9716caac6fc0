package rewrite_test

import (
	"testing"

	"github.com/postrider/postrider/delivery/rewrite"
)

func BenchmarkRedact(b *testing.B) {
	payload := []byte(`{"path":"server/go.mod","commit":"ebeb5bb80e14553a49c0101226da45433c3d6ae6","parent":"caf21a94c6ea8650b5febb625631e29f1dc79ee9",` +
		`"customer":{"email":"a@b.example","name":"A"},"blob_before":"8cb437fb53d89a69d8f74041110d6c451b9af88c","mode":"100644"}`)
	list := pointers(b, "/customer/email", "/parent")
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rewrite.Redact(payload, list); err != nil {
			b.Fatal(err)
		}
	}
}
