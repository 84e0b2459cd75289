/* Catches: a segment that is used while it is read, and whose load fails halfway and continues in
 * another tier: layers that the second tier has put into other memory must not count as layers of
 * the first. */
#include "store/cache_internal.h"

#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "at_rest.h"
#include "slow_tier.h"
#include "testing.h"

enum { LAYERS = 5, LAYER_BYTES = 4096, TOKENS = 16, GOOD = 2 };

/* ------------------------------------------- states that repeat a number in each layer */

typedef struct state {
    uint8_t *layers[LAYERS];
    uint64_t bytes[LAYERS];
    pc__layer_stream *flow;
} state;

static atomic_int live, is_taken;

static state *new_state(uint8_t fill)
{
    state *s = calloc(1, sizeof *s);
    for (size_t l = 0; l < LAYERS; l++) {
        s->layers[l] = malloc(LAYER_BYTES);
        s->bytes[l] = LAYER_BYTES;
        memset(s->layers[l], fill, LAYER_BYTES);
    }
    atomic_fetch_add(&live, 1);
    return s;
}

static void release(void *owner, void *payload)
{
    state *s = payload;
    (void)owner;
    for (size_t l = 0; l < LAYERS; l++)
        free(s->layers[l]);
    free(s);
    atomic_fetch_sub(&live, 1);
}

static void ref_owner(void *owner)
{
    (void)owner;
}

static pc_status describe(void *owner, void *payload, pc__image *image, void **release_me)
{
    state *s = payload;
    (void)owner;
    *release_me = NULL;
    image->block_count = LAYERS;
    image->blocks = s->layers;
    image->block_bytes = s->bytes;
    return PC_OK;
}

static pc_status create(void *owner, const pc__image *image, void **payload, uint8_t **blocks)
{
    state *s = new_state(0);
    (void)owner, (void)image;
    memcpy(blocks, s->layers, sizeof s->layers);
    *payload = s;
    return PC_OK;
}

/* The first layer is there; the others wait until the test has the segment. */
static void block_ready(void *owner, void *payload, size_t index)
{
    struct timespec t = {0, 200000};
    (void)owner, (void)payload;
    for (double until = pc__now() + 10; !index && !atomic_load(&is_taken) && pc__now() < until;)
        nanosleep(&t, NULL);
}

static void set_layer_stream(void *owner, void *payload, pc__layer_stream *flow)
{
    (void)owner;
    ((state *)payload)->flow = flow;
}

static pc_status finish(void *owner, const pc__image *image, void **payload)
{
    (void)owner, (void)image, (void)payload;
    return PC_OK;
}

static const pc__payload_ops ops = {.release = release,
                                    .describe = describe,
                                    .create = create,
                                    .block_ready = block_ready,
                                    .set_layer_stream = set_layer_stream,
                                    .finish = finish};

/* ------------------------------------------------------------------ a load of two tiers */

static pc_cache *make_cache(pc_context *context, pc_faults *disk)
{
    static pc_faults none;
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc__tier *tiers[PC_TIER_COUNT] = {NULL};
    pc_cache *cache = NULL;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    o.deadline_seconds = 20;
    tiers[PC_TIER_DISK] = pc_slow_tier_new(pc_memory_tier_new(PC_TIER_DISK), disk);
    tiers[PC_TIER_REMOTE] = pc_slow_tier_new(pc_memory_tier_new(PC_TIER_REMOTE), &none);
    CHECK_OK(pc__cache_new_over(&cache, context, &o, tiers));
    return cache;
}

static pc__image image_of(const int32_t tokens[TOKENS])
{
    static const pc__id nothing;
    pc__image image = {.form.layout = PC_LAYOUT_APPLICATION,
                       .form.shape.dtype = PC_DTYPE_F32,
                       .form.shape.layers = LAYERS,
                       .tokens = TOKENS,
                       .token_ids = tokens};
    image.key = pc__segment_key(&nothing, NULL, 0, 0, tokens, NULL, TOKENS);
    return image;
}

static void keep(pc_cache *cache, const pc__image *image)
{
    pc_segment *segment = NULL;
    CHECK_OK(pc__segment_new(&segment, &pc__libc_allocator, &ops, new_state(7), &live,
                             LAYERS * LAYER_BYTES, image->token_ids, TOKENS));
    CHECK_OK(pc__cache_put_entry(cache, &(pc__entry_desc){.key = image->key, .cost = 1}, image,
                                 segment, NULL, NULL));
    pc__segment_unref(segment);
    CHECK_OK(pc_cache_flush(cache));
    pc_test_forget(cache);
}

static void another_tier_steps_in(void)
{
    pc_context *context = NULL;
    pc_faults disk = {0};
    pc_cache *cache;
    int32_t tokens[TOKENS] = {1, 2, 3};
    pc__image image = image_of(tokens);
    pc__entry_desc desc = {.key = image.key};
    pc__load_request want = {.image = &image,
                             .ops = &ops,
                             .owner = &live,
                             .ref_owner = ref_owner,
                             .bytes = LAYERS * LAYER_BYTES,
                             .desc = &desc};
    pc__entry_load *load = NULL;
    pc_segment *early = NULL, *whole = NULL;
    uint32_t reason, tier = PC_TIER_NONE;
    CHECK_OK(pc_context_new(&context, NULL));
    cache = make_cache(context, &disk);
    atomic_store(&is_taken, 1);
    keep(cache, &image);
    atomic_store(&is_taken, 0);
    atomic_store(&disk.good_blocks, GOOD);
    atomic_store(&disk.fail, 2);
    CHECK_OK(pc__cache_lookup_async(cache, &want, &load, &reason));
    CHECK(load && pc__load_await(load, pc__now() + 10, 1));
    CHECK_OK(pc__load_early(load, pc__now() + 10, &early, &tier));
    CHECK_INT(tier, PC_TIER_DISK);
    atomic_store(&is_taken, 1);
    CHECK_OK(pc__entry_load_wait(load, pc__now() + 10, &whole, &reason));
    CHECK_INT(pc__load_tier(load), PC_TIER_REMOTE);
    CHECK(whole && early && whole != early);
    if (early) {
        const state *s = early->payload;
        CHECK(s->flow
              && s->flow->await(s->flow, LAYERS - 1)
                     < 0); /* it never came here, although another tier has loaded it elsewhere */
        CHECK_INT(s->layers[LAYERS - 1][0], 0);
    }
    if (whole)
        for (size_t l = 0; l < LAYERS; l++)
            CHECK_INT(((const state *)whole->payload)->layers[l][LAYER_BYTES - 1], 7);
    CHECK_INT(pc__load_stream_error(load), PC_REASON_IO);
    pc__segment_unref(early);
    pc__segment_unref(whole);
    pc__load_drop(load);
    pc_cache_free(cache);
    pc_context_free(context);
    CHECK_INT(atomic_load(&live), 0);
}

int main(void)
{
    another_tier_steps_in();
    return pc_test_end();
}
