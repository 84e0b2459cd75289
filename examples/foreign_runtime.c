/* A runtime with its own model, kernels and K/V layout that stores its states in a cache on disk:
 * run it twice. The first run "computes" the states of a system prompt; the second one, another
 * process, takes them from the folder. */
#include <promptcache.h>
#include <promptcache/extend.h>
#include <promptcache/cache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 500, LAYERS = 4, HEADS = 2, DIM = 32, MY_LAYOUT = PC_LAYOUT_APPLICATION + 1 };

static float states[LAYERS][2][TOKENS][HEADS][DIM]; /* K, then V, of a layer: a layout of our own */
static const uint64_t layer_bytes[LAYERS] = {sizeof states[0], sizeof states[1], sizeof states[2],
                                             sizeof states[3]};
static uint8_t fingerprint[32]; /* of all files that change K and V */
static int32_t tokens[TOKENS];

/* Stands for the runtime's prefill. */
static void compute(void)
{
    float *at = &states[0][0][0][0][0];
    for (size_t i = 0; i < sizeof states / sizeof *at; i++)
        at[i] = (float)(tokens[i % TOKENS] + (int32_t)(i % 977)) * 1e-3f;
}

/* Stands for what a decode step reads. */
static double read_states(const void *const *blocks)
{
    double sum = 0;
    for (int l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < sizeof states[0] / sizeof(float); i++)
            sum += (double)((const float *)blocks[l])[i];
    return sum;
}

static pc_status serve(pc_context *context, pc_cache *cache)
{
    void *blocks[LAYERS] = {states[0], states[1], states[2], states[3]};
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    pc_raw raw = PC_RAW_INIT;
    pc_get_info info = PC_GET_INFO_INIT;
    pc_segment *segment = NULL;
    uint8_t base[32], key[32];
    pc_status status;
    parts.model = raw.model = fingerprint;
    parts.position_scheme = raw.position_scheme = PC_POSITION_ROPE;
    parts.dtype = raw.dtype = PC_DTYPE_F32;
    parts.layout = raw.layout = MY_LAYOUT;
    strcpy(raw.architecture, "mine");
    raw.layers = LAYERS;
    raw.kv_heads = HEADS;
    raw.k_dim = raw.v_dim = DIM;
    raw.tokens = tokens;
    raw.token_count = TOKENS;
    raw.blocks = (const void *const *)blocks;
    raw.block_bytes = layer_bytes;
    raw.block_count = LAYERS;
    if ((status = pc_key_base(base, &parts)) < 0
        || (status = pc_key_segment(key, &(pc_key_segment_args){sizeof(pc_key_segment_args), base,
                                                                NULL, 0, 0, tokens, NULL, TOKENS}))
               < 0
        || (status = pc_cache_get(&segment, cache, key, &raw, 0, &info)) < 0)
        return status;
    if (status == PC_MISS) {
        compute();
        if ((status = pc_segment_wrap(&segment, context, &raw, NULL, NULL)) < 0
            || (status = pc_cache_put(cache, key, segment, NULL)) < 0)
            goto done;
        printf("computed and stored");
    } else if ((status = pc_segment_raw(segment, &raw)) >= 0) {
        printf("taken from %s in %.1f ms", info.tier == PC_TIER_DISK ? "disk" : "memory",
               1e3 * info.seconds);
    }
    if (status >= 0)
        printf(": %d tokens, states sum up to %.6e\n", TOKENS, read_states(raw.blocks));
done:
    pc_segment_free(segment);
    return status;
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_cache *cache = NULL;
    pc_cache_options options = PC_CACHE_OPTIONS_INIT;
    int help = argc == 2 && !strcmp(argv[1], "--help");
    pc_status status;
    if (argc != 2 || help) {
        fprintf(help ? stdout : stderr,
                "usage: foreign_runtime FOLDER\nrun it twice with the same folder\n");
        return help ? 0 : 2;
    }
    for (int32_t i = 0; i < TOKENS; i++)
        tokens[i] = (i * 7919 + 17) % 32000;
    options.disk_path = argv[1];
    const char *weights =
        "/proc/self/exe"; /* states are made up by this program: it is all the weights there are */
    if ((status = pc_fingerprint_files(fingerprint, &weights, 1, NULL, NULL)) >= 0
        && (status = pc_context_new(&context, NULL)) >= 0
        && (status = pc_cache_new(&cache, context, &options)) >= 0)
        status = serve(context, cache);
    if (status < 0)
        fprintf(stderr, "foreign_runtime: %s: %s\n", pc_status_name(status), pc_error_text());
    pc_cache_free(cache); /* finishes what is being written */
    pc_context_free(context);
    return status < 0;
}
