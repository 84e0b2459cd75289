/* Messages of a caller as a conversation for the chat template, and as text with the origin of each
 * byte. Modules in messages are marked words there, which stand for them. */
#ifndef PC_SERVE_MESSAGES_H
#define PC_SERVE_MESSAGES_H

#include <promptcache/prompt.h>

#include "model/model.h"
#include "pml/literal.h"

typedef struct pc__talk {
    const pc_allocator *mem;
    const char *call; /* for error texts */
    pc_chat_options options;
    void *copy; /* of the messages, if the caller's are of another size */
    const pc_message *given;
    size_t count;
    size_t module_count; /* of all messages */
    pc__jinja_message *messages;
    pc__jinja_more *more;
    char **contents; /* [count] with words for modules; NULL: the caller's */
    struct json_t *tools, *variables;
} pc__talk;

/* Reads and checks the arguments of a call. pc__talk_free on failure, too. */
pc_status pc__talk_read(pc__talk *talk, const pc_allocator *mem, const char *call,
                        const pc_message *messages, size_t stride, size_t count,
                        const pc_chat_options *options);
void pc__talk_free(pc__talk *talk);
/* PC_ERR_UNSUPPORTED: it names modules or a schema. */
pc_status pc__talk_check_plain(const pc__talk *talk);

/* As the model's template writes it, with `count` messages before it (their `more` too). */
pc_status pc__talk_render(const pc__talk *talk, const pc__chat *chat,
                          const pc__jinja_message *before, const pc__jinja_more *more, size_t count,
                          pc__bytes *text, pc__bytes *origins);
/* The bytes from `from` on that have one origin. */
size_t pc__origin_run(const pc__bytes *origins, size_t from);
/* Tokens of text from byte `from` on, which has no marked bytes. `env` as of a literal. */
pc_status pc__origin_tokens(const pc__pml_env *env, const pc__bytes *text, const pc__bytes *origins,
                            size_t from, int32_t **tokens, size_t *count);

/* The word of module `index` of all, PC__MODULE_WORD bytes and a NUL. */
enum { PC__MODULE_WORD = 20 };
void pc__module_word(char out[PC__MODULE_WORD + 1], size_t index);

#endif
