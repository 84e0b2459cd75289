package promptcache

// #include "bridge.h"
import "C"

import (
	"context"
	"unsafe"
)

// Schema is a parsed schema: modules at positions. It is immutable.
type Schema struct{ *handle }

func newSchema(p *C.pc_schema, needs ...*handle) *Schema {
	return finalise(&Schema{newHandle("schema", unsafe.Pointer(p), nil,
		func(p unsafe.Pointer) { C.pc_schema_free((*C.pc_schema)(p)) }, needs...)})
}

// Close gives the schema up. Prompts of it go on.
func (s *Schema) Close() error { return s.close() }

func (a *arena) schema(s *Schema) *C.pc_schema { return (*C.pc_schema)(a.hold(s.handle)) }

// modelHandle is the handle of the model that a schema or prompt was made with.
func (h *handle) modelHandle() *handle {
	for h.what != "model" {
		h = h.needs[0]
	}
	return h
}

// LoadSchema reads a schema from a file.
//
// C: pc_schema_load. Parses a schema (doc/pml.md; Prompt Cache, section 3.2) and lays it out with
// the model's tokenizer. Returns ErrPML (names file, line and column; also a chat tag without a
// known chat template), ErrLimit (longer than the model's context), ErrNotFound and ErrIO of the
// file, ErrUnsupported (the model has no tokenizer). Handle: immutable.
//
//promptcache:doc pc_schema_load
func (m *Model) LoadSchema(path string, options *SchemaOptions) (*Schema, error) {
	a := &arena{}
	defer a.free()
	p, name, o := a.model(m), a.name("path", path), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_schema
	if err := a.done(C.go_pc_schema_load(&out, p, name, o, &a.failure)); err != nil {
		return nil, err
	}
	return newSchema(out, m.handle), nil
}

// ParseSchema reads a schema from a text.
//
// C: pc_schema_parse. Parses a schema (doc/pml.md; Prompt Cache, section 3.2) and lays it out with
// the model's tokenizer. Returns ErrPML (names file, line and column; also a chat tag without a
// known chat template), ErrLimit (longer than the model's context), ErrNotFound and ErrIO of the
// file, ErrUnsupported (the model has no tokenizer). Handle: immutable.
//
//promptcache:doc pc_schema_parse
func (m *Model) ParseSchema(text string, options *SchemaOptions) (*Schema, error) {
	a := &arena{}
	defer a.free()
	p, c, o := a.model(m), a.text(text), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_schema
	if err := a.done(C.go_pc_schema_parse(&out, p, c, C.size_t(len(text)), o,
		&a.failure)); err != nil {
		return nil, err
	}
	return newSchema(out, m.handle), nil
}

// SchemaFromFormat makes a schema of a system prompt.
//
// C: pc_schema_from_format. Makes a schema of a format string with "{__SYS_PROMPT}" and, behind it,
// "{__USR_PROMPT}". A brace of the text is doubled. Everything up to the user slot is shared and
// encoded once. Each request's text stands right behind it, followed by the text behind the slot
// (Schema.Fill). Special tokens are recognised in the format, not in the system prompt or a
// request. BOS, where the model wants it, is the first token only. Returns ErrPML (line and column
// of a slot that is missing, unknown, repeated or in the wrong order, or of a single brace),
// ErrLimit (longer than the model's context), ErrNotFound and ErrIO of the files, ErrUnsupported
// (FormatChat without a known chat template).
//
//promptcache:doc pc_schema_from_format
func (m *Model) SchemaFromFormat(format *SystemFormat) (*Schema, error) {
	a := &arena{}
	defer a.free()
	p, o := a.model(m), format.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_schema
	if err := a.done(C.go_pc_schema_from_format(&out, p, o, &a.failure)); err != nil {
		return nil, err
	}
	return newSchema(out, m.handle), nil
}

// Name is the schema's name; "" of a closed one.
//
// C: pc_schema_name. borrowed
//
//promptcache:doc pc_schema_name
func (s *Schema) Name() string {
	a := &arena{}
	defer a.free()
	p := a.schema(s)
	if a.err != nil {
		return ""
	}
	return C.GoString(C.pc_schema_name(p))
}

// Length is the number of positions of the schema; 0 of a closed one.
//
// C: pc_schema_length. positions that it spans
//
//promptcache:doc pc_schema_length
func (s *Schema) Length() int64 {
	a := &arena{}
	defer a.free()
	p := a.schema(s)
	if a.err != nil {
		return 0
	}
	return int64(C.pc_schema_length(p))
}

// Items are the elements of the schema's layout.
//
// C: pc_schema_get_item. The layout in document order, without the root. ErrNotFound beyond its end.
//
//promptcache:doc pc_schema_get_item
func (s *Schema) Items() ([]Item, error) {
	a := &arena{}
	defer a.free()
	p := a.schema(s)
	if a.err != nil {
		return nil, a.err
	}
	items := make([]Item, C.pc_schema_item_count(p))
	for i := range items {
		got := C.pc_item{struct_size: C.sizeof_pc_item}
		if err := a.done(C.go_pc_schema_get_item(p, C.size_t(i), &got, &a.failure)); err != nil {
			return nil, err
		}
		items[i].from(&got)
	}
	return items, nil
}

// Encode computes all modules into a cache; ctx cancels. all is false if the cache has no room for
// all of them.
//
// C: pc_schema_encode. Encodes all modules of a schema into the cache (Prompt Cache, section 3.3).
// Without this call each module is encoded at its first use. Blocks. Returns Miss (everything was
// encoded, but the budget has no room for all of it), ErrUnsupported (EXACT), ErrCancelled
// (finished modules stay in the cache).
//
//promptcache:doc pc_schema_encode
func (s *Schema) Encode(ctx context.Context, cache *Cache, options *EncodeOptions) (
	all bool, err error) {
	a := &arena{}
	defer a.free()
	p, c, o := a.schema(s), a.cache(cache), options.c(a)
	a.watchProgress(ctx, &o.progress, &o.progress_user)
	if a.err != nil {
		return false, a.err
	}
	status := C.go_pc_schema_encode(p, c, o, &a.failure)
	return status == C.PC_OK, a.done(status)
}

// Prefetch starts loading modules into RAM.
//
// C: pc_schema_prefetch. Starts loading the schema's segments from lower tiers into free room of
// RAM, without waiting. Uses `encoding`, `rope_regime_length`, salts and adapter of the options.
// *started (may be nil): number of loads. Returns ErrUnsupported (EXACT).
//
//promptcache:doc pc_schema_prefetch
func (s *Schema) Prefetch(cache *Cache, options *EncodeOptions) (started uint64, err error) {
	a := &arena{}
	defer a.free()
	p, c, o := a.schema(s), a.cache(cache), options.c(a)
	if a.err != nil {
		return 0, a.err
	}
	var count C.uint64_t
	err = a.done(C.go_pc_schema_prefetch(p, c, o, &count, &a.failure))
	return uint64(count), err
}
