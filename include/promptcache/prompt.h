/*
 * promptcache/prompt.h: schemas, prompts and conversations without PML; layouts.
 * Conventions: promptcache.h.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_PROMPT_H
#define PROMPTCACHE_PROMPT_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Schemas of a format with a system prompt */

/* pc_system_format.flags */
enum {
    /* No format: the model's chat template frames system prompt and request. */
    PC_FORMAT_CHAT = 1
};

/* A schema made of a format string, as RelayAttention's code has it (section 3.3 of the paper). */
typedef struct pc_system_format {
    size_t struct_size;
    const char *name;        /* of the schema; NULL: "system" */
    const char *format;      /* NULL: "{__SYS_PROMPT}{__USR_PROMPT}" */
    size_t format_size;      /* bytes of format */
    const char *format_file; /* or a file that holds it; a final line break is dropped */
    const char *system;      /* the system prompt; blanks at its ends are dropped */
    size_t system_size;      /* bytes of system */
    const char *system_file; /* or a file that holds it */
    const int32_t *tokens;   /* or the tokens of everything before the user slot, as they are */
    size_t token_count;      /* length of tokens */
    uint64_t flags;          /* PC_FORMAT_… */
} pc_system_format;

/* Makes a schema of a format string with "{__SYS_PROMPT}" and, behind it, "{__USR_PROMPT}". A brace
 * of the text is doubled. Everything up to the user slot is shared and encoded once. Each request's
 * text stands right behind it, followed by the text behind the slot (pc_prompt_fill). Special
 * tokens are recognised in the format, not in the system prompt or a request. BOS, where the model
 * wants it, is the first token only. Returns PC_ERR_PML (line and column of a slot that is missing,
 * unknown, repeated or in the wrong order, or of a single brace), PC_ERR_LIMIT (longer than the
 * model's context), PC_ERR_NOT_FOUND and PC_ERR_IO of the files, PC_ERR_UNSUPPORTED (PC_FORMAT_CHAT
 * without a known chat template). */
PC_API pc_status pc_schema_from_format(pc_schema **out, const pc_model *model,
                                       const pc_system_format *format);

/* A prompt of a schema without PML: the schema's anonymous texts, then this text in the user slot,
 * or at the end if there is none. Blanks at the ends of the text are dropped; tokens are taken as
 * they are. Returns PC_ERR_LIMIT. */
PC_API pc_status pc_prompt_fill(pc_prompt **out, const pc_schema *schema, const char *text,
                                size_t size, const pc_prompt_options *options);
PC_API pc_status pc_prompt_fill_tokens(pc_prompt **out, const pc_schema *schema,
                                       const int32_t *tokens, size_t count,
                                       const pc_prompt_options *options);

/* ---- Layout */

/* Elements of a schema: pc_item.kind. */
enum {
    PC_ITEM_MODULE = 1,
    PC_ITEM_UNION = 2,
    PC_ITEM_TEXT = 3,
    PC_ITEM_PARAMETER = 4,
    PC_ITEM_SLOT = 5
};
enum { PC_ITEM_UNCACHED = 1 }; /* pc_item.flags: cache="false" */

/* One element of a schema's layout. Strings are borrowed from the schema. */
typedef struct pc_item {
    size_t struct_size;
    uint32_t kind;    /* PC_ITEM_… */
    uint32_t depth;   /* number of modules around it */
    const char *path; /* a text has its parent's (root: ""), a union its parent's and "/union" */
    /* Of a text: as tokenised. Of a slot: the text behind each request. Else "". */
    const char *text;
    int64_t start;    /* first position */
    int64_t length;   /* number of positions */
    uint64_t flags;   /* PC_ITEM_UNCACHED, or 0 */
    size_t text_size; /* bytes of text, which may have NULs */
} pc_item;

/* The layout in document order, without the root. PC_ERR_NOT_FOUND beyond its end. */
PC_API size_t pc_schema_item_count(const pc_schema *schema);
PC_API pc_status pc_schema_get_item(const pc_schema *schema, size_t index, pc_item *item);

/* Where a part comes from: pc_part.kind. */
enum {
    PC_PART_CACHED = 1,   /* text of the schema, from the cache */
    PC_PART_ARGUMENT = 2, /* Prompt Cache, section 3.2.2 */
    PC_PART_TEXT = 3,     /* new text */
    PC_PART_UNCACHED = 4  /* text of the schema under cache="false", computed by every request */
};

/* Tokens of a prompt that come from one place. Borrowed from the prompt. */
typedef struct pc_part {
    size_t struct_size;
    uint32_t kind; /* PC_PART_… */
    uint32_t reserved;
    const char *path;      /* of its item; "" of a plain prompt */
    const int32_t *tokens; /* [count] its tokens */
    size_t count;          /* length of tokens */
    int64_t start;         /* position of the first */
} pc_part;

/* The parts, by position. PC_ERR_NOT_FOUND beyond their end. */
PC_API size_t pc_prompt_part_count(const pc_prompt *prompt);
PC_API pc_status pc_prompt_get_part(const pc_prompt *prompt, size_t index, pc_part *part);

/* ---- Schemas and prompts of bytes, without PML
 *
 * A builder makes what a PML document makes (doc/prompts.md), from bytes. Nothing in a text has a
 * meaning: it may have NULs, form feeds, "<", blanks at its ends. The text of a special token stays
 * text unless PC_PROMPT_SPECIAL is set. Equal texts give equal tokens and keys, with PML or
 * without. A name is any text that is not empty and has no '/'. In a path, '/' separates the names
 * of a module and of those around it: "trip/hotel".
 *
 * A call that fails leaves the builder as it was. Faults that come from several calls together (two
 * modules of one name, an unknown module, a text that is too long) are found when the schema or
 * prompt is made; the text names the element that is at fault by its number: every call that adds
 * or begins something counts, from 1. Every call can return PC_ERR_LIMIT (more than 127 elements
 * around one).
 */

typedef struct pc_schema_builder pc_schema_builder;

/* Begins an empty schema. name: of the schema. options: of pc_schema_parse; flags must be 0 and
 * base_folder NULL. Handle: one thread at a time. */
PC_API pc_status pc_schema_builder_new(pc_schema_builder **out, const pc_model *model,
                                       const char *name, const pc_schema_options *options);
PC_API void pc_schema_builder_free(pc_schema_builder *builder);
/* Adds text to what is open, the schema itself at first. Neighbouring texts are one. flags:
 * PC_PROMPT_SPECIAL, or 0. */
PC_API pc_status pc_schema_builder_add_text(pc_schema_builder *builder, const char *text,
                                            size_t size, uint64_t flags);
/* Opens a module; pc_schema_builder_end closes it. flags: PC_ITEM_UNCACHED, or 0. */
PC_API pc_status pc_schema_builder_begin_module(pc_schema_builder *builder, const char *name,
                                                uint64_t flags);
/* Opens a union, which holds modules alone. scaffold: name of its member in the default layout, or
 * NULL. */
PC_API pc_status pc_schema_builder_begin_union(pc_schema_builder *builder, const char *scaffold);
/* Opens a turn of a conversation: its texts, modules and parameters stand between the pieces of the
 * model's chat template. role: "system", "user" or "assistant". */
PC_API pc_status pc_schema_builder_begin_turn(pc_schema_builder *builder, const char *role);
/* Closes the module, union or turn that was opened last. Returns PC_ERR_STATE if none is open. */
PC_API pc_status pc_schema_builder_end(pc_schema_builder *builder);
/* Adds room for an argument of `length` tokens to the open module. scaffold [size]: text that
 * stands there while the module is encoded; NULL: none. */
PC_API pc_status pc_schema_builder_add_parameter(pc_schema_builder *builder, const char *name,
                                                 int64_t length, const char *scaffold, size_t size);
/* Modules that are encoded jointly, for prompts that use all of them: paths [count], at least 2.
 * Only while nothing is open (PC_ERR_STATE). */
PC_API pc_status pc_schema_builder_add_scaffold(pc_schema_builder *builder,
                                                const char *const *modules, size_t count);
/* Makes a schema of what the builder has; it may go on afterwards. Returns as pc_schema_parse, and
 * PC_ERR_STATE if something is open. */
PC_API pc_status pc_schema_from_builder(pc_schema **out, const pc_schema_builder *builder);

typedef struct pc_prompt_builder pc_prompt_builder;

/* Begins an empty prompt of a schema. The builder holds the schema. Handle: one thread at a time.
 */
PC_API pc_status pc_prompt_builder_new(pc_prompt_builder **out, const pc_schema *schema);
PC_API void pc_prompt_builder_free(pc_prompt_builder *builder);
/* Uses a module, and those around it in its path. Text that follows stands behind the outermost. */
PC_API pc_status pc_prompt_builder_use(pc_prompt_builder *builder, const char *module);
/* An argument for a parameter of the module that was used last. Returns PC_ERR_STATE (none was
 * used, or something was added since), PC_ERR_PML (it has an argument). */
PC_API pc_status pc_prompt_builder_add_argument(pc_prompt_builder *builder, const char *parameter,
                                                const char *text, size_t size);
/* As of the schema's builder. */
PC_API pc_status pc_prompt_builder_add_text(pc_prompt_builder *builder, const char *text,
                                            size_t size, uint64_t flags);
PC_API pc_status pc_prompt_builder_begin_turn(pc_prompt_builder *builder, const char *role);
PC_API pc_status pc_prompt_builder_end(pc_prompt_builder *builder);
/* Makes a prompt of what the builder has; it may go on afterwards. options: flags may have
 * PC_PML_OVERLAP. Returns as pc_prompt_parse, and PC_ERR_STATE if a turn is open. */
PC_API pc_status pc_prompt_from_builder(pc_prompt **out, const pc_prompt_builder *builder,
                                        const pc_prompt_options *options);

/* ---- Conversations
 *
 * A conversation becomes text by the model's chat template (doc/prompts.md). Special tokens of the
 * template become tokens. What messages, tools and variables say stays text, whatever it looks
 * like.
 */

/* A message. Arrays have a stride, sizeof(pc_message), beside them. */
typedef struct pc_message {
    const char *role;    /* "system", "user", "assistant", "tool", …: letters, digits, '_', '-' */
    const char *content; /* may have NULs; NULL with tool_calls: the template sees none */
    size_t content_size; /* bytes of content */
    /* Paths of modules of pc_chat_options.schema. Their texts stand in front of content, from the
     * cache. A conversation names each at most once: at its first use. */
    const char *const *modules;
    size_t module_count;      /* length of modules */
    const char *tool_calls;   /* JSON: the list of an answer's calls, as the template wants them */
    const char *tool_call_id; /* NULL: none */
    const char *name;         /* NULL: none */
    const char *fields;       /* JSON: an object of further members, such as reasoning_content */
} pc_message;

/* pc_chat_options.flags */
enum {
    PC_CHAT_NO_ANSWER = 1 /* does not open an answer behind the last message */
};

typedef struct pc_chat_options {
    size_t struct_size;
    uint64_t flags;        /* PC_CHAT_… */
    const char *tools;     /* JSON: the list of tools; a template may ignore them; NULL: none */
    const char *variables; /* JSON: an object of further variables, such as enable_thinking */
    /* Date for templates that ask for it, in seconds since 1970. 0: they fall back on their own, so
     * that states are of use on other days, too. */
    int64_t time;
    const pc_schema *schema; /* of pc_message.modules; NULL: none */
} pc_chat_options;

/* The conversation as the model's chat template writes it: text [capacity], not NUL-terminated.
 * *size gets its bytes. messages must not name modules, nor options a schema.
 * Returns PC_ERR_LIMIT (capacity), PC_ERR_UNSUPPORTED (the template is not known, or fails for this
 * conversation), PC_ERR_FORMAT (JSON that is none, with its place). */
PC_API pc_status pc_chat_format(const pc_model *model, const pc_message *messages,
                                size_t message_stride, size_t count, const pc_chat_options *options,
                                char *text, size_t capacity, size_t *size);
/* A prompt of a conversation. Without a schema it is as one of pc_prompt_from_tokens: it reuses any
 * beginning that it has in common with an earlier one. With a schema it is as one of
 * pc_prompt_from_builder, but its modules stand where the messages name them, one behind the other,
 * if the model's states can be moved and no text stands between modules of the schema. If the
 * schema has turns itself, the messages go on behind them, positions are the schema's, and roles
 * are system, user and assistant, without tools and further members.
 * Returns as pc_chat_format and pc_prompt_parse; PC_ERR_UNSUPPORTED also if the template does not
 * write each module once; PC_ERR_MISMATCH (a schema of another model). */
PC_API pc_status pc_prompt_from_messages(pc_prompt **out, const pc_model *model,
                                         const pc_message *messages, size_t message_stride,
                                         size_t count, const pc_chat_options *options);
/* Appends messages behind the answer so far: closes it (but for a stop token that was just
 * sampled), writes the messages, opens the next answer. They must not name modules, nor options a
 * schema.
 * Returns as pc_sequence_push and pc_chat_format; PC_ERR_UNSUPPORTED also if the template would
 * write the last answer otherwise than it is, or may count turns (doc/prompts.md). */
PC_API pc_status pc_sequence_push_messages(pc_sequence *sequence, const pc_message *messages,
                                           size_t message_stride, size_t count,
                                           const pc_chat_options *options);

/* ---- INIT macros */

/* clang-format off */
#define PC_SYSTEM_FORMAT_INIT {sizeof(pc_system_format), NULL, NULL, 0, NULL, NULL, 0, NULL, \
    NULL, 0, 0}
#define PC_ITEM_INIT {sizeof(pc_item), 0, 0, NULL, NULL, 0, 0, 0, 0}
#define PC_PART_INIT {sizeof(pc_part), 0, 0, NULL, NULL, 0, 0}
#define PC_CHAT_OPTIONS_INIT {sizeof(pc_chat_options), 0, NULL, NULL, 0, NULL}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_system_format_init(pc_system_format *format, size_t size);
PC_API void pc_item_init(pc_item *item, size_t size);
PC_API void pc_part_init(pc_part *part, size_t size);
PC_API void pc_chat_options_init(pc_chat_options *options, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_PROMPT_H */
