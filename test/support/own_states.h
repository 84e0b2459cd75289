/* States of an application's runtime, by number: put into a cache under a salt, and looked for. */
#ifndef PC_TEST_OWN_STATES_H
#define PC_TEST_OWN_STATES_H

#include <promptcache/bench.h>
#include <promptcache/extend.h>
#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

typedef struct own_states {
    uint8_t model[32], key[32];
    int32_t token;
    uint8_t *block;
    uint64_t bytes;
    pc_raw raw;
} own_states;

static inline pc_context *own_context(void)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    o.threads = 1;
    CHECK_OK(pc_context_new(&context, &o));
    return context;
}

/* Fills *s, which must stay where it is; bytes do not compress. */
static inline void own_make(own_states *s, const char *salt, int32_t number, uint64_t bytes)
{
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    uint8_t base[32];
    memset(s, 0, sizeof *s);
    s->model[0] = 7;
    s->token = number;
    s->bytes = bytes;
    parts.model = s->model;
    parts.layout = PC_LAYOUT_APPLICATION;
    parts.salt = salt && *salt ? salt : NULL;
    parts.salt_size = salt ? strlen(salt) : 0;
    CHECK_OK(pc_key_base(base, &parts));
    CHECK_OK(pc_key_segment(s->key, &(pc_key_segment_args){sizeof(pc_key_segment_args), base, NULL,
                                                           0, 0, &s->token, NULL, 1}));
    s->raw = (pc_raw)PC_RAW_INIT;
    s->raw.model = s->model;
    strcpy(s->raw.architecture, "own");
    s->raw.dtype = PC_DTYPE_F32;
    s->raw.layout = PC_LAYOUT_APPLICATION;
    s->raw.tokens = &s->token;
    s->raw.token_count = 1;
    s->raw.blocks = (const void *const *)(void *const *)(void *)&s->block;
    s->raw.block_bytes = &s->bytes;
    s->raw.block_count = 1;
}

static inline void own_free_block(void *block)
{
    free(block);
}

/* A segment with memory of its own. */
static inline pc_segment *own_segment(own_states *s, pc_context *context)
{
    pc_test_rng rng = {(uint64_t)s->token + 1};
    pc_segment *segment = NULL;
    s->block = malloc((size_t)s->bytes + 8);
    for (size_t i = 0; i < s->bytes; i += 8) {
        uint64_t bits = pc_test_bits(&rng);
        memcpy(s->block + i, &bits, 8);
    }
    CHECK_OK(pc_segment_wrap(&segment, context, &s->raw, own_free_block, s->block));
    return segment;
}

static inline pc_status own_put(pc_cache *cache, pc_context *context, const char *salt,
                                int32_t number, uint64_t bytes, uint64_t flags)
{
    pc_put_options o = PC_PUT_OPTIONS_INIT;
    own_states s;
    pc_segment *segment;
    pc_status status;
    (void)flags;
    own_make(&s, salt, number, bytes);
    segment = own_segment(&s, context);
    o.cost_seconds = 1;
    o.flags = flags;
    o.salt = s.token >= 0 && salt && *salt ? salt : NULL;
    o.salt_size = o.salt ? strlen(salt) : 0;
    status = pc_cache_put(cache, s.key, segment, &o);
    pc_segment_free(segment);
    return status;
}

static inline pc_status own_get(pc_cache *cache, const char *salt, int32_t number, uint64_t bytes)
{
    own_states s;
    pc_segment *segment = NULL;
    pc_status status;
    own_make(&s, salt, number, bytes);
    status = pc_cache_get(&segment, cache, s.key, &s.raw, 0, NULL);
    pc_segment_free(segment);
    return status;
}

#endif
