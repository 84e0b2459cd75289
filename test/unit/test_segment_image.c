/* Catches: states that come back from blocks with a changed bit; bytes behind the last token that
 * are not zero (records of equal segments would differ, and show earlier contents of the memory);
 * loaded runs that a pass cannot use like computed ones; claims of a record that are believed;
 * accepted blocks of another model or shape; an application's import that leaks or releases memory
 * of others; states that stay in memory and should have been zeroed. */
#include "serve/segment_image.h"

#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "random_model.h"
#include "serve/model_calls.h"
#include "toy_schema.h"

enum { LAYERS = RANDOM_LAYERS, VOCAB = RANDOM_VOCAB, TOKENS = 100, STARTS_AT = 7 };

static pc_status make(pc_model **out, pc_context *context, uint32_t scheme, uint32_t compute,
                      uint32_t kv)
{
    /* heads of 18 are no multiple of 4: the pages have padding */
    return random_model_new(
        out, context,
        &(random_model){
            .scheme = scheme, .compute = compute, .kv = kv, .head_dim = 18, .context_length = 512});
}

/* 100 tokens, with a gap in their positions if it is asked for: two pages, the second one cut. */
static pc_segment *encode(const pc_model *model, int gap)
{
    int32_t ids[TOKENS];
    int64_t positions[TOKENS];
    pc_token_range whole = {0, TOKENS};
    pc_segment *segment = NULL;
    pc_encode_args args = {.struct_size = sizeof args,
                           .tokens = ids,
                           .positions = positions,
                           .count = TOKENS,
                           .ranges = &whole,
                           .range_count = 1};
    for (int i = 0; i < TOKENS; i++) {
        ids[i] = (i * 31 + 5) % VOCAB;
        positions[i] = STARTS_AT + i + (gap && i >= 40 ? 9 : 0);
    }
    CHECK_OK(pc__call_encode(model, NULL, &args, 1, &segment, &(double){0}));
    return segment;
}

static pc__image image_of(const pc_segment *segment, void **release_me)
{
    pc__image image = {0};
    CHECK_OK(segment->ops->describe(segment->owner, segment->payload, &image, release_me));
    image.token_ids = segment->token_ids;
    return image;
}

/* Bytes of a block that belong to no token, found with pc__kv_read's own layout: all that stays
 * zero when every token's values are set to ones. */
static void only_tokens_have_bytes(const pc__kv *kv, const pc__image *image)
{
    pc__kv_shape shape = kv->shape;
    pc__kv *mask = NULL;
    float ones[2 * 18];
    size_t wrong = 0, seen = 0;
    int64_t relative[TOKENS];
    for (int i = 0; i < 36; i++)
        ones[i] = -1.0039062f; /* no byte of it is zero in fp32, none in the 16-bit formats */
    for (int i = 0; i < TOKENS; i++)
        relative[i] = i;
    CHECK_OK(pc__kv_new(&mask, &pc__libc_allocator, &shape, TOKENS));
    CHECK_OK(pc__kv_append(mask, relative, TOKENS));
    for (int32_t l = 0; l < LAYERS; l++)
        for (size_t t = 0; t < TOKENS; t++)
            pc__kv_write(mask, l, t, ones, ones);
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t b = 0; b < image->block_bytes[l];
             b += 2) { /* 16 bits at a time: fp32's halves, both of -1.0039062 are not zero */
            uint16_t m, v;
            memcpy(&m, mask->layer[l] + b, 2);
            memcpy(&v, image->blocks[l] + b, 2);
            seen += m != 0;
            wrong += !m && v;
        }
    CHECK(seen > 0);
    CHECK_INT(wrong, 0);
    pc__kv_unref(mask);
}

static pc_status load(const pc_model *model, const pc__image *image, pc__kv **out)
{
    void *owner = (void *)(uintptr_t)model, *payload = NULL;
    uint8_t *blocks[LAYERS];
    pc_status status = pc__model_payload(owner)->create(owner, image, &payload, blocks);
    *out = NULL;
    if (status < 0)
        return status;
    for (size_t b = 0; b < image->block_count; b++)
        memcpy(blocks[b], image->blocks[b], (size_t)image->block_bytes[b]);
    if (pc__model_payload(owner)->finish)
        status = pc__model_payload(owner)->finish(owner, image, &payload);
    if (status < 0)
        pc__model_payload(owner)->release(owner, payload);
    else
        *out = payload;
    return status;
}

static int same_run(const pc__kv *a, const pc__kv *b)
{
    int same = a->tokens == b->tokens && a->rope_regime == b->rope_regime
               && !a->relative == !b->relative;
    size_t bytes = pc__kv_layer_bytes(&a->shape, a->tokens);
    for (size_t t = 0; same && t < a->tokens; t++)
        same = pc__kv_relative(a, t) == pc__kv_relative(b, t);
    for (int32_t l = 0; same && l < a->shape.layers; l++)
        same = !memcmp(a->layer[l], b->layer[l], bytes);
    return same;
}

/* Logits of three new tokens behind a run. */
static void answer(const pc_model *model, pc__kv *kv, float *logits)
{
    pc_span at = {kv, STARTS_AT, 0, TOKENS};
    void *sequence = NULL;
    pc_step_row rows[3] = {{NULL, 200, 1, 0}, {NULL, 201, 2, 0}, {NULL, 202, 3, 1}};
    pc_step_args args = {.struct_size = sizeof args, .rows = rows, .count = 3, .logits = logits};
    CHECK_OK(pc__native_sequence_new(model->user, NULL, &sequence));
    CHECK_OK(pc__native_attach(model->user, sequence, &at));
    for (int i = 0; i < 3; i++)
        rows[i].sequence = sequence;
    CHECK_OK(pc__native_step(model->user, &args));
    pc__native_drop(model->user, sequence);
}

static int borrowed;

static void end_borrow(void *memory_owner)
{
    CHECK(memory_owner == &borrowed);
    borrowed--;
}

static void adopted(const pc_model *model, const pc__image *image, const pc__kv *kv)
{
    void *owner = (void *)(uintptr_t)model, *payload = NULL;
    const void *blocks[LAYERS];
    uint8_t *copies[LAYERS];
    float want[VOCAB], got[VOCAB];
    int64_t next = 1000;
    for (size_t l = 0; l < LAYERS; l++) {
        copies[l] = aligned_alloc(64, (size_t)image->block_bytes[l]);
        memcpy(copies[l], image->blocks[l], (size_t)image->block_bytes[l]);
        blocks[l] = copies[l];
    }
    borrowed = 1;
    CHECK_OK(pc__model_payload(owner)->wrap_memory(owner, image, blocks, &borrowed, end_borrow,
                                                   &payload));
    CHECK(same_run(payload, kv));
    CHECK(((pc__kv *)payload)->layer[1] == copies[1]);
    CHECK(pc__kv_bytes(payload) < image->block_bytes[0]);
    CHECK_STATUS(pc__kv_append(payload, &next, 1), PC_ERR_STATE);
    answer(model, (pc__kv *)(uintptr_t)kv, want);
    answer(model, payload, got);
    CHECK(!memcmp(want, got, sizeof want));
    CHECK_INT(borrowed, 1);
    pc__model_payload(owner)->zero_memory(owner, payload);
    pc__model_payload(owner)->release(owner, payload);
    CHECK_INT(borrowed, 0);
    CHECK(!memcmp(copies[0], image->blocks[0],
                  (size_t)image->block_bytes[0])); /* not ours to overwrite */
    /* not zero behind its tokens: dimension 0 of token 63 of the last V page */
    size_t by = kv->shape.dtype == PC_DTYPE_F32 ? 1 : kv->shape.dtype == PC_DTYPE_I8 ? 4 : 2;
    size_t last = pc__kv_k_bytes(&kv->shape) + (63 / by * 18 * by + 63 % by) * (4 / by);
    last += pc__kv_layer_bytes(&kv->shape, TOKENS) - pc__kv_page_bytes(&kv->shape);
    uint8_t was = copies[2][last];
    copies[2][last] = 1;
    borrowed = 1;
    CHECK_OK(pc__model_payload(owner)->wrap_memory(owner, image, blocks, &borrowed, end_borrow,
                                                   &payload));
    for (size_t l = 0; l < LAYERS; l++)
        pc__model_payload(owner)->block_ready(owner, payload, l);
    CHECK(!copies[2][last] && !was);
    for (size_t l = 0; l < LAYERS; l++)
        CHECK(!memcmp(copies[l], image->blocks[l], (size_t)image->block_bytes[l]));
    pc__model_payload(owner)->release(owner, payload);
    CHECK_INT(borrowed, 0);
    borrowed = 1;
    blocks[1] = copies[1] + 16;
    CHECK_STATUS(pc__model_payload(owner)->wrap_memory(owner, image, blocks, &borrowed, end_borrow,
                                                       &payload),
                 PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("aligned");
    CHECK(!payload);
    CHECK_INT(borrowed, 1); /* still borrowed */
    for (size_t l = 0; l < LAYERS; l++)
        free(copies[l]);
}

static void round_trip(pc_context *context, uint32_t scheme, uint32_t compute, uint32_t kept,
                       int gap)
{
    pc_model *model = NULL;
    pc__kv *loaded = NULL;
    void *release_me = NULL;
    float want[VOCAB], got[VOCAB];
    if (!CHECK_OK(make(&model, context, scheme, compute, kept)))
        return;
    pc_segment *segment = encode(model, gap);
    pc__kv *kv = segment->payload;
    pc__image image = image_of(segment, &release_me);
    CHECK_INT(image.form.layout, PC_LAYOUT_PAGES);
    CHECK_INT(image.block_count, LAYERS);
    CHECK_INT(image.tokens, TOKENS);
    CHECK_INT(image.form.origin, scheme == PC_POSITION_LEARNED ? STARTS_AT : 0);
    CHECK_INT(image.block_bytes[0], 2 * 2 * pc__kv_page_bytes(&kv->shape));
    CHECK(!image.relative == !gap);
    if (kv->shape.dtype != PC_DTYPE_I8)
        only_tokens_have_bytes(kv, &image);
    CHECK_OK(load(model, &image, &loaded));
    CHECK(same_run(loaded, kv));
    answer(model, kv, want);
    answer(model, loaded, got);
    CHECK(!memcmp(want, got, sizeof want));
    adopted(model, &image, kv);
    pc__kv_unref(loaded);
    pc__free(&context->mem, release_me);
    pc__segment_unref(segment);
    pc__model_unref(model);
}

static void refused(const pc_model *model, const pc__image *image, const char *what)
{
    pc__kv *kv;
    CHECK_STATUS(load(model, image, &kv), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS(what);
    CHECK(!kv);
}

static void foreign_blocks(pc_context *context)
{
    pc_model *model = NULL;
    void *release_me = NULL;
    uint64_t sizes[LAYERS];
    int64_t relative[TOKENS];
    if (!CHECK_OK(make(&model, context, PC_POSITION_ROPE, PC_DTYPE_F32, 0)))
        return;
    pc_segment *segment = encode(model, 0);
    pc__image image = image_of(segment, &release_me), bad = image;
    bad.form.model[3] ^= 1;
    refused(model, &bad, "model");
    bad = image;
    bad.form.layout = PC_LAYOUT_MODEL;
    refused(model, &bad, "layout");
    bad = image;
    bad.form.shape.dtype = PC_DTYPE_BF16;
    refused(model, &bad, "shape");
    bad = image;
    bad.form.shape.kv_heads = 1;
    refused(model, &bad, "shape");
    bad = image;
    bad.block_count = LAYERS - 1;
    refused(model, &bad, "shape");
    bad = image;
    bad.tokens = 200;
    refused(model, &bad, "size of a block");
    bad = image;
    bad.tokens = 0;
    refused(model, &bad, "number of tokens");
    bad = image;
    memcpy(sizes, image.block_bytes, sizeof sizes);
    sizes[2] += 64;
    bad.block_bytes = sizes;
    refused(model, &bad, "size of a block");
    bad = image;
    for (int i = 0; i < TOKENS; i++)
        relative[i] = i == 50 ? 49 : i;
    bad.relative = relative;
    refused(model, &bad, "token 50");
    pc__free(&context->mem, release_me);
    pc__segment_unref(segment);
    pc__model_unref(model);
}

/* What is expected before there is a segment is what the segment then is. */
static void expectations(pc_context *context)
{
    pc_model *model = NULL;
    void *release_me = NULL;
    pc__id key = {{1}}, salt = {{2}}, parent = {{3}};
    if (!CHECK_OK(make(&model, context, PC_POSITION_LEARNED, PC_DTYPE_F32, 0)))
        return;
    pc_segment *segment = encode(model, 0);
    pc__segment_facts facts = {.key = &key,
                               .salt = &salt,
                               .parent = &parent,
                               .start = STARTS_AT,
                               .tokens = segment->token_ids,
                               .count = TOKENS};
    pc__image want, have;
    pc__segment_image(&want, model, &facts);
    have = want;
    CHECK_OK(pc__model_payload(model)->describe(model, segment->payload, &have, &release_me));
    CHECK_OK(pc__image_match(&want, &have));
    CHECK(pc__id_equal(&have.parent, &parent) && have.has_parent && !have.has_content);
    CHECK_INT(pc__segment_bytes(model, TOKENS), pc__kv_bytes(segment->payload));
    facts.start = STARTS_AT + 1; /* learned positions cannot be moved */
    pc__segment_image(&want, model, &facts);
    CHECK_STATUS(pc__image_match(&want, &have), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("origin");
    pc__free(&context->mem, release_me);
    pc__segment_unref(segment);
    pc__model_unref(model);
}

/* An allocator whose `free` searches the memory for a byte pattern. */
typedef struct watcher {
    const uint8_t *pattern;
    int found, frees;
} watcher;

static void *watch_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    return aligned_alloc(align < 64 ? 64 : align, (size + 63) / 64 * 64);
}

static void watch_free(void *user, void *ptr, size_t size, size_t align)
{
    watcher *w = user;
    (void)align;
    w->frees++;
    for (size_t i = 0; w->pattern && ptr && i + 16 <= size; i++)
        w->found += !memcmp((uint8_t *)ptr + i, w->pattern, 16);
    free(ptr);
}

static void wiping(void)
{
    for (int wiped = 0; wiped < 2; wiped++) {
        watcher w = {0};
        uint8_t pattern[16];
        pc_allocator mem = {sizeof(pc_allocator), &w, watch_alloc, watch_free};
        pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context = NULL;
        pc_model *model = NULL;
        o.allocator = &mem;
        o.threads = 1;
        CHECK_OK(pc_context_new(&context, &o));
        if (!CHECK_OK(make(&model, context, PC_POSITION_ROPE, PC_DTYPE_F32, 0)))
            return;
        pc_segment *segment = encode(model, 0);
        pc__kv *kv = pc__kv_ref(segment->payload); /* as a running sequence has it */
        memcpy(pattern, kv->layer[1] + 64, sizeof pattern);
        w.pattern = pattern;
        atomic_store(&segment->zero_memory, (unsigned)wiped);
        pc__segment_unref(segment);
        CHECK(!memcmp(kv->layer[1] + 64, pattern,
                      sizeof pattern)); /* who still reads is left alone */
        pc__kv_unref(kv);
        CHECK_INT(w.found > 0, !wiped);
        w.pattern = NULL;
        pc__model_unref(model);
        pc_context_free(context);
    }
}

static pc_segment *encode_toy(const pc_model *model)
{
    int32_t ids[5] = {10, 11, 12, 13, 14};
    int64_t positions[5] = {3, 4, 5, 6, 7};
    pc_token_range whole = {0, 5};
    pc_segment *segment = NULL;
    pc_encode_args args = {.struct_size = sizeof args,
                           .tokens = ids,
                           .positions = positions,
                           .count = 5,
                           .ranges = &whole,
                           .range_count = 1};
    CHECK_OK(pc__call_encode(model, NULL, &args, 1, &segment, &(double){0}));
    return segment;
}

/* What a record may claim follows from the model and the tokens. */
static void check_claims(pc_model *model, const pc__segment_facts *facts, const pc__image *image)
{
    const pc_model_info info = model->info;
    uint64_t much = UINT64_C(1) << 40;
    pc__image want, claims = *image;
    claims.block_bytes = &much;
    pc__segment_image(&want, model, facts);
    CHECK(want.most_block >= image->block_bytes[0]);
    CHECK_STATUS(pc__image_match(&want, &claims), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("have at most");
    model->info.kv_bytes_per_token = 0;
    model->info.layers = 0;
    pc__segment_image(&want, model, facts);
    CHECK_INT(want.most_block, 0); /* store/cache_load_read.c says what then holds */
    model->info = info;
}

static void hosts_model(void)
{
    toy_world w;
    void *release_me = NULL, *payload = NULL;
    uint8_t *block = NULL;
    pc__id key = {{1}}, salt = {{2}};
    pc__image want;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    pc_segment *segment = encode_toy(w.model);
    pc__image image = image_of(segment, &release_me);
    pc__segment_facts facts = {
        .key = &key, .salt = &salt, .start = 3, .tokens = segment->token_ids, .count = 5};
    image.tokens = 5;
    image.key = key;
    image.salt = salt;
    CHECK_INT(image.form.layout, PC_LAYOUT_MODEL);
    CHECK_INT(image.block_count, 1);
    pc__segment_image(&want, w.model, &facts);
    CHECK_OK(pc__image_match(&want, &image));
    check_claims(w.model, &facts, &image);
    for (int failing = 0; failing < 2; failing++) {
        pc_toy_count(w.toy)->fail_import_at = failing ? pc_toy_count(w.toy)->import_calls + 1 : 0;
        CHECK_OK(pc__model_payload(w.model)->create(w.model, &image, &payload, &block));
        memcpy(block, image.blocks[0], (size_t)image.block_bytes[0]);
        CHECK_STATUS(pc__model_payload(w.model)->finish(w.model, &image, &payload),
                     failing ? PC_ERR_IO : PC_OK);
        if (failing)
            CHECK_ERROR_HAS("import_segment");
        CHECK_INT(pc_toy_count(w.toy)->live_segments, failing ? 1 : 2);
        pc__model_payload(w.model)->release(w.model, payload);
        CHECK_INT(pc_toy_count(w.toy)->live_segments, 1);
    }
    /* never finished */
    CHECK_OK(pc__model_payload(w.model)->create(w.model, &image, &payload, &block));
    pc__model_payload(w.model)->release(w.model, payload);
    CHECK(!w.model->imports);
    CHECK(!pc__model_payload(w.model)->wrap_memory); /* it imports its states, by copy */
    pc__free(&w.context->mem, release_me);
    w.model->ops.export_segment = NULL;
    CHECK_STATUS(
        pc__model_payload(w.model)->describe(w.model, segment->payload, &image, &release_me),
        PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("export_segment");
    CHECK(!release_me);
    pc__segment_unref(segment);
    toy_end(&w);
}

static void one_of_both(void)
{
    pc_model_ops ops = pc_toy_ops();
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_toy *toy = pc_toy_new(1, 0, 0);
    CHECK_OK(pc_context_new(&context, NULL));
    ops.import_segment = NULL;
    CHECK_STATUS(pc_model_from_ops(&model, context, &ops, toy, NULL, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("import_segment");
    pc_context_free(context);
    pc_toy_free(toy);
}

/* A native model's states as an application reads and stores them. */
static void by_hand(pc_context *context)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    pc_segment *found = NULL;
    pc_raw raw = PC_RAW_INIT, back = PC_RAW_INIT;
    pc_get_info info = PC_GET_INFO_INIT;
    const uint8_t key[32] = {7};
    toy_world w;
    if (!CHECK_OK(make(&model, context, PC_POSITION_ROPE, PC_DTYPE_BF16, 0)))
        return;
    pc_segment *segment = encode(model, 1);
    pc__kv *kv = segment->payload;
    CHECK_OK(pc_segment_raw(segment, &raw));
    CHECK(raw.model == model->info.fingerprint && !strcmp(raw.architecture, "test"));
    CHECK_INT(raw.layout, PC_LAYOUT_PAGES);
    CHECK_INT(raw.dtype, PC_DTYPE_BF16);
    CHECK_INT(raw.layers * 100 + raw.kv_heads, 302);
    CHECK_INT(raw.block_count, LAYERS);
    CHECK(raw.blocks[2] == kv->layer[2]
          && raw.block_bytes[2] == pc__kv_layer_bytes(&kv->shape, TOKENS));
    CHECK(raw.relative == kv->relative && raw.token_count == TOKENS
          && raw.tokens == segment->token_ids);
    o.disk_path = pc_test_folder();
    CHECK_OK(pc_cache_new(&cache, context, &o));
    CHECK_OK(pc_cache_put(cache, key, segment, NULL));
    pc_cache_free(cache);
    CHECK_OK(pc_cache_new(&cache, context, &o));
    CHECK_OK(pc_cache_get(&found, cache, key, &raw, 0, &info));
    CHECK_INT(info.tier, PC_TIER_DISK);
    if (found && CHECK_OK(pc_segment_raw(found, &back)) && CHECK_INT(back.block_count, LAYERS))
        for (size_t b = 0; b < LAYERS; b++)
            CHECK(back.block_bytes[b] == raw.block_bytes[b] && back.blocks[b] != raw.blocks[b]
                  && !memcmp(back.blocks[b], raw.blocks[b], (size_t)raw.block_bytes[b]));
    CHECK(!found || !pc__segment_model(found)); /* for its owner's use, not for sequences */
    pc_segment_free(found);
    pc_cache_free(cache);
    pc__segment_unref(segment);
    pc__model_unref(model);
    if (CHECK(toy_start(&w, NULL, 0, 0, NULL))) {
        segment = encode_toy(w.model);
        CHECK_STATUS(pc_segment_raw(segment, &raw), PC_ERR_UNSUPPORTED);
        CHECK_ERROR_HAS("the owner of this segment does not show its states");
        pc__segment_unref(segment);
    }
    toy_end(&w);
}

/* Every allocation of a round trip fails once. */
static void out_of_memory(void)
{
    pc_context *maker = NULL;
    pc_model *model = NULL;
    void *release_me = NULL;
    uint64_t calls = 1;
    CHECK_OK(pc_context_new(&maker, NULL));
    if (!CHECK_OK(make(&model, maker, PC_POSITION_ROPE, PC_DTYPE_F32, 0)))
        return;
    pc_segment *segment = encode(model, 1);
    pc__image image = image_of(segment, &release_me);
    for (uint64_t at = 1; at <= calls; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator real = maker->mem;
        pc__image again = {0};
        pc__kv *kv = NULL;
        void *table = NULL;
        maker->mem = pc_test_allocator(&memory);
        pc_status status = load(model, &image, &kv);
        if (status >= 0)
            status = pc__model_payload(model)->describe(model, kv, &again, &table);
        if (status >= 0 && !pc__kv_sizes(kv))
            status = PC_ERR_NOMEM;
        CHECK_STATUS(status, memory.calls >= at ? PC_ERR_NOMEM : PC_OK);
        pc__free(&maker->mem, table);
        pc__kv_unref(kv);
        CHECK_INT(memory.live_blocks, 0);
        calls = memory.calls >= at ? at + 1 : at;
        maker->mem = real;
    }
    CHECK(calls > 5); /* run, layers, slab, positions, sizes */
    pc__free(&maker->mem, release_me);
    pc__segment_unref(segment);
    pc__model_unref(model);
    pc_context_free(maker);
}

int main(void)
{
    static const uint32_t schemes[] = {PC_POSITION_ROPE, PC_POSITION_ALIBI, PC_POSITION_LEARNED};
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    for (int s = 0; s < 3; s++)
        for (int gap = 0; gap < 2; gap++) {
            round_trip(context, schemes[s], PC_DTYPE_F32, 0, gap);
            round_trip(context, schemes[s], PC_DTYPE_F32, PC_DTYPE_BF16, gap);
            round_trip(context, schemes[s], PC_DTYPE_F32, PC_DTYPE_F16, gap);
            round_trip(context, schemes[s], PC_DTYPE_F32, PC_DTYPE_I8, gap);
            round_trip(context, schemes[s], PC_DTYPE_BF16, 0, gap);
        }
    foreign_blocks(context);
    expectations(context);
    by_hand(context);
    pc_context_free(context);
    wiping();
    hosts_model();
    one_of_both();
    out_of_memory();
    return pc_test_end();
}
