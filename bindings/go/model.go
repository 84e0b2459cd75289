package promptcache

// #include "bridge.h"
import "C"

import (
	"context"
	"unsafe"
)

// Model is a loaded model. It is immutable: any number of goroutines may use it at once.
type Model struct{ *handle }

// LoadModel loads a model; ctx cancels.
//
// C: pc_model_load. Loads a model. Blocks; reports progress. path: a GGUF file, a Hugging Face
// folder (config.json, safetensors, tokenizer), or a llama2.c checkpoint with tokenizer.bin beside
// it. Returns ErrNotFound (no such file, or a file, tensor, tokenizer or chat template is
// missing), ErrIO, ErrFormat (names file, offset or key, and cause), ErrUnsupported (the model
// needs something that the library cannot compute exactly), ErrMismatch (the vocabulary lacks a
// special token of chat_template), ErrCancelled. Handle: immutable.
//
//promptcache:doc pc_model_load
func (c *Context) LoadModel(ctx context.Context, path string, options *ModelOptions) (
	*Model, error) {
	a := &arena{}
	defer a.free()
	p, name, o := (*C.pc_context)(a.hold(c.handle)), a.name("path", path), options.c(a)
	a.watchProgress(ctx, &o.progress, &o.progress_user)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_model
	if err := a.done(C.go_pc_model_load(&out, p, name, o, &a.failure)); err != nil {
		return nil, err
	}
	return newModel(out, c.handle), nil
}

func newModel(p *C.pc_model, needs *handle) *Model {
	return finalise(&Model{newHandle("model", unsafe.Pointer(p), nil,
		func(p unsafe.Pointer) { C.pc_model_free((*C.pc_model)(p)) }, needs)})
}

// Close gives the model up. Schemas, prompts and sequences of it go on.
func (m *Model) Close() error { return m.close() }

func (a *arena) model(m *Model) *C.pc_model { return (*C.pc_model)(a.hold(m.handle)) }

// Info gives the model's facts.
//
// C: pc_model_get_info. Writes up to info->struct_size bytes of the model's facts.
//
//promptcache:doc pc_model_get_info
func (m *Model) Info() (info ModelInfo, err error) {
	a := &arena{}
	defer a.free()
	p := a.model(m)
	if a.err != nil {
		return info, a.err
	}
	got := C.pc_model_info{struct_size: C.sizeof_pc_model_info}
	if err := a.done(C.go_pc_model_get_info(p, &got, &a.failure)); err != nil {
		return info, err
	}
	info.from(&got)
	return info, nil
}

// Tokenize makes tokens of a text.
//
// C: pc_tokenize. Text to token ids: tokens [capacity]. Returns ErrLimit (capacity), ErrUnsupported
// (the model has no tokenizer).
//
//promptcache:doc pc_tokenize
func (m *Model) Tokenize(text string, flags TokenizeFlags) ([]int32, error) {
	a := &arena{}
	defer a.free()
	p, c := a.model(m), a.text(text)
	if a.err != nil {
		return nil, a.err
	}
	var count C.size_t
	size, f := C.size_t(len(text)), C.uint64_t(flags)
	if err := a.done(C.go_pc_tokenize(p, c, size, f, nil, 0, &count, &a.failure)); err != nil {
		return nil, err
	}
	tokens := make([]int32, count)
	err := a.done(C.go_pc_tokenize(p, c, size, f, (*C.int32_t)(first(tokens)), count, &count,
		&a.failure))
	return tokens, err
}

// Detokenize makes text of tokens.
//
// C: pc_detokenize. Token ids to text [capacity], without a terminating NUL. Special tokens are left
// out unless TokenizeSpecial is set. Returns as Model.Tokenize.
//
//promptcache:doc pc_detokenize
func (m *Model) Detokenize(tokens []int32, flags TokenizeFlags) (string, error) {
	a := &arena{}
	defer a.free()
	p := a.model(m)
	if a.err != nil {
		return "", a.err
	}
	return a.readText(func(text *C.char, room C.size_t, size *C.size_t) C.pc_status {
		return C.go_pc_detokenize(p, (*C.int32_t)(first(tokens)), C.size_t(len(tokens)),
			C.uint64_t(flags), text, room, size, &a.failure)
	})
}

// readText calls once for the size of a text, and once for the text.
func (a *arena) readText(call func(text *C.char, room C.size_t, size *C.size_t) C.pc_status) (
	string, error) {
	var size C.size_t
	for {
		room := size
		text := make([]byte, room)
		status := call((*C.char)(first(text)), room, &size)
		if err := a.done(status); err != nil && (Status(status) != ErrLimit || size <= room) {
			return "", err
		}
		if size <= room {
			return string(text[:size]), nil
		}
	}
}

// FingerprintFiles makes a fingerprint of a model's files; ctx cancels. progress may be nil.
//
// C: pc_fingerprint_files. Fingerprint for such a model: digest of files [count] in this order, by
// their bytes (BLAKE2b-256, files/1 in doc/format.md). Name every file that changes K and V:
// weights, configuration, adapters. Blocks, one to two seconds per GB. progress (may be nil) gets
// the path and its bytes. Returns ErrNotFound and ErrIO (name the file), ErrCancelled; fingerprint
// is then zero. Any thread.
//
//promptcache:doc pc_fingerprint_files
func FingerprintFiles(ctx context.Context, paths []string,
	progress func(what string, done, total uint64) error) (key Key, err error) {
	a := &arena{}
	defer a.free()
	list := a.texts("paths", paths)
	var function C.pc_progress_fn
	var user unsafe.Pointer
	a.calls().progress = progress
	place := (*unsafe.Pointer)(a.alloc(int(unsafe.Sizeof(user))))
	a.watchProgress(ctx, &function, place)
	if a.err != nil {
		return key, a.err
	}
	err = a.done(C.go_pc_fingerprint_files((*C.uint8_t)(&key[0]), list, C.size_t(len(paths)),
		function, *place, &a.failure))
	return key, err
}

// ModelFile is a model's file or folder, opened without its weights. It is immutable.
type ModelFile struct{ *handle }

// OpenModelFile says what loading a model would make of it here; ctx cancels.
//
// C: pc_model_file_open. Opens a model without its weights. options: as of Context.LoadModel,
// without flags. A model that would be refused opens too, if anything is known of it: see
// `refusal`. Returns as Context.LoadModel if nothing is known, or progress cancels. Handle:
// immutable.
//
//promptcache:doc pc_model_file_open
func (c *Context) OpenModelFile(ctx context.Context, path string, options *ModelOptions) (
	*ModelFile, error) {
	a := &arena{}
	defer a.free()
	p, name, o := (*C.pc_context)(a.hold(c.handle)), a.name("path", path), options.c(a)
	a.watchProgress(ctx, &o.progress, &o.progress_user)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_model_file
	if err := a.done(C.go_pc_model_file_open(&out, p, name, o, &a.failure)); err != nil {
		return nil, err
	}
	return finalise(&ModelFile{newHandle("model file", unsafe.Pointer(out), nil,
		func(p unsafe.Pointer) { C.pc_model_file_free((*C.pc_model_file)(p)) }, c.handle)}), nil
}

// Close gives the file up. Its vocabulary goes on.
func (f *ModelFile) Close() error { return f.close() }

// Info says more than a ModelInfo.
//
// C: pc_model_file_get_info. Opens a model without its weights. options: as of Context.LoadModel,
// without flags. A model that would be refused opens too, if anything is known of it: see
// `refusal`. Returns as Context.LoadModel if nothing is known, or progress cancels. Handle:
// immutable.
//
//promptcache:doc pc_model_file_get_info
func (f *ModelFile) Info() (info ModelFileInfo, err error) {
	a := &arena{}
	defer a.free()
	p := (*C.pc_model_file)(a.hold(f.handle))
	if a.err != nil {
		return info, a.err
	}
	got := C.pc_model_file_info{struct_size: C.sizeof_pc_model_file_info}
	if err := a.done(C.go_pc_model_file_get_info(p, &got, &a.failure)); err != nil {
		return info, err
	}
	info.from(&got)
	return info, nil
}

// Vocabulary is the model without weights.
//
// C: pc_model_file_model. The vocabulary, for Model.Tokenize and schemas. Its ModelInfo is that of
// the loaded model, but the fingerprint is zero, and bytes of weights may be off by a percent.
// Never nil; borrowed.
//
//promptcache:doc pc_model_file_model
func (f *ModelFile) Vocabulary() (*Model, error) {
	a := &arena{}
	defer a.free()
	p := (*C.pc_model_file)(a.hold(f.handle))
	if a.err != nil {
		return nil, a.err
	}
	model := C.pc_model_file_model(p)
	return finalise(&Model{newHandle("model", unsafe.Pointer(model), nil,
		func(unsafe.Pointer) {}, f.handle)}), nil
}

// Types are the number formats of the file.
//
// C: pc_model_file_get_type. Number formats, most bytes first. ErrNotFound beyond the last.
//
//promptcache:doc pc_model_file_get_type
func (f *ModelFile) Types() ([]ModelFileType, error) {
	a := &arena{}
	defer a.free()
	p := (*C.pc_model_file)(a.hold(f.handle))
	if a.err != nil {
		return nil, a.err
	}
	types := make([]ModelFileType, C.pc_model_file_type_count(p))
	for i := range types {
		got := C.pc_model_file_type{struct_size: C.sizeof_pc_model_file_type}
		if err := a.done(C.go_pc_model_file_get_type(p, C.size_t(i), &got, &a.failure)); err != nil {
			return nil, err
		}
		types[i].from(&got)
	}
	return types, nil
}
