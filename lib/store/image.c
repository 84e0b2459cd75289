/* Compares images; dates and salts of entries (image.h). */
#include "store/image.h"

#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "base/mem.h"

int64_t pc__date_after(int64_t date, double seconds)
{
    int64_t end;
    return seconds >= 0x1p62 || __builtin_add_overflow(date, (int64_t)ceil(seconds) + 1, &end)
               ? INT64_MAX
               : end;
}

int64_t pc__end_after_use(int64_t expires, double ttl, int64_t last)
{
    int64_t end = ttl > 0 && expires ? pc__date_after(last, ttl) : expires;
    return end > expires ? end : expires;
}

void pc__image_set_entry(pc__image *image, const pc__entry_desc *desc, const pc__id *salt)
{
    image->key = desc->key;
    image->salt = desc->salt ? *desc->salt : *salt;
    image->has_content = desc->content != NULL;
    if (desc->content)
        image->content = *desc->content;
    image->has_parent = desc->parent != NULL;
    if (desc->parent)
        image->parent = *desc->parent;
    image->cost = desc->cost;
    image->ttl = desc->ttl;
    image->priority = desc->priority;
}

pc__image *pc__image_copy(const pc_allocator *mem, const pc__image *image)
{
    size_t sizes = image->block_bytes ? image->block_count * sizeof *image->block_bytes : 0,
           relative = image->relative ? image->tokens * sizeof *image->relative : 0,
           ids = image->token_ids ? image->tokens * sizeof *image->token_ids : 0;
    pc__image *copy = pc__alloc(mem, sizeof *copy + sizes + relative + ids);
    uint8_t *at = (uint8_t *)(copy + 1);
    if (!copy)
        return NULL;
    *copy = *image;
    copy->blocks = NULL;
    copy->fetch = NULL;
    if (image->block_bytes)
        copy->block_bytes = memcpy(at, image->block_bytes, sizes);
    if (image->relative)
        copy->relative = memcpy(at + sizes, image->relative, relative);
    if (image->token_ids)
        copy->token_ids = memcpy(at + sizes + relative, image->token_ids, ids);
    return copy;
}

uint64_t pc__image_bytes(const pc__image *image)
{
    uint64_t bytes = 0;
    for (size_t b = 0; b < image->block_count; b++)
        bytes += image->block_bytes[b];
    return bytes;
}

pc__id pc__salt_digest(const void *salt, size_t size)
{
    pc__digest d;
    pc__digest_start(&d, "salt/1");
    pc__digest_bytes(&d, salt, size);
    return pc__digest_end(&d);
}

static pc_status differs(const char *field, int64_t want, int64_t have)
{
    return pc__fail(PC_ERR_MISMATCH, "%s: %lld expected, %lld found", field, (long long)want,
                    (long long)have);
}

static pc_status match_names(const pc__image *want, const pc__image *have)
{
    static const pc__id anybody;
    if (!pc__id_equal(&want->key, &have->key))
        return pc__fail(PC_ERR_MISMATCH, "key: the keys differ");
    if (!pc__id_equal(&want->salt, &anybody) && !pc__id_equal(&want->salt, &have->salt))
        return pc__fail(PC_ERR_MISMATCH, "salt: the states belong to another tenant");
    if (memcmp(want->form.model, have->form.model, sizeof want->form.model))
        return pc__fail(PC_ERR_MISMATCH, "model: the fingerprints differ");
    if (strncmp(want->form.architecture, have->form.architecture, sizeof want->form.architecture))
        return pc__fail(PC_ERR_MISMATCH, "architecture: %.31s expected, %.31s found",
                        want->form.architecture, have->form.architecture);
    return PC_OK;
}

static pc_status match_numbers(const pc__image *want, const pc__image *have)
{
    const struct {
        const char *name;
        int64_t want, have;
    } fields[] = {
        {"position scheme", want->form.position_scheme, have->form.position_scheme},
        {"dtype", want->form.shape.dtype, have->form.shape.dtype},
        {"layout", want->form.layout, have->form.layout},
        {"regime", (int64_t)want->form.regime, (int64_t)have->form.regime},
        {"origin", want->form.origin, have->form.origin},
        {"layers", want->form.shape.layers, have->form.shape.layers},
        {"K/V heads", want->form.shape.kv_heads, have->form.shape.kv_heads},
        {"dimensions of K", want->form.shape.k_dim, have->form.shape.k_dim},
        {"dimensions of V", want->form.shape.v_dim, have->form.shape.v_dim},
        {"tokens", (int64_t)want->tokens, (int64_t)have->tokens},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].want != fields[i].have)
            return differs(fields[i].name, fields[i].want, fields[i].have);
    return PC_OK;
}

static int64_t relative_of(const pc__image *image, size_t token)
{
    return image->relative ? image->relative[token] : (int64_t)token;
}

static pc_status match_tokens(const pc__image *want, const pc__image *have)
{
    if (want->tokens
        && (!want->token_ids || !have->token_ids)) /* of a record whose seal is closed */
        return pc__fail(PC_ERR_MISMATCH, "tokens: unknown");
    if (want->tokens
        && memcmp(want->token_ids, have->token_ids, want->tokens * sizeof *want->token_ids))
        return pc__fail(PC_ERR_MISMATCH, "tokens: they differ");
    for (size_t i = 0; (want->relative || have->relative) && i < want->tokens; i++)
        if (relative_of(want, i) != relative_of(have, i))
            return pc__fail(PC_ERR_MISMATCH,
                            "relative position of token %zu: %lld expected, %lld found", i,
                            (long long)relative_of(want, i), (long long)relative_of(have, i));
    return PC_OK;
}

static pc_status match_blocks(const pc__image *want, const pc__image *have)
{
    if (!want->block_bytes && !want->block_count)
        return PC_OK;
    if (want->block_count != have->block_count)
        return differs("blocks", (int64_t)want->block_count, (int64_t)have->block_count);
    for (size_t i = 0; i < want->block_count; i++) {
        unsigned long long bytes = have->block_bytes[i];
        if (want->block_bytes && want->block_bytes[i] != bytes)
            return pc__fail(PC_ERR_MISMATCH, "block %zu: %llu bytes expected, %llu found", i,
                            (unsigned long long)want->block_bytes[i], bytes);
        if (!want->block_bytes && want->most_block && bytes > want->most_block)
            return pc__fail(PC_ERR_MISMATCH,
                            "block %zu: %llu bytes found, these tokens have at most %llu", i, bytes,
                            (unsigned long long)want->most_block);
    }
    return PC_OK;
}

pc_status pc__image_match(const pc__image *want, const pc__image *have)
{
    PC__TRY_RETURN(match_names(want, have));
    PC__TRY_RETURN(match_numbers(want, have));
    PC__TRY_RETURN(match_tokens(want, have));
    return match_blocks(want, have);
}
