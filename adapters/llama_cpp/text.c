/* Text and tokens by llama.cpp's own tokenizer. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* Four bytes that look like a character, but one behind U+10FFFF. llama.cpp takes other bytes that
 * are no UTF-8 for U+FFFD; at these it throws, and the process would end. */
static int beyond_unicode(const char *text, size_t size, size_t i)
{
    const unsigned char *c = (const unsigned char *)text + i;
    return size - i > 3 && c[0] >= 0xf4 && c[0] <= 0xf7 && (c[0] > 0xf4 || c[1] >= 0x90);
}

/* A copy in which such bytes no longer look like one character. *out NULL: there are none. */
static pc_status within_unicode(const char *text, size_t size, char **out)
{
    *out = NULL;
    for (size_t i = 0; i < size; i++) {
        if (!beyond_unicode(text, size, i))
            continue;
        if (!*out) {
            if (!(*out = malloc(size)))
                return PC_ERR_NOMEM;
            memcpy(*out, text, size);
        }
        (*out)[i] = (char)0xff;
    }
    return PC_OK;
}

pc_status text_tokenize(void *user, const char *text, size_t size, uint64_t flags, int32_t *tokens,
                        size_t capacity, size_t *count)
{
    const host *h = user;
    int32_t most = capacity > INT32_MAX ? INT32_MAX : (int32_t)capacity, result;
    char *copy = NULL;
    *count = 0;
    if (size > INT32_MAX)
        return host_fail(PC_ERR_LIMIT, "a text of %zu bytes: llama.cpp takes up to 2 GB", size);
    if (llama_vocab_type(h->vocab) != LLAMA_VOCAB_TYPE_SPM && within_unicode(text, size, &copy) < 0)
        return PC_ERR_NOMEM;
    result = llama_tokenize(h->vocab, copy ? copy : text, (int32_t)size, tokens, most,
                            (flags & PC_TOKENIZE_BOS) != 0, (flags & PC_TOKENIZE_SPECIAL) != 0);
    free(copy);
    if (result == INT32_MIN)
        return host_fail(PC_ERR_LIMIT, "a text of more than 2147483647 tokens");
    *count = (size_t)(result < 0 ? -result : result);
    return result < 0 && capacity ? PC_ERR_LIMIT : PC_OK;
}

pc_status text_detokenize(void *user, const int32_t *tokens, size_t count, uint64_t flags,
                          char *text, size_t capacity, size_t *size)
{
    const host *h = user;
    int32_t most = capacity > INT32_MAX ? INT32_MAX : (int32_t)capacity, result;
    *size = 0;
    if (count > INT32_MAX)
        return host_fail(PC_ERR_LIMIT, "%zu tokens at once", count);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= h->info.vocab)
            return host_fail(PC_ERR_INVALID, "token %d: the vocabulary has %d", tokens[i],
                             h->info.vocab);
    result = llama_detokenize(h->vocab, tokens, (int32_t)count, text, most, false,
                              (flags & PC_TOKENIZE_SPECIAL) != 0);
    *size = (size_t)(result < 0 ? -result : result);
    return result < 0 && capacity ? PC_ERR_LIMIT : PC_OK;
}
