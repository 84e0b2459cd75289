/*
 * promptcache/prompt.h: schemas and prompts without PML; their layout.
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
    int64_t start;  /* first position */
    int64_t length; /* number of positions */
    uint64_t flags; /* PC_ITEM_UNCACHED, or 0 */
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

/* ---- INIT macros */

/* clang-format off */
#define PC_SYSTEM_FORMAT_INIT {sizeof(pc_system_format), NULL, NULL, 0, NULL, NULL, 0, NULL, \
    NULL, 0, 0}
#define PC_ITEM_INIT {sizeof(pc_item), 0, 0, NULL, NULL, 0, 0, 0}
#define PC_PART_INIT {sizeof(pc_part), 0, 0, NULL, NULL, 0, 0}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_system_format_init(pc_system_format *format, size_t size);
PC_API void pc_item_init(pc_item *item, size_t size);
PC_API void pc_part_init(pc_part *part, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_PROMPT_H */
