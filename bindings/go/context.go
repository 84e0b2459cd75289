// Package promptcache stops an LLM runtime from computing attention state twice. Prompts are made
// of named modules; the keys and values of a module are computed once and reused in every prompt.
//
// A program loads a model and a schema, and answers prompts through a cache:
//
//	model, err := promptcache.LoadModel(ctx, "demo.gguf", nil)
//	schema, err := model.LoadSchema("employees.pml", nil)
//	cache, err := promptcache.NewCache(nil)
//	prompt, err := schema.LoadPrompt("employees-prompt.pml", nil)
//	answer, err := prompt.Generate(ctx, cache, nil)
//	fmt.Println(answer.Text(), answer.Stats.TokensCached)
//
// # Goroutines
//
// Any number of goroutines may use a Context, Model, Schema, Prompt, Cache, Segment, Memo, Systems
// or ModelFile at once. Builders, a Load and a Folder let their callers wait for each other. So do
// a Batch and the sequences in it, which count as one object: a call waits until the step under way
// has ended, but Sequence.Cancel never waits. In a callback, calls for the same batch do not wait;
// a callback must not wait for another goroutine that makes one.
//
// # Lifetime
//
// Close gives an object up. It may be called at any time and more than once: what a call or another
// object still needs stays until it does not. An object that the program forgets is closed by the
// garbage collector at some later time, which knows nothing of the memory that it holds: call
// Close. Slices that are views of the library's memory say how long they are valid.
//
// # Cancelling
//
// A context.Context cancels within a step: the call returns soon after the context is done. The
// error is ErrCancelled, and wraps that of the context.
//
// # Callbacks
//
// Callbacks run on the goroutine of the call, unless their comment says otherwise. A panic in one
// leaves the library in order and goes on when the call returns. runtime.Goexit, and so
// testing.T.FailNow, must not be called in one.
package promptcache

// #cgo pkg-config: promptcache
// #include "bridge.h"
import "C"

import (
	"context"
	"sync"
	"unsafe"
)

// Context has the threads that compute. Most programs need none of their own: LoadModel and
// NewCache use one that all share.
type Context struct{ *handle }

// NewContext makes a context.
//
// C: pc_context_new. Makes a context and starts its threads. Between calls it holds at most 48 MiB
// of work memory, so that computing does not fault in fresh pages each time. Returns
// ErrUnsupported, with the reason, if the backend is not there or has no device, and ErrInvalid
// also if a variable of the environment has a value that means nothing, such as PC_LINEAR=bogus:
// the text lists what is allowed (doc/building.md has the variables). Handle: internally locked.
//
//promptcache:doc pc_context_new
func NewContext(options *ContextOptions) (*Context, error) {
	a := &arena{}
	defer a.free()
	c := options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_context
	if err := a.done(C.go_pc_context_new(&out, c, &a.failure)); err != nil {
		return nil, err
	}
	return finalise(&Context{newHandle("context", unsafe.Pointer(out), a.keep(),
		func(p unsafe.Pointer) { C.pc_context_free((*C.pc_context)(p)) })}), nil
}

// Close gives the context up. Models and caches that were made with it go on.
func (c *Context) Close() error { return c.close() }

var shared struct {
	once    sync.Once
	context *Context
	err     error
}

// sharedContext is the context of programs that do not make one.
func sharedContext() (*Context, error) {
	shared.once.Do(func() { shared.context, shared.err = NewContext(nil) })
	return shared.context, shared.err
}

// LoadModel loads a model with the context that all share. See Context.LoadModel.
func LoadModel(ctx context.Context, path string, options *ModelOptions) (*Model, error) {
	c, err := sharedContext()
	if err != nil {
		return nil, err
	}
	return c.LoadModel(ctx, path, options)
}

// NewCache opens a cache with the context that all share. See Context.NewCache.
func NewCache(options *CacheOptions) (*Cache, error) {
	c, err := sharedContext()
	if err != nil {
		return nil, err
	}
	return c.NewCache(options)
}

// LibraryVersion is the release of the library that runs.
//
// C: pc_version. "0.10.0". Static. Any thread.
//
//promptcache:doc pc_version
func LibraryVersion() string { return C.GoString(C.pc_version()) }

// LibraryABI is the binary interface of the library that runs.
//
// C: pc_abi_version. PC_ABI_VERSION of the library that runs. Any thread.
//
//promptcache:doc pc_abi_version
func LibraryABI() int { return int(C.pc_abi_version()) }

// Costs are the costs of this machine.
//
// C: pc_costs_get. Costs by which this context makes plans. The first call may read the file.
//
//promptcache:doc pc_costs_get
func (c *Context) Costs() (costs Costs, err error) {
	a := &arena{}
	defer a.free()
	p := (*C.pc_context)(a.hold(c.handle))
	if a.err != nil {
		return costs, a.err
	}
	got := C.pc_costs{struct_size: C.sizeof_pc_costs}
	if err := a.done(C.go_pc_costs_get(p, &got, &a.failure)); err != nil {
		return costs, err
	}
	costs.from(&got)
	return costs, nil
}

// Calibrate measures the costs of this machine.
//
// C: pc_calibrate. Measures the costs, uses them in this context and writes the file. Blocks: one
// thread, well under a second, 128 MiB. Costs change times, never results. Returns ErrNoMem and
// ErrCancelled (nothing has changed), ErrIO (in use, but not written).
//
//promptcache:doc pc_calibrate
func (c *Context) Calibrate(ctx context.Context, options *CalibrateOptions) error {
	a := &arena{}
	defer a.free()
	p, o := (*C.pc_context)(a.hold(c.handle)), options.c(a)
	a.watchProgress(ctx, &o.progress, &o.progress_user)
	if a.err != nil {
		return a.err
	}
	return a.done(C.go_pc_calibrate(p, o, &a.failure))
}
