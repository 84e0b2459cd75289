/* An application's own model whose states go to tiers layer by layer. Catches: states that come
 * back changed from records without loss, at another place or to another model; a codec for pages
 * that does not take them, or results that do not say that it did; whole segments that are exported
 * at once; layers that come out of order or from two threads at a time; a layer that fails and
 * takes the request with it, or leaves half a segment behind; states that are taken for those of
 * other kernels; a shape that cannot become pages; a failed allocation that leaks. */
#include <stdatomic.h>
#include <stdlib.h>

#include <promptcache/cache.h>

#include "serve/segment_image.h"
#include "toy_schema.h"

static const char prompt_text[] =
    "<prompt schema=\"t\"><a x=\"hot\"/><u2/><n><in/></n>what is it?</prompt>";

/* ------------------------------------------------------------------ formats */

enum { STUB_LAYERS = 2, STUB_HEADS = 3, STUB_DIM = 7, STUB_TOKENS = 70 };

/* A model that only holds numbers, of any format. */
typedef struct stub {
    uint8_t k[STUB_LAYERS][STUB_TOKENS * STUB_HEADS * STUB_DIM * 4];
    uint8_t v[STUB_LAYERS][STUB_TOKENS * STUB_HEADS * STUB_DIM * 4];
} stub;

static uint32_t stub_dtype;

static size_t stub_bytes(void)
{
    return (size_t)STUB_TOKENS * STUB_HEADS * STUB_DIM * (stub_dtype == PC_DTYPE_F32 ? 4 : 2);
}

static pc_status stub_describe(void *user, pc_model_info *info)
{
    (void)user;
    info->vocab = 10;
    info->layers = STUB_LAYERS;
    info->heads = info->kv_heads = STUB_HEADS;
    info->head_dim = STUB_DIM;
    info->compute = stub_dtype;
    return PC_OK;
}

static pc_status stub_export(void *user, void *segment, const pc_layer_states *states)
{
    const stub *s = segment;
    (void)user;
    memcpy(states->k, s->k[states->layer], stub_bytes());
    memcpy(states->v, s->v[states->layer], stub_bytes());
    return PC_OK;
}

static pc_status stub_import(void *user, const pc_layer_states *states, void **segment)
{
    stub *s = *segment ? *segment : calloc(1, sizeof *s);
    (void)user;
    CHECK(states->dtype == stub_dtype && states->k_dim == STUB_DIM && states->v_dim == STUB_DIM
          && states->kv_heads == STUB_HEADS && states->count == STUB_TOKENS);
    *segment = s;
    memcpy(s->k[states->layer], states->k, stub_bytes());
    memcpy(s->v[states->layer], states->v, stub_bytes());
    return PC_OK;
}

static void stub_release(void *user, void *segment)
{
    (void)user;
    free(segment);
}

/* Out and in again, blocks in the other order. */
static void formats(pc_context *context)
{
    static int32_t ids[STUB_TOKENS];
    pc_model_ops ops = pc_toy_layer_ops();
    pc_model *model = NULL;
    pc__image image = {.tokens = STUB_TOKENS, .token_ids = ids}, want;
    void *release_me = NULL, *payload = NULL;
    uint8_t *blocks[STUB_LAYERS];
    stub *from = calloc(1, sizeof *from), *to;
    pc_test_rng rng = {stub_dtype};
    ops.describe = stub_describe;
    ops.release = stub_release;
    ops.export_layer = stub_export;
    ops.import_layer = stub_import;
    for (size_t i = 0; i < sizeof *from / 4; i++) {
        uint32_t bits = (uint32_t)pc_test_bits(&rng) & 0xbbffbbff; /* finite in each format */
        memcpy((uint8_t *)from + 4 * i, &bits, 4);
    }
    CHECK_OK(pc_model_from_ops(&model, context, &ops, NULL, NULL, NULL));
    const pc__payload_ops *table = pc__model_payload(model);
    CHECK_OK(table->describe(model, from, &image, &release_me));
    CHECK(image.block_count == STUB_LAYERS && !image.blocks && image.fetch);
    CHECK_INT(image.form.layout, PC_LAYOUT_MODEL_PAGES);
    want = image;
    want.fetch = NULL;
    CHECK_OK(table->create(model, &want, &payload, blocks));
    for (size_t l = STUB_LAYERS; l--;) {
        const void *data;
        CHECK_OK(image.fetch(image.fetch_from, l, &data));
        memcpy(blocks[l], data, (size_t)image.block_bytes[l]);
        table->block_ready(model, payload, l);
    }
    CHECK_OK(table->finish(model, &want, &payload));
    to = payload;
    for (int l = 0; l < STUB_LAYERS; l++)
        CHECK(!memcmp(from->k[l], to->k[l], stub_bytes())
              && !memcmp(from->v[l], to->v[l], stub_bytes()));
    table->release(model, payload);
    /* given up on the way: the half segment is released */
    CHECK_OK(table->create(model, &want, &payload, blocks));
    table->block_ready(model, payload, 0);
    table->release(model, payload);
    want.form.shape.kv_heads++;
    CHECK_STATUS(table->create(model, &want, &payload, blocks), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("shape");
    pc__free(&model->context->mem, release_me);
    stub_release(NULL, from);
    pc_model_free(model);
}

/* ------------------------------------------------------------------ tiers */

static pc_cache *open_cache(pc_context *context, const char *folder, uint32_t codec)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.disk_path = folder;
    o.disk_codec = codec;
    o.flags = PC_CACHE_ALWAYS_LOAD | PC_CACHE_OWN_KERNELS;
    o.io_threads = 3;
    o.deadline_seconds = 20;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    return cache;
}

static toy_answer ask(const pc_prompt *prompt, pc_cache *cache)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = 5;
    toy_answer a = toy_generate(prompt, cache, o);
    CHECK_OK(a.status);
    return a;
}

static const char *folder_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", pc_test_folder(), name);
    return path;
}

static uint64_t disk_bytes(pc_cache *cache)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &s));
    CHECK_INT(s.failed, 0);
    return s.segment_bytes;
}

/* Watches how the functions are called. */
static pc_model_ops toy;
static atomic_int inside, most_inside, incomplete;

static pc_status watched_export(void *user, void *segment, const pc_layer_states *states)
{
    if (!states->k || !states->v || !states->count || !states->tokens)
        incomplete++; /* threads of the cache cannot CHECK */
    return toy.export_layer(user, segment, states);
}

static pc_status watched_import(void *user, const pc_layer_states *states, void **segment)
{
    int now = ++inside;
    if (now > most_inside)
        most_inside = now;
    pc_status status = toy.import_layer(user, states, segment);
    inside--;
    return status;
}

static int start(toy_world *w, const pc_allocator *mem, int learned)
{
    pc_model_ops ops = toy = pc_toy_layer_ops();
    ops.export_layer = watched_export;
    ops.import_layer = watched_import;
    most_inside = 0;
    return CHECK(toy_start_ops(w, mem, &ops, learned, 0, toy_schema));
}

/* A second cache imports what the first one has written. */
static uint64_t there_and_back(uint32_t codec, int lossy, int learned, const char *name)
{
    toy_world w;
    uint64_t bytes = 0;
    const char *folder = folder_of(name);
    if (!start(&w, NULL, learned))
        return 0;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    toy_answer plain = ask(prompt, NULL);
    for (int life = 0; life < 2; life++) {
        uint64_t calls = pc_toy_count(w.toy)->layer_calls;
        pc_cache *cache = open_cache(w.context, folder, codec);
        toy_answer a = ask(prompt, cache);
        CHECK_INT(a.stats.tokens_tier[PC_TIER_DISK], life ? a.stats.tokens_cached : 0);
        CHECK((a.stats.tokens_cached > 0) == life);
        CHECK_INT(a.stats.lossy, life && lossy);
        CHECK_INT(a.stats.exactness, life && lossy ? PC_APPROXIMATE : plain.stats.exactness);
        CHECK_INT(a.stats.other_kernels, 0);
        if (!lossy)
            CHECK_STR(a.text[0], plain.text[0]);
        CHECK_OK(pc_cache_flush(cache));
        bytes = disk_bytes(cache);
        pc_cache_free(cache);
        CHECK(pc_toy_count(w.toy)->layer_calls > calls);
        CHECK_INT(pc_toy_count(w.toy)->live_segments, 0);
    }
    CHECK_INT(incomplete, 0);
    CHECK_INT(most_inside, 1); /* the model has not allowed more */
    pc_prompt_free(prompt);
    toy_end(&w);
    return bytes;
}

/* Each call of the functions fails once: an export writes less, an import computes the part. */
static void failing_layers(void)
{
    for (uint64_t at = 1;; at++) {
        toy_world w;
        char name[32];
        snprintf(name, sizeof name, "failing%d", (int)at);
        if (!start(&w, NULL, 0))
            return;
        pc_prompt *prompt = toy_prompt(&w, prompt_text);
        toy_answer plain = ask(prompt, NULL);
        pc_toy_counts *counts = pc_toy_count(w.toy);
        counts->fail_layer_at = at;
        for (int life = 0; life < 2; life++) {
            pc_cache *cache = open_cache(w.context, folder_of(name), PC_CODEC_RAW);
            CHECK_STR(ask(prompt, cache).text[0], plain.text[0]);
            pc_cache_free(cache);
            CHECK_INT(counts->live_segments, 0);
        }
        int done = counts->layer_calls < at;
        pc_prompt_free(prompt);
        toy_end(&w);
        if (done) {
            CHECK(at > 8);
            break;
        }
    }
}

/* Layer 1 of a segment is never taken: that segment is computed, and the half one is released. */
static pc_status never_the_second(void *user, const pc_layer_states *states, void **segment)
{
    if (states->layer == 1)
        return PC_ERR_STATE;
    return toy.import_layer(user, states, segment);
}

static void half_segments(void)
{
    toy_world w;
    const char *folder = folder_of("half");
    pc_model_ops ops = toy = pc_toy_layer_ops();
    ops.import_layer = never_the_second;
    if (!CHECK(toy_start_ops(&w, NULL, &ops, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    for (int life = 0; life < 2; life++) {
        pc_cache *cache = open_cache(w.context, folder, PC_CODEC_RAW);
        toy_answer a = ask(prompt, cache);
        CHECK_INT(a.stats.tokens_cached, 0);
        CHECK(!life || a.stats.miss_reason == PC_REASON_IO);
        pc_cache_free(cache);
        CHECK_INT(pc_toy_count(w.toy)->live_segments, 0);
    }
    pc_prompt_free(prompt);
    toy_end(&w);
}

static uint32_t described;

static pc_status describe(void *user, pc_model_info *info)
{
    pc_status status = toy.describe(user, info);
    info->compute = described;
    return status;
}

static void shapes(void)
{
    toy_world w;
    pc_model *model = NULL;
    pc_model_ops ops = toy = pc_toy_layer_ops();
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    ops.describe = describe;
    for (described = 0; described <= PC_DTYPE_I8; described++) {
        pc_status status = pc_model_from_ops(&model, w.context, &ops, w.toy, NULL, NULL);
        int fits = described >= PC_DTYPE_F32 && described <= PC_DTYPE_F16;
        CHECK_STATUS(status, fits ? PC_OK : PC_ERR_INVALID);
        if (!fits)
            CHECK_ERROR_HAS("export_layer needs layers, kv_heads, head_dim");
        pc_model_free(model);
    }
    ops = pc_toy_layer_ops();
    ops.import_layer = NULL;
    CHECK_STATUS(pc_model_from_ops(&model, w.context, &ops, w.toy, NULL, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("ops.import_layer is NULL, but its counterpart is set");
    toy_end(&w);
}

static void without_memory(void)
{
    pc_test_memory memory = {.fail_at = 0};
    pc_allocator mem = pc_test_allocator(&memory);
    toy_answer plain;
    {
        toy_world w;
        if (!start(&w, NULL, 0))
            return;
        pc_prompt *prompt = toy_prompt(&w, prompt_text);
        plain = ask(prompt, NULL);
        pc_prompt_free(prompt);
        toy_end(&w);
    }
    for (uint64_t at = 1; at < 2000; at += 1 + at / 40) {
        toy_world w;
        pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
        char name[32];
        g.max_tokens = 5;
        snprintf(name, sizeof name, "memory%d", (int)at);
        memory.fail_at = 0;
        if (!start(&w, &mem, 0))
            return;
        pc_prompt *prompt = toy_prompt(&w, prompt_text);
        memory.calls = 0;
        memory.fail_at = at;
        for (int life = 0; life < 2; life++) {
            pc_cache_options o = PC_CACHE_OPTIONS_INIT;
            pc_cache *cache = NULL;
            o.disk_path = folder_of(name);
            o.flags = PC_CACHE_ALWAYS_LOAD;
            o.deadline_seconds = 20;
            if (pc_cache_new(&cache, w.context, &o) < 0)
                continue;
            toy_answer a = toy_generate(prompt, cache, g);
            CHECK(a.status == PC_OK ? !strcmp(a.text[0], plain.text[0]) : a.status == PC_ERR_NOMEM);
            pc_cache_free(cache);
            CHECK_INT(pc_toy_count(w.toy)->live_segments, 0);
        }
        memory.fail_at = 0;
        pc_prompt_free(prompt);
        toy_end(&w);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    for (stub_dtype = PC_DTYPE_F32; stub_dtype <= PC_DTYPE_F16; stub_dtype++)
        formats(context);
    pc_context_free(context);
    uint64_t raw = there_and_back(PC_CODEC_RAW, 0, 0, "raw");
    there_and_back(PC_CODEC_ZSTD, 0, 0, "zstd");
    there_and_back(PC_CODEC_RAW, 0, 1, "learned");
    uint64_t i8 = there_and_back(PC_CODEC_I8, 1, 0, "i8");
    uint64_t i4 = there_and_back(PC_CODEC_I4, 1, 0, "i4");
    CHECK(i8 < raw && i4 < i8);
    failing_layers();
    half_segments();
    shapes();
    without_memory();
    return pc_test_end();
}
