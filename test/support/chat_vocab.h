/* Tests of chat templates share this: a vocabulary to begin with, and a tokenizer that makes a
 * token of each byte. */
#ifndef PC_CHAT_VOCAB_H
#define PC_CHAT_VOCAB_H

#include "base/mem.h"
#include "text/tokenizer.h"

/* Without special ones; types NULL: all are plain. */
static inline pc__vocab pc_test_vocab(const pc__text *tokens, const int32_t *types, size_t count)
{
    return (pc__vocab){.kind = PC__VOCAB_WORDPIECE,
                       .where = "vocabulary",
                       .count = count,
                       .tokens = tokens,
                       .types = types,
                       .bos = -1,
                       .eos = -1,
                       .pad = -1,
                       .sep = -1,
                       .cls = -1};
}

/* `user`: the allocator. */
static inline pc_status pc_test_byte_tokens(void *user, const char *text, size_t size,
                                            uint64_t flags, int32_t **tokens, size_t *count)
{
    (void)flags;
    *count = size;
    *tokens = pc__calloc(user, size, sizeof **tokens);
    for (size_t i = 0; *tokens && i < size; i++)
        (*tokens)[i] = (unsigned char)text[i];
    return *tokens ? PC_OK : PC_ERR_NOMEM;
}

#endif
