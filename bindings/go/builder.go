package promptcache

// #include "bridge.h"
import "C"

import (
	"sync"
	"unsafe"
)

// owned is an object of the library that one call at a time may use: others wait.
type owned struct {
	mu    sync.Mutex
	p     unsafe.Pointer
	what  string
	free  func(unsafe.Pointer)
	needs *handle // made with it: held until this one is freed
}

func newOwned(what string, p unsafe.Pointer, needs *handle, free func(unsafe.Pointer)) *owned {
	needs.need()
	return &owned{p: p, what: what, free: free, needs: needs}
}

// lock gives the object for one call, or nil and an error if it is closed. unlock is due in any
// case.
func (o *owned) lock(a *arena) unsafe.Pointer {
	o.mu.Lock()
	if o.p == nil {
		a.fail(closed(o.what))
	}
	return o.p
}

func (o *owned) unlock() { o.mu.Unlock() }

func (o *owned) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.p != nil {
		o.free(o.p)
		o.p = nil
		o.needs.release()
	}
	return nil
}

// addTo makes one call of a builder, unless one has failed. p is its T of C.
func addTo[T any](o *owned, failed *error, call func(a *arena, p *T) C.pc_status) {
	a := &arena{}
	defer a.free()
	p := (*T)(o.lock(a))
	defer o.unlock()
	if *failed == nil && a.err == nil {
		status := call(a, p)
		if *failed = a.done(status); a.err != nil {
			*failed = a.err
		}
	}
}

// SchemaBuilder makes a schema of bytes, without PML. The first call that fails is the error of
// Schema; later ones do nothing. Goroutines wait for each other.
type SchemaBuilder struct {
	*owned
	err error
}

// NewSchemaBuilder begins an empty schema.
//
// C: pc_schema_builder_new. Begins an empty schema. name: of the schema. options: of
// Model.ParseSchema; flags must be 0 and base_folder nil. Handle: one thread at a time.
//
//promptcache:doc pc_schema_builder_new
func (m *Model) NewSchemaBuilder(name string, options *SchemaOptions) (*SchemaBuilder, error) {
	a := &arena{}
	defer a.free()
	p, c, o := a.model(m), a.name("name", name), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_schema_builder
	if err := a.done(C.go_pc_schema_builder_new(&out, p, c, o, &a.failure)); err != nil {
		return nil, err
	}
	return finalise(&SchemaBuilder{owned: newOwned("schema builder", unsafe.Pointer(out), m.handle,
		func(p unsafe.Pointer) { C.pc_schema_builder_free((*C.pc_schema_builder)(p)) })}), nil
}

// Close gives the builder up. Schemas that it made go on.
func (b *SchemaBuilder) Close() error { return b.close() }

func (b *SchemaBuilder) add(call func(a *arena, p *C.pc_schema_builder) C.pc_status) *SchemaBuilder {
	addTo(b.owned, &b.err, call)
	return b
}

// Text adds text to what is open.
//
// C: pc_schema_builder_add_text. Adds text to what is open, the schema itself at first. Neighbouring
// texts are one. flags: PromptSpecial, or 0.
//
//promptcache:doc pc_schema_builder_add_text
func (b *SchemaBuilder) Text(text string, flags PromptFlags) *SchemaBuilder {
	return b.add(func(a *arena, p *C.pc_schema_builder) C.pc_status {
		return C.go_pc_schema_builder_add_text(p, a.text(text), C.size_t(len(text)),
			C.uint64_t(flags), &a.failure)
	})
}

// Module opens a module; End closes it.
//
// C: pc_schema_builder_begin_module. Opens a module; SchemaBuilder.End closes it. flags:
// ItemUncached, or 0.
//
//promptcache:doc pc_schema_builder_begin_module
func (b *SchemaBuilder) Module(name string, flags ItemFlags) *SchemaBuilder {
	return b.add(func(a *arena, p *C.pc_schema_builder) C.pc_status {
		return C.go_pc_schema_builder_begin_module(p, a.name("name", name), C.uint64_t(flags),
			&a.failure)
	})
}

// Union opens a union; End closes it.
//
// C: pc_schema_builder_begin_union. Opens a union, which holds modules alone. scaffold: name of its
// member in the default layout, or nil.
//
//promptcache:doc pc_schema_builder_begin_union
func (b *SchemaBuilder) Union(scaffold string) *SchemaBuilder {
	return b.add(func(a *arena, p *C.pc_schema_builder) C.pc_status {
		return C.go_pc_schema_builder_begin_union(p, a.name("scaffold", scaffold), &a.failure)
	})
}

// Turn opens a turn of a conversation; End closes it.
//
// C: pc_schema_builder_begin_turn. Opens a turn of a conversation: its texts, modules and parameters
// stand between the pieces of the model's chat template. role: "system", "user" or "assistant".
//
//promptcache:doc pc_schema_builder_begin_turn
func (b *SchemaBuilder) Turn(role string) *SchemaBuilder {
	return b.add(func(a *arena, p *C.pc_schema_builder) C.pc_status {
		return C.go_pc_schema_builder_begin_turn(p, a.name("role", role), &a.failure)
	})
}

// End closes what was opened last.
//
// C: pc_schema_builder_end. Closes the module, union or turn that was opened last. Returns ErrState
// if none is open.
//
//promptcache:doc pc_schema_builder_end
func (b *SchemaBuilder) End() *SchemaBuilder {
	return b.add(func(a *arena, p *C.pc_schema_builder) C.pc_status {
		return C.go_pc_schema_builder_end(p, &a.failure)
	})
}

// Parameter adds room for an argument.
//
// C: pc_schema_builder_add_parameter. Adds room for an argument of `length` tokens to the open
// module. scaffold [size]: text that stands there while the module is encoded; nil: none.
//
//promptcache:doc pc_schema_builder_add_parameter
func (b *SchemaBuilder) Parameter(name string, length int64, scaffold string) *SchemaBuilder {
	return b.add(func(a *arena, p *C.pc_schema_builder) C.pc_status {
		var text *C.char
		if scaffold != "" {
			text = a.text(scaffold)
		}
		return C.go_pc_schema_builder_add_parameter(p, a.name("name", name), C.int64_t(length),
			text, C.size_t(len(scaffold)), &a.failure)
	})
}

// Scaffold names modules that are encoded jointly.
//
// C: pc_schema_builder_add_scaffold. Modules that are encoded jointly, for prompts that use all of
// them: paths [count], at least 2. Only while nothing is open (ErrState).
//
//promptcache:doc pc_schema_builder_add_scaffold
func (b *SchemaBuilder) Scaffold(modules ...string) *SchemaBuilder {
	return b.add(func(a *arena, p *C.pc_schema_builder) C.pc_status {
		return C.go_pc_schema_builder_add_scaffold(p, a.texts("modules", modules),
			C.size_t(len(modules)), &a.failure)
	})
}

// Schema makes a schema of what the builder has.
//
// C: pc_schema_from_builder. Makes a schema of what the builder has; it may go on afterwards.
// Returns as Model.ParseSchema, and ErrState if something is open.
//
//promptcache:doc pc_schema_from_builder
func (b *SchemaBuilder) Schema() (*Schema, error) {
	a := &arena{}
	defer a.free()
	p := (*C.pc_schema_builder)(b.lock(a))
	defer b.unlock()
	a.fail(b.err)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_schema
	if err := a.done(C.go_pc_schema_from_builder(&out, p, &a.failure)); err != nil {
		return nil, err
	}
	return newSchema(out, b.needs), nil
}

// PromptBuilder makes a prompt of bytes, without PML. The first call that fails is the error of
// Prompt; later ones do nothing. Goroutines wait for each other.
type PromptBuilder struct {
	*owned
	err error
}

// NewPromptBuilder begins an empty prompt.
//
// C: pc_prompt_builder_new. Begins an empty prompt of a schema. The builder holds the schema.
// Handle: one thread at a time.
//
//promptcache:doc pc_prompt_builder_new
func (s *Schema) NewPromptBuilder() (*PromptBuilder, error) {
	a := &arena{}
	defer a.free()
	p := a.schema(s)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_prompt_builder
	if err := a.done(C.go_pc_prompt_builder_new(&out, p, &a.failure)); err != nil {
		return nil, err
	}
	return finalise(&PromptBuilder{owned: newOwned("prompt builder", unsafe.Pointer(out), s.handle,
		func(p unsafe.Pointer) { C.pc_prompt_builder_free((*C.pc_prompt_builder)(p)) })}), nil
}

// Close gives the builder up. Prompts that it made go on.
func (b *PromptBuilder) Close() error { return b.close() }

func (b *PromptBuilder) add(call func(a *arena, p *C.pc_prompt_builder) C.pc_status) *PromptBuilder {
	addTo(b.owned, &b.err, call)
	return b
}

// Use uses a module.
//
// C: pc_prompt_builder_use. Uses a module, and those around it in its path. Text that follows stands
// behind the outermost.
//
//promptcache:doc pc_prompt_builder_use
func (b *PromptBuilder) Use(module string) *PromptBuilder {
	return b.add(func(a *arena, p *C.pc_prompt_builder) C.pc_status {
		return C.go_pc_prompt_builder_use(p, a.name("module", module), &a.failure)
	})
}

// Argument is for a parameter of the module that was used last.
//
// C: pc_prompt_builder_add_argument. An argument for a parameter of the module that was used last.
// Returns ErrState (none was used, or something was added since), ErrPML (it has an argument).
//
//promptcache:doc pc_prompt_builder_add_argument
func (b *PromptBuilder) Argument(parameter, text string) *PromptBuilder {
	return b.add(func(a *arena, p *C.pc_prompt_builder) C.pc_status {
		return C.go_pc_prompt_builder_add_argument(p, a.name("parameter", parameter), a.text(text),
			C.size_t(len(text)), &a.failure)
	})
}

// Text adds text.
//
// C: pc_prompt_builder_add_text. As of the schema's builder.
//
//promptcache:doc pc_prompt_builder_add_text
func (b *PromptBuilder) Text(text string, flags PromptFlags) *PromptBuilder {
	return b.add(func(a *arena, p *C.pc_prompt_builder) C.pc_status {
		return C.go_pc_prompt_builder_add_text(p, a.text(text), C.size_t(len(text)),
			C.uint64_t(flags), &a.failure)
	})
}

// Turn opens a turn of a conversation; End closes it.
//
// C: pc_prompt_builder_begin_turn. As of the schema's builder.
//
//promptcache:doc pc_prompt_builder_begin_turn
func (b *PromptBuilder) Turn(role string) *PromptBuilder {
	return b.add(func(a *arena, p *C.pc_prompt_builder) C.pc_status {
		return C.go_pc_prompt_builder_begin_turn(p, a.name("role", role), &a.failure)
	})
}

// End closes a turn.
//
// C: pc_prompt_builder_end. As of the schema's builder.
//
//promptcache:doc pc_prompt_builder_end
func (b *PromptBuilder) End() *PromptBuilder {
	return b.add(func(a *arena, p *C.pc_prompt_builder) C.pc_status {
		return C.go_pc_prompt_builder_end(p, &a.failure)
	})
}

// Prompt makes a prompt of what the builder has.
//
// C: pc_prompt_from_builder. Makes a prompt of what the builder has; it may go on afterwards.
// options: flags may have PMLOverlap. Returns as ParsePrompt, and ErrState if a turn is open.
//
//promptcache:doc pc_prompt_from_builder
func (b *PromptBuilder) Prompt(options *PromptOptions) (*Prompt, error) {
	a := &arena{}
	defer a.free()
	o, p := options.c(a), (*C.pc_prompt_builder)(b.lock(a))
	defer b.unlock()
	if a.fail(b.err); a.err != nil {
		return nil, a.err
	}
	var out *C.pc_prompt
	if err := a.done(C.go_pc_prompt_from_builder(&out, p, o, &a.failure)); err != nil {
		return nil, err
	}
	return newPrompt(out, b.needs), nil
}
