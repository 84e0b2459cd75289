/* Segments without a model, put to a tier and loaded from it as the store does it. */
#ifndef PC_REMOTE_ENTRIES_H
#define PC_REMOTE_ENTRIES_H

#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "redis_server.h"
#include "store/remote/remote_entry.h"
#include "store/tier.h"
#include "testing.h"

typedef struct sample {
    pc__image image;
    int32_t *tokens;
    uint8_t **blocks;
    uint64_t *sizes;
} sample;

static inline sample sample_make(uint64_t seed, size_t blocks, size_t bytes)
{
    sample s;
    pc_test_rng rng = {seed + 1};
    pc__digest d;
    memset(&s, 0, sizeof s);
    pc__digest_start(&d, "test/1");
    pc__digest_u64(&d, seed);
    s.image.key = pc__digest_end(&d);
    s.image.content = s.image.key;
    s.image.content.bytes[0] ^= 1;
    s.image.has_content = 1;
    strcpy(s.image.form.architecture, "test");
    s.image.form.layout = PC_LAYOUT_APPLICATION;
    s.image.form.shape.dtype = PC_DTYPE_BF16;
    s.image.cost = 1;
    s.image.tokens = 5 + (size_t)(seed % 7);
    s.tokens = calloc(s.image.tokens, sizeof *s.tokens);
    for (size_t i = 0; i < s.image.tokens; i++)
        s.tokens[i] = (int32_t)(seed * 31 + i);
    s.image.token_ids = s.tokens;
    s.image.block_count = blocks;
    s.blocks = calloc(blocks, sizeof(*s.blocks));
    s.sizes = calloc(blocks, sizeof *s.sizes);
    for (size_t b = 0; b < blocks; b++) {
        s.sizes[b] = bytes;
        s.blocks[b] = malloc(bytes + 8);
        for (size_t i = 0; i < bytes; i += 8) {
            uint64_t bits = pc_test_bits(&rng);
            memcpy(s.blocks[b] + i, &bits, 8);
        }
    }
    s.image.blocks = s.blocks;
    s.image.block_bytes = s.sizes;
    return s;
}

static inline void sample_free(sample *s)
{
    for (size_t b = 0; b < s->image.block_count; b++)
        free(s->blocks[b]);
    free(s->blocks);
    free(s->sizes);
    free(s->tokens);
}

/* Like a load of the store: open, read the header, match, read all blocks, report to the tier.
 * PC_OK only if every byte equals what was put. */
static inline pc_status sample_load(pc__tier *tier, const pc_allocator *mem,
                                    const pc__record_options *options, const sample *s,
                                    double seconds, int *timed_out)
{
    double started = pc__now();
    pc__source *source = NULL;
    pc__record *record = NULL;
    pc_status status = tier->ops->open(tier, &s->image.key, started + seconds, &source, timed_out);
    if (status != PC_OK)
        return status;
    PC__TRY(pc__record_open(&record, mem, options, source), done);
    PC__TRY(pc__image_match(&s->image, pc__record_image(record)), done);
    for (size_t b = 0; b < s->image.block_count && status == PC_OK; b++) {
        uint8_t *out = malloc((size_t)s->sizes[b] + 1);
        status = pc__record_block(record, b, out);
        if (status == PC_OK)
            CHECK(!memcmp(out, s->blocks[b], (size_t)s->sizes[b]));
        free(out);
    }
done:
    if (atomic_load(&source->timed_out))
        *timed_out = 1;
    tier->ops->read_done(tier, &s->image.key, status, source->bytes, pc__now() - started);
    pc__record_free(record);
    source->close(source);
    return status;
}

static inline pc_status sample_put(pc__tier *tier, const sample *s, double seconds,
                                   uint32_t *reason)
{
    return tier->ops->put(tier, &s->image, pc__now() + seconds, reason);
}

/* Moves the record that a writer with the options `from` has put to where a reader with the
 * options `to` looks. */
static inline void sample_move(const pc_redis *server, const sample *s,
                               const pc__record_options *from, const pc__record_options *to)
{
    pc__record_name names[2] = {pc__record_name_of(&s->image.key, from),
                                pc__record_name_of(&s->image.key, to)};
    pc__remote_name texts[2] = {pc__remote_entry_name(&names[0], 0, 0),
                                pc__remote_entry_name(&names[1], 0, 0)};
    if (strcmp(texts[0].text, texts[1].text) != 0)
        pc_redis_rename(server, texts[0].text, texts[1].text);
}

static inline void check_balance(pc__tier *tier)
{
    pc_tier_stats n = PC_TIER_STATS_INIT;
    tier->ops->stats(tier, &n);
    CHECK_INT(n.offered, n.stored + n.refused + n.failed + n.known);
    CHECK_INT(n.stored + n.found, n.segments + n.evicted + n.removed + n.lost);
    CHECK_INT(n.lookups, n.hits + n.misses + n.load_failed);
}

#endif
