/* RelayAttention's schema string as a schema: text with `{__SYS_PROMPT}` and, behind it,
 * `{__USR_PROMPT}`. Braces of the text itself are doubled.
 *
 * It becomes a schema tree like that of PML: one text of the root, with all that stands before the
 * user slot, and the slot. One text is tokenised as a whole, so that its states are those of a
 * prefill in every mode of encoding. If the model's convention wants BOS, it is the first token of
 * that text and stands nowhere else. (The published code adds it to both parts and drops the first
 * token of the second, whatever that is.) */
#ifndef PC_PML_SYSTEM_FORMAT_H
#define PC_PML_SYSTEM_FORMAT_H

#include "pml/schema_tree.h"

typedef struct pc__system_format_source {
    const char *name;   /* of the schema */
    const char *format; /* the schema string; NULL: the environment's chat template instead */
    size_t format_size;
    const char *where;  /* file name of the schema string, for error texts */
    const char *system; /* the system prompt, without the blanks at its ends */
    size_t system_size;
    const int32_t *tokens; /* not NULL: all tokens before the slot, in place of both texts */
    size_t token_count;
} pc__system_format_source;

#define PC__SYSTEM_FORMAT_SYSTEM "{__SYS_PROMPT}"
#define PC__SYSTEM_FORMAT_USER "{__USR_PROMPT}"

/* PC_ERR_PML with place and cause; PC_ERR_LIMIT. */
pc_status pc__system_format_tree(pc__schema_tree **out, const pc__pml_env *env,
                                 const pc__system_format_source *source);

/* The tokens of a user's text in the slot and of the template behind the slot, as the tokenizer
 * gives them after the text before the slot. A schema without slot: the text's own tokens.
 * `tokens` is a block of the environment's allocator. */
pc_status pc__system_format_user(const pc__pml_env *env, const pc__schema_tree *tree,
                                 const char *text, size_t size, int32_t **tokens, size_t *count);
/* The same for a user's text that is tokens already. */
pc_status pc__system_format_user_tokens(const pc__pml_env *env, const pc__schema_tree *tree,
                                        const int32_t *given, size_t given_count, int32_t **tokens,
                                        size_t *count);

#endif
