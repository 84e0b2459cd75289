/* Digests keys (key.h). */
#include "store/key.h"
#include <promptcache/cache.h>

pc__id pc__base_key(const pc_key_parts *parts)
{
    static const uint8_t zeros[32];
    pc__digest d;
    pc__digest_start(&d, "base/1");
    pc__digest_bytes(&d, parts->model, 32);
    pc__digest_bytes(&d, parts->adapter, parts->adapter ? 32 : 0);
    pc__digest_bytes(&d, parts->tokenizer ? parts->tokenizer : zeros, 32);
    pc__digest_u64(&d, parts->position_scheme);
    pc__digest_u64(&d, parts->rope_regime);
    pc__digest_u64(&d, parts->dtype);
    pc__digest_u64(&d, parts->layout);
    pc__digest_u64(&d, parts->encoding);
    pc__digest_bytes(&d, parts->salt, parts->salt_size);
    return pc__digest_end(&d);
}

pc__id pc__segment_key(const pc__id *base, const pc__id *parent, int64_t distance, int64_t offset,
                       const int32_t *tokens, const int64_t *relative, size_t count)
{
    static const pc__id nothing;
    pc__digest d;
    /* A short name, so that a block of 64 tokens takes three blocks of BLAKE2b. */
    pc__digest_start(&d, "seg/1");
    pc__digest_bytes(&d, base->bytes, sizeof base->bytes);
    pc__digest_bytes(&d, parent ? parent->bytes : nothing.bytes, sizeof nothing.bytes);
    pc__digest_u64(&d, parent ? (uint64_t)distance : 0);
    pc__digest_u64(&d, (uint64_t)offset);
    pc__digest_i32(&d, tokens, count);
    pc__digest_u64(&d, relative ? count : 0);
    for (size_t i = 0; relative && i < count; i++)
        pc__digest_u64(&d, (uint64_t)relative[i]);
    return pc__digest_end(&d);
}
