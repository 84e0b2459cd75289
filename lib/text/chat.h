/* Chat templates as pieces of text: what the tags <system>, <user>, <assistant> of PML turn into
 * (doc/pml.md). They come from a table of families, from a JSON file, or from the model's own Jinja
 * text, which is run over conversations of which every part is known (chat_jinja.c). A template
 * that is none of these is not guessed at: it is `unknown`, and so are chat tags with it. */
#ifndef PC_TEXT_CHAT_H
#define PC_TEXT_CHAT_H

#include "text/tokenizer.h"

/* Texts may hold special tokens ("<|im_start|>", "<s>"): they become those tokens, while such text
 * in a document does not. */
typedef struct pc__chat_pieces {
    const char *system_open, *system_close;
    /* the beginning without a system prompt: stands for <system/> and for an empty element */
    const char *system_empty;
    const char *user_open, *user_close;
    /* opens the answer that is to be generated; in front of one that is known it is missing */
    const char *generation;
    const char *assistant_open, *assistant_close;
} pc__chat_pieces;
enum { PC__CHAT_PIECES = sizeof(pc__chat_pieces) / sizeof(const char *) };

typedef struct pc__chat {
    char *name;
    char *piece[PC__CHAT_PIECES]; /* owned; `pieces` lends them */
    pc__chat_pieces pieces;
    /* the first user turn goes on where the system prompt ends: without user_open */
    int system_joins_user;
    /* why there are no pieces (all empty), or NULL; why a system prompt cannot be had, or NULL */
    char *unknown, *no_system;
    char **stop_strings;
    size_t stop_string_count;
    int32_t *stop_tokens;
    size_t stop_token_count;
} pc__chat;

enum { PC__CHAT_STOPS = 16 };

/* A template before it is copied; lists end with NULL. */
typedef struct pc__chat_template {
    const char *name; /* of a family: all its names, between blanks */
    pc__chat_pieces pieces;
    int system_joins_user;
    const char *tokens[6];                   /* must be special tokens of the model */
    const char *stop_tokens[PC__CHAT_STOPS]; /* those that the model has */
    const char *stop_strings[PC__CHAT_STOPS];
} pc__chat_template;

extern const pc__chat_template pc__chat_families[];
extern const size_t pc__chat_family_count;
const pc__chat_template *pc__chat_family(const char *name); /* NULL: there is none of that name */

/* By name of a family, or from a JSON file when `name` ends in ".json". The tokenizer (NULL: a host
 * tokenises) resolves stop tokens. PC_ERR_NOT_FOUND lists the families; PC_ERR_MISMATCH names a
 * special token of the family that the tokenizer does not have. */
pc_status pc__chat_find(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                        const char *name);
/* The model's own: read off the Jinja text that came with the vocabulary. Never fails for what such
 * a text may hold: where there is none, or it cannot be known for certain, it is `unknown`. */
pc_status pc__chat_detect(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer);
void pc__chat_free(pc__chat *chat, const pc_allocator *mem);

/* PC_OK where a role's tag can be used; else PC_ERR_UNSUPPORTED with the cause and the ways out.
 * `role`: "system" is for one that is not empty. */
pc_status pc__chat_check_role(const pc__chat *chat, const char *role);

/* For chat_jinja.c. */
pc_status pc__chat_new(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                       const pc__chat_template *form);
/* Pieces that a Jinja text is made of. PC_MISS: it cannot be known; why [size] says the cause. */
pc_status pc__chat_from_jinja(pc__chat **out, const pc_allocator *mem,
                              const pc__tokenizer *tokenizer, const char *jinja, char *why,
                              size_t size);

#endif
