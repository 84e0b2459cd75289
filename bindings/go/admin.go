package promptcache

// #include "bridge.h"
import "C"

import (
	"errors"
	"unsafe"
)

// Systems is a list of system prompts by name. Any number of goroutines may use it at once.
type Systems struct{ *handle }

// NewSystems makes an empty list.
//
// C: pc_systems_new. Makes an empty list, which holds model and cache. Returns ErrPML (of the
// format), ErrNotFound and ErrIO of its file, ErrUnsupported (EXACT). Handle: internally locked.
//
//promptcache:doc pc_systems_new
func (m *Model) NewSystems(cache *Cache, options *SystemsOptions) (*Systems, error) {
	a := &arena{}
	defer a.free()
	p, c, o := a.model(m), a.cache(cache), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_systems
	if err := a.done(C.go_pc_systems_new(&out, p, c, o, &a.failure)); err != nil {
		return nil, err
	}
	return finalise(&Systems{newHandle("list of systems", unsafe.Pointer(out), nil,
		func(p unsafe.Pointer) { C.pc_systems_free((*C.pc_systems)(p)) },
		m.handle, cache.handleOrNil())}), nil
}

// Close gives the list up. Schemas that were found in it go on.
func (s *Systems) Close() error { return s.close() }

func (s *Systems) use(name string, call func(a *arena, p *C.pc_systems, name *C.char) C.pc_status) (
	C.pc_status, error) {
	a := &arena{}
	defer a.free()
	p, c := (*C.pc_systems)(a.hold(s.handle)), a.name("name", name)
	if a.err != nil {
		return 0, a.err
	}
	status := call(a, p, c)
	if a.err != nil {
		return 0, a.err
	}
	return status, a.done(status)
}

// Fill adds or replaces a system prompt. all is false if the cache has no room for all of it.
//
// C: pc_systems_fill. Adds a name (1 to 63 bytes) or replaces its schema: by a system prompt's text,
// by the tokens of everything before the user slot, or by any schema of the same model. Blocks
// while it encodes; until then the old schema answers. Returns Miss (added, but the cache has no
// room for all of its states), ErrLimit, ErrMismatch. After an error nothing has changed.
//
//promptcache:doc pc_systems_fill
func (s *Systems) Fill(name, text string) (all bool, err error) {
	status, err := s.use(name, func(a *arena, p *C.pc_systems, c *C.char) C.pc_status {
		return C.go_pc_systems_fill(p, c, a.text(text), C.size_t(len(text)), &a.failure)
	})
	return status == C.PC_OK && err == nil, err
}

// FillTokens is Fill with tokens.
//
// C: pc_systems_fill_tokens. Adds a name (1 to 63 bytes) or replaces its schema: by a system
// prompt's text, by the tokens of everything before the user slot, or by any schema of the same
// model. Blocks while it encodes; until then the old schema answers. Returns Miss (added, but the
// cache has no room for all of its states), ErrLimit, ErrMismatch. After an error nothing has
// changed.
//
//promptcache:doc pc_systems_fill_tokens
func (s *Systems) FillTokens(name string, tokens []int32) (all bool, err error) {
	status, err := s.use(name, func(a *arena, p *C.pc_systems, c *C.char) C.pc_status {
		return C.go_pc_systems_fill_tokens(p, c, (*C.int32_t)(first(tokens)),
			C.size_t(len(tokens)), &a.failure)
	})
	return status == C.PC_OK && err == nil, err
}

// FillSchema is Fill with a schema.
//
// C: pc_systems_fill_schema. Adds a name (1 to 63 bytes) or replaces its schema: by a system
// prompt's text, by the tokens of everything before the user slot, or by any schema of the same
// model. Blocks while it encodes; until then the old schema answers. Returns Miss (added, but the
// cache has no room for all of its states), ErrLimit, ErrMismatch. After an error nothing has
// changed.
//
//promptcache:doc pc_systems_fill_schema
func (s *Systems) FillSchema(name string, schema *Schema) (all bool, err error) {
	status, err := s.use(name, func(a *arena, p *C.pc_systems, c *C.char) C.pc_status {
		its := a.schema(schema)
		if a.err != nil {
			return 0
		}
		return C.go_pc_systems_fill_schema(p, c, its, &a.failure)
	})
	return status == C.PC_OK && err == nil, err
}

// Drop removes a name.
//
// C: pc_systems_drop. Removes a name; its segments are unpinned. Returns ErrNotFound.
//
//promptcache:doc pc_systems_drop
func (s *Systems) Drop(name string) error {
	_, err := s.use(name, func(a *arena, p *C.pc_systems, c *C.char) C.pc_status {
		return C.go_pc_systems_drop(p, c, &a.failure)
	})
	return err
}

// Clear removes all names.
//
// C: pc_systems_clear. Removes all names. Others may add names meanwhile. OK also for an empty list.
//
//promptcache:doc pc_systems_clear
func (s *Systems) Clear() error {
	_, err := s.use("", func(a *arena, p *C.pc_systems, _ *C.char) C.pc_status {
		return C.go_pc_systems_clear(p, &a.failure)
	})
	return err
}

// Find gives the schema of a name, for Schema.Fill.
//
// C: pc_systems_find. The schema of a name, as a reference for the caller, for Schema.Fill. Returns
// ErrNotFound (lists the names).
//
//promptcache:doc pc_systems_find
func (s *Systems) Find(name string) (*Schema, error) {
	var out *C.pc_schema
	_, err := s.use(name, func(a *arena, p *C.pc_systems, c *C.char) C.pc_status {
		return C.go_pc_systems_find(&out, p, c, &a.failure)
	})
	if err != nil {
		return nil, err
	}
	return newSchema(out, s.modelHandle()), nil
}

// List is the list as it is now.
//
// C: pc_systems_get. The list, in the order in which names were added. ErrNotFound beyond its end.
//
//promptcache:doc pc_systems_get
func (s *Systems) List() ([]SystemInfo, error) {
	var list []SystemInfo
	for {
		got := C.pc_system_info{struct_size: C.sizeof_pc_system_info}
		_, err := s.use("", func(a *arena, p *C.pc_systems, _ *C.char) C.pc_status {
			return C.go_pc_systems_get(p, C.size_t(len(list)), &got, &a.failure)
		})
		if errors.Is(err, ErrNotFound) { // others may have removed some
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		var info SystemInfo
		info.from(&got)
		list = append(list, info)
	}
}

// Folder is the records of a DISK folder. Goroutines wait for each other.
type Folder struct{ *owned }

// OpenFolder reads the headers of a folder's records.
//
// C: pc_folder_open. Reads the headers of a folder's records. Returns ErrNotFound, ErrIO, ErrFormat
// (the folder is not ours). Handle: one thread at a time.
//
//promptcache:doc pc_folder_open
func (c *Context) OpenFolder(path string, options *FolderOptions) (*Folder, error) {
	a := &arena{}
	defer a.free()
	p, name, o := (*C.pc_context)(a.hold(c.handle)), a.name("path", path), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_folder
	if err := a.done(C.go_pc_folder_open(&out, p, name, o, &a.failure)); err != nil {
		return nil, err
	}
	return finalise(&Folder{newOwned("folder", unsafe.Pointer(out), c.handle,
		func(p unsafe.Pointer) { C.pc_folder_free((*C.pc_folder)(p)) })}), nil
}

// Close gives the folder up.
func (f *Folder) Close() error { return f.close() }

func (f *Folder) use(call func(a *arena, p *C.pc_folder) C.pc_status) error {
	a := &arena{}
	defer a.free()
	p := (*C.pc_folder)(f.lock(a))
	defer f.unlock()
	if a.err != nil {
		return a.err
	}
	return a.done(call(a, p))
}

// Count is the number of records; 0 of a closed folder.
func (f *Folder) Count() (count int) {
	_ = f.use(func(_ *arena, p *C.pc_folder) C.pc_status {
		count = int(C.pc_folder_count(p))
		return 0
	})
	return count
}

// Record is one record. With an error, Key, Name and FileBytes are set all the same.
//
// C: pc_folder_get. A record as it was when the folder was opened, in the order of names. Returns
// ErrFormat (its header is damaged, or does not fit its name), ErrUnsupported (of a later format),
// ErrIO; key, name and file_bytes are set all the same.
//
//promptcache:doc pc_folder_get
func (f *Folder) Record(index int) (info RecordInfo, err error) {
	got := C.pc_record_info{struct_size: C.sizeof_pc_record_info}
	err = f.use(func(a *arena, p *C.pc_folder) C.pc_status {
		return C.go_pc_folder_get(p, C.size_t(index), &got, &a.failure)
	})
	info.from(&got)
	return info, err
}

// Tokens are the tokens of a record.
//
// C: pc_folder_tokens. Tokens of a record: tokens [capacity]. Returns ErrLimit (capacity),
// ErrUnsupported (sealed with another key).
//
//promptcache:doc pc_folder_tokens
func (f *Folder) Tokens(index int) (tokens []int32, err error) {
	var count C.size_t
	err = f.use(func(a *arena, p *C.pc_folder) C.pc_status {
		status := C.go_pc_folder_tokens(p, C.size_t(index), nil, 0, &count, &a.failure)
		if status < 0 {
			return status
		}
		tokens = make([]int32, count)
		return C.go_pc_folder_tokens(p, C.size_t(index), (*C.int32_t)(first(tokens)), count, &count,
			&a.failure)
	})
	return tokens, err
}

// Verify checks a whole record.
//
// C: pc_folder_verify. Reads a whole record and checks everything that can be checked. Returns
// ErrFormat (names the fault), ErrUnsupported ("frame only: …": the frame is right, but key or
// codec is missing for the states), ErrNotFound (gone since).
//
//promptcache:doc pc_folder_verify
func (f *Folder) Verify(index int) error {
	return f.use(func(a *arena, p *C.pc_folder) C.pc_status {
		return C.go_pc_folder_verify(p, C.size_t(index), &a.failure)
	})
}

// Remove removes a record.
//
// C: pc_folder_remove. Removes a record. Returns ErrNotFound (gone since), ErrIO, ErrState (another
// folder has this path now).
//
//promptcache:doc pc_folder_remove
func (f *Folder) Remove(index int) error {
	return f.use(func(a *arena, p *C.pc_folder) C.pc_status {
		return C.go_pc_folder_remove(p, C.size_t(index), &a.failure)
	})
}

// Trim evicts records until at most so many bytes are left.
//
// C: pc_folder_trim. Evicts records until at most `bytes` are left: expired ones and leftovers of
// killed writers first, then by eviction score. *removed, *freed (each may be nil): files and
// bytes, also on failure. Returns as Folder.Remove.
//
//promptcache:doc pc_folder_trim
func (f *Folder) Trim(bytes uint64) (removed, freed uint64, err error) {
	var files, size C.uint64_t
	err = f.use(func(a *arena, p *C.pc_folder) C.pc_status {
		return C.go_pc_folder_trim(p, C.uint64_t(bytes), &files, &size, &a.failure)
	})
	return uint64(files), uint64(size), err
}

// Plugins are the plug-in modules of the library.
//
// C: pc_plugin_get. The plug-in module with this index, from 0; opens it, as its first use would.
// Blocks while a file is loaded. Returns ErrNotFound beyond the last.
//
//promptcache:doc pc_plugin_get
func Plugins() ([]PluginInfo, error) {
	var list []PluginInfo
	for {
		a := &arena{}
		got := C.pc_plugin_info{struct_size: C.sizeof_pc_plugin_info}
		err := a.done(C.go_pc_plugin_get(C.size_t(len(list)), &got, &a.failure))
		if errors.Is(err, ErrNotFound) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		var info PluginInfo
		info.from(&got)
		list = append(list, info)
	}
}

// ShowText makes foreign text fit to be shown.
//
// C: pc_text_show. Makes foreign text fit to be shown: the name in a file, the answer of a server.
// Writes one line of UTF-8. Control characters, which a terminal obeys, marks that turn the
// direction of text, and characters without width are written as "<U+001B>"; blanks of other kinds
// become spaces; bytes that are not UTF-8 become U+FFFD. Error texts and lines of the log have
// been through it; texts in results are as the files have them. Writes at most room - 1 bytes and
// a NUL; what does not fit ends in "...", between characters. text: `size` bytes, which may have
// NULs; nil: none. Returns the bytes written; 0 if out is nil or room 0. Eight bytes of room for
// each of `size` are always enough. Any thread.
//
//promptcache:doc pc_text_show
func ShowText(text string) string {
	a := &arena{}
	defer a.free()
	room := 8*len(text) + 1
	out := make([]byte, room)
	size := C.pc_text_show(a.text(text), C.size_t(len(text)), (*C.char)(first(out)), C.size_t(room))
	return string(out[:size])
}
