package promptcache

// #include "bridge.h"
import "C"

import "unsafe"

// Prompt is a prompt that is ready to be computed. It is immutable.
type Prompt struct{ *handle }

// newPrompt: the first of needs is a model or a schema.
func newPrompt(p *C.pc_prompt, needs ...*handle) *Prompt {
	return finalise(&Prompt{newHandle("prompt", unsafe.Pointer(p), nil,
		func(p unsafe.Pointer) { C.pc_prompt_free((*C.pc_prompt)(p)) }, needs...)})
}

// Close gives the prompt up. Sequences of it go on.
func (p *Prompt) Close() error { return p.close() }

func (a *arena) prompt(p *Prompt) *C.pc_prompt { return (*C.pc_prompt)(a.hold(p.handle)) }

func (a *arena) schemas(list []*Schema) (pointers []*C.pc_schema, needs []*handle) {
	for _, schema := range list {
		pointers = append(pointers, a.schema(schema))
		needs = append(needs, schema.handle)
	}
	if len(list) == 0 {
		a.fail(errorf(ErrInvalid, "no schema is given"))
	}
	return pointers, needs
}

// LoadPrompt reads a prompt of one of several schemas from a file.
//
// C: pc_prompt_load. Parses a prompt and resolves it against the schema that it names (Prompt Cache,
// sections 3.2.1 and 3.4). The prompt holds that schema. schemas [count]: a prompt that names none
// takes the only one given. Of the prompt's own text, blocks of 64 tokens go to the cache, for
// prompts that begin with the same modules and text (not with VisibleAll or a repair above
// RepairNone). Returns ErrPML (line and column), ErrNotFound (no such file; the named schema is
// not given; none is named and several are given), ErrInvalid (two given schemas have the name),
// ErrLimit. Handle: immutable.
//
//promptcache:doc pc_prompt_load
func LoadPrompt(schemas []*Schema, path string, options *PromptOptions) (*Prompt, error) {
	a := &arena{}
	defer a.free()
	list, needs := a.schemas(schemas)
	name, o := a.name("path", path), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_prompt
	if err := a.done(C.go_pc_prompt_load(&out, &list[0], C.size_t(len(list)), name, o,
		&a.failure)); err != nil {
		return nil, err
	}
	return newPrompt(out, needs...), nil
}

// ParsePrompt reads a prompt of one of several schemas from a text.
//
// C: pc_prompt_parse. Parses a prompt and resolves it against the schema that it names (Prompt
// Cache, sections 3.2.1 and 3.4). The prompt holds that schema. schemas [count]: a prompt that
// names none takes the only one given. Of the prompt's own text, blocks of 64 tokens go to the
// cache, for prompts that begin with the same modules and text (not with VisibleAll or a repair
// above RepairNone). Returns ErrPML (line and column), ErrNotFound (no such file; the named schema
// is not given; none is named and several are given), ErrInvalid (two given schemas have the
// name), ErrLimit. Handle: immutable.
//
//promptcache:doc pc_prompt_parse
func ParsePrompt(schemas []*Schema, text string, options *PromptOptions) (*Prompt, error) {
	a := &arena{}
	defer a.free()
	list, needs := a.schemas(schemas)
	c, o := a.text(text), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_prompt
	if err := a.done(C.go_pc_prompt_parse(&out, &list[0], C.size_t(len(list)), c,
		C.size_t(len(text)), o, &a.failure)); err != nil {
		return nil, err
	}
	return newPrompt(out, needs...), nil
}

// LoadPrompt reads a prompt of this schema from a file. See the function LoadPrompt.
func (s *Schema) LoadPrompt(path string, options *PromptOptions) (*Prompt, error) {
	return LoadPrompt([]*Schema{s}, path, options)
}

// ParsePrompt reads a prompt of this schema from a text. See the function ParsePrompt.
func (s *Schema) ParsePrompt(text string, options *PromptOptions) (*Prompt, error) {
	return ParsePrompt([]*Schema{s}, text, options)
}

// Fill makes a prompt of the schema without PML.
//
// C: pc_prompt_fill. A prompt of a schema without PML: the schema's anonymous texts, then this text
// in the user slot, or at the end if there is none. Blanks at the ends of the text are dropped;
// tokens are taken as they are. Returns ErrLimit.
//
//promptcache:doc pc_prompt_fill
func (s *Schema) Fill(text string, options *PromptOptions) (*Prompt, error) {
	a := &arena{}
	defer a.free()
	p, c, o := a.schema(s), a.text(text), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_prompt
	if err := a.done(C.go_pc_prompt_fill(&out, p, c, C.size_t(len(text)), o,
		&a.failure)); err != nil {
		return nil, err
	}
	return newPrompt(out, s.handle), nil
}

// FillTokens is Fill with tokens.
//
// C: pc_prompt_fill_tokens. A prompt of a schema without PML: the schema's anonymous texts, then
// this text in the user slot, or at the end if there is none. Blanks at the ends of the text are
// dropped; tokens are taken as they are. Returns ErrLimit.
//
//promptcache:doc pc_prompt_fill_tokens
func (s *Schema) FillTokens(tokens []int32, options *PromptOptions) (*Prompt, error) {
	a := &arena{}
	defer a.free()
	p, o := a.schema(s), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_prompt
	if err := a.done(C.go_pc_prompt_fill_tokens(&out, p, (*C.int32_t)(first(tokens)),
		C.size_t(len(tokens)), o, &a.failure)); err != nil {
		return nil, err
	}
	return newPrompt(out, s.handle), nil
}

// PromptFromTokens makes a prompt without a schema.
//
// C: pc_prompt_from_tokens. A prompt without PML: tokens, or text, with BOS and EOS by the model's
// convention. It reuses any prefix that an earlier prompt of this kind has in common with it.
//
//promptcache:doc pc_prompt_from_tokens
func (m *Model) PromptFromTokens(tokens []int32, options *PromptOptions) (*Prompt, error) {
	a := &arena{}
	defer a.free()
	p, o := a.model(m), options.c(a)
	if len(tokens) == 0 { // first gives NULL for them, which C calls another fault
		a.fail(errorf(ErrInvalid, "prompt: it is empty (no tokens)"))
	}
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_prompt
	if err := a.done(C.go_pc_prompt_from_tokens(&out, p, (*C.int32_t)(first(tokens)),
		C.size_t(len(tokens)), o, &a.failure)); err != nil {
		return nil, err
	}
	return newPrompt(out, m.handle), nil
}

// PromptFromText makes a prompt without a schema.
//
// C: pc_prompt_from_text. A prompt without PML: tokens, or text, with BOS and EOS by the model's
// convention. It reuses any prefix that an earlier prompt of this kind has in common with it.
//
//promptcache:doc pc_prompt_from_text
func (m *Model) PromptFromText(text string, options *PromptOptions) (*Prompt, error) {
	a := &arena{}
	defer a.free()
	p, c, o := a.model(m), a.text(text), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_prompt
	if err := a.done(C.go_pc_prompt_from_text(&out, p, c, C.size_t(len(text)), o,
		&a.failure)); err != nil {
		return nil, err
	}
	return newPrompt(out, m.handle), nil
}

// PromptFromMessages makes a prompt of a conversation.
//
// C: pc_prompt_from_messages. A prompt of a conversation. Without a schema it is as one of
// Model.PromptFromTokens: it reuses any beginning that it has in common with an earlier one. With
// a schema it is as one of PromptBuilder.Prompt, but its modules stand where the messages name
// them, one behind the other, if the model's states can be moved and no text stands between
// modules of the schema. If the schema has turns itself, the messages go on behind them, positions
// are the schema's, and roles are system, user and assistant, without tools and further members.
// Returns as Model.FormatMessages and ParsePrompt; ErrUnsupported also if the template does not
// write each module once; ErrMismatch (a schema of another model).
//
//promptcache:doc pc_prompt_from_messages
func (m *Model) PromptFromMessages(messages []Message, options *ChatOptions) (*Prompt, error) {
	a := &arena{}
	defer a.free()
	p, list, o := a.model(m), messageArray(a, messages), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	needs := []*handle{m.handle}
	if options != nil && options.Schema != nil {
		needs = append(needs, options.Schema.handle)
	}
	var out *C.pc_prompt
	if err := a.done(C.go_pc_prompt_from_messages(&out, p, list, C.sizeof_pc_message,
		C.size_t(len(messages)), o, &a.failure)); err != nil {
		return nil, err
	}
	return newPrompt(out, needs...), nil
}

// FormatMessages writes a conversation as text.
//
// C: pc_chat_format. The conversation as the model's chat template writes it: text [capacity], not
// NUL-terminated. *size gets its bytes. messages must not name modules, nor options a schema.
// Returns ErrLimit (capacity), ErrUnsupported (the template is not known, or fails for this
// conversation), ErrFormat (JSON that is none, with its place).
//
//promptcache:doc pc_chat_format
func (m *Model) FormatMessages(messages []Message, options *ChatOptions) (string, error) {
	a := &arena{}
	defer a.free()
	p, list, o := a.model(m), messageArray(a, messages), options.c(a)
	if a.err != nil {
		return "", a.err
	}
	return a.readText(func(text *C.char, room C.size_t, size *C.size_t) C.pc_status {
		return C.go_pc_chat_format(p, list, C.sizeof_pc_message, C.size_t(len(messages)), o, text,
			room, size, &a.failure)
	})
}

// Parts are the parts of the prompt.
//
// C: pc_prompt_get_part. The parts, by position. ErrNotFound beyond their end.
//
//promptcache:doc pc_prompt_get_part
func (p *Prompt) Parts() ([]Part, error) {
	a := &arena{}
	defer a.free()
	c := a.prompt(p)
	if a.err != nil {
		return nil, a.err
	}
	parts := make([]Part, C.pc_prompt_part_count(c))
	for i := range parts {
		got := C.pc_part{struct_size: C.sizeof_pc_part}
		if err := a.done(C.go_pc_prompt_get_part(c, C.size_t(i), &got, &a.failure)); err != nil {
			return nil, err
		}
		parts[i].from(&got)
	}
	return parts, nil
}
