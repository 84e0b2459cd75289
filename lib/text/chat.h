/* Chat templates as pieces of text, which replace the tags <system>, <user> and <assistant> of PML
 * (doc/pml.md). They come from a table of families, from a JSON file, or from the model's own Jinja
 * template (chat_jinja.c). Nothing is guessed: for any other template the pieces are `unknown`, and
 * chat tags are errors. */
#ifndef PC_TEXT_CHAT_H
#define PC_TEXT_CHAT_H

#include "text/jinja.h"
#include "text/tokenizer.h"

/* Special tokens in these texts ("<|im_start|>", "<s>") become tokens; in documents they stay text.
 */
enum { PC__CHAT_PIECES = 8 };
typedef union pc__chat_pieces {
    struct {
        const char *system_open, *system_close;
        /* the beginning without a system prompt, also for <system/> and an empty element */
        const char *system_empty;
        const char *user_open, *user_close;
        /* opens an answer that is to be generated; not used before a given answer */
        const char *generation;
        const char *assistant_open, *assistant_close;
    };
    const char *list[PC__CHAT_PIECES]; /* the same */
} pc__chat_pieces;

typedef struct pc__chat {
    char *name;
    pc__chat_pieces pieces; /* owned */
    /* the first user turn follows the system prompt without user_open */
    int system_joins_user;
    /* why there are no pieces (then all are empty), and why no system prompt; NULL: there are */
    char *unknown, *no_system;
    char **stop_strings;
    size_t stop_string_count;
    int32_t *stop_tokens;
    size_t stop_token_count;
    /* The model's own template and the tokens that it writes. With `unknown` it can only be run as
     * a whole. NULL: there is none, or the interpreter cannot read it. */
    char *jinja, *bos, *eos;
    int64_t read_at; /* seconds of the epoch: the date that the pieces name, if any */
    int counts;      /* its form depends on the number of turns, or may */
} pc__chat;

enum { PC__CHAT_STOPS = 16 };

/* A template as a table entry; lists end with NULL. */
typedef struct pc__chat_template {
    const char *name; /* of a family: all its names, separated by blanks */
    pc__chat_pieces pieces;
    int system_joins_user;
    const char *tokens[6];                   /* must be special tokens of the model */
    const char *stop_tokens[PC__CHAT_STOPS]; /* those that the vocabulary has are used */
    const char *stop_strings[PC__CHAT_STOPS];
} pc__chat_template;

extern const pc__chat_template pc__chat_families[];
extern const size_t pc__chat_family_count;
const pc__chat_template *pc__chat_family(const char *name); /* NULL: there is none of that name */

/* Texts of BOS and EOS, which templates write. NULL: there is none. */
typedef struct pc__chat_ends {
    const char *bos, *eos;
} pc__chat_ends;

/* Of a family; of a Jinja text if `name` has "{{" or "{%"; of a file if `name` ends in ".json" or
 * ".jinja". The tokenizer (NULL: the application tokenises) resolves stop tokens. `ends`: for Jinja
 * without a tokenizer; may be NULL. PC_ERR_NOT_FOUND: the text lists the families. PC_ERR_MISMATCH:
 * the vocabulary lacks a special token of the family. */
pc_status pc__chat_find(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                        const pc__chat_ends *ends, const char *name);
/* The model's own, by the Jinja template of its vocabulary. If there is none, or its pieces cannot
 * be found for certain, the result is `unknown`; that is no error. */
pc_status pc__chat_detect(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer);
void pc__chat_free(pc__chat *chat, const pc_allocator *mem);

/* PC_OK: tags of this role can be used. PC_ERR_UNSUPPORTED: the text names the cause and what to
 * do. `role` "system" means a system prompt that is not empty. */
pc_status pc__chat_check_role(const pc__chat *chat, const char *role);

/* Whether the model's own template makes of this conversation, whose last message is a user's, what
 * the pieces make. more [count], or NULL. PC_ERR_UNSUPPORTED: it does not; the text says what to
 * do.
 */
pc_status pc__chat_check_talk(const pc__chat *chat, const pc_allocator *mem,
                              const pc__jinja_message *messages, const pc__jinja_more *more,
                              size_t count);
/* A whole conversation as the model's own template writes it, or the pieces of another; `origins`
 * of `talk` must be there. The template's own tokens, and the date unless `dated`, are filled in
 * here. PC_ERR_UNSUPPORTED: the template is not understood at all, or refuses. */
pc_status pc__chat_render(const pc__chat *chat, const pc_allocator *mem,
                          const pc__jinja_input *talk, pc__bytes *out);

/* For chat_jinja.c. */
/* PC_MISS: the pieces make something else of the messages than the template, from message *from on.
 * Other failures are the template's. */
pc_status pc__chat_compare(const pc__chat *chat, pc__jinja *jinja, const pc_allocator *mem,
                           const pc__jinja_message *messages, const pc__jinja_more *more,
                           size_t count, size_t *from);
pc_status pc__chat_new(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                       const pc__chat_template *form);
/* The pieces of a Jinja template. PC_MISS: they cannot be found for certain; why [size]. */
pc_status pc__chat_from_jinja(pc__chat **out, const pc_allocator *mem,
                              const pc__tokenizer *tokenizer, const pc__chat_ends *ends,
                              const char *jinja, char *why, size_t size);
/* Keeps the text beside a template whose pieces are not known, so that it can be run. A failure is
 * the interpreter's: then nothing is kept. */
pc_status pc__chat_keep_jinja(pc__chat *chat, const pc_allocator *mem,
                              const pc__tokenizer *tokenizer, const pc__chat_ends *ends,
                              const char *jinja);

#endif
