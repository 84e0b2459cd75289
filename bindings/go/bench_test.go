package promptcache_test

// What the package costs beside the library: go test -run xxx -bench .

import "testing"

// A step that computes nothing: the lock, the thread, one call.
func BenchmarkStepOfEmptyBatch(b *testing.B) {
	batch := newBatch(b)
	for i := 0; i < b.N; i++ {
		if _, err := batch.Step(background); err != nil {
			b.Fatal(err)
		}
	}
}

// Two calls, one for the count; a text into memory of C, tokens into memory of Go.
func BenchmarkTokenize(b *testing.B) {
	for i := 0; i < b.N; i++ {
		if _, err := model.Tokenize("desk", 0); err != nil {
			b.Fatal(err)
		}
	}
}
