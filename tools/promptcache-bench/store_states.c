/* Computes the states, keeps copies of them, names and sums them. */
#include "store_states.h"

#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

uint64_t sum_blocks(const pc_raw *raw)
{
    uint64_t sum = 0;
    for (size_t b = 0; b < raw->block_count; b++) {
        const uint8_t *at = raw->blocks[b];
        for (uint64_t i = 0; i + 8 <= raw->block_bytes[b]; i += 8) {
            uint64_t word;
            memcpy(&word, at + i, 8);
            sum = (sum << 7 | sum >> 57) + word * UINT64_C(0x9e3779b97f4a7c15);
        }
    }
    return sum;
}

/* Copies everything that `raw` borrows from the segment. */
static int keep(store_state *s, const pc_raw *raw, const bench_model *b)
{
    s->raw = *raw;
    s->raw.model = b->info.fingerprint;
    s->raw.tokens = s->tokens;
    s->raw.relative = NULL; /* 0, 1, 2 … */
    s->blocks = calloc(raw->block_count, sizeof *s->blocks);
    s->block_bytes = calloc(raw->block_count, sizeof *s->block_bytes);
    if (!s->blocks || !s->block_bytes)
        return 0;
    for (size_t i = 0; i < raw->block_count; i++) {
        s->block_bytes[i] = raw->block_bytes[i];
        if (!(s->blocks[i] = aligned_alloc(64, (size_t)(raw->block_bytes[i] + 63) / 64 * 64)))
            return 0;
        memcpy(s->blocks[i], raw->blocks[i], (size_t)raw->block_bytes[i]);
        s->bytes += raw->block_bytes[i];
    }
    s->raw.blocks = (const void *const *)s->blocks;
    s->raw.block_bytes = s->block_bytes;
    s->sum = sum_blocks(&s->raw);
    return 1;
}

int state_key(const store_state *s, const bench_model *b, uint64_t alias, uint8_t key[32])
{
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    uint8_t base[32];
    parts.model = b->info.fingerprint;
    parts.position_scheme = s->raw.position_scheme;
    parts.dtype = s->raw.dtype;
    parts.rope_regime = s->raw.rope_regime;
    parts.layout = s->raw.layout;
    parts.salt = &alias;
    parts.salt_size = sizeof alias;
    return pc_key_base(base, &parts) >= 0
           && pc_key_segment(key, &(pc_key_segment_args){sizeof(pc_key_segment_args), base, NULL, 0,
                                                         0, s->tokens, NULL, s->raw.token_count})
                  >= 0;
}

static int compute(store_state *s, const bench_model *b, size_t tokens)
{
    int64_t *positions = malloc(tokens * sizeof *positions);
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    pc_segment *segment = NULL;
    pc_raw raw = PC_RAW_INIT;
    pc_lane lane = {NULL, 0, s->tokens, positions, tokens, NULL, 0};
    int code = EXIT_OK;
    if (!positions)
        return plain_error("out of memory");
    for (size_t i = 0; i < tokens; i++)
        positions[i] = (int64_t)i;
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.segments = &segment;
    if (pc_eval(b->model, &args) < 0 || pc_segment_raw(segment, &raw) < 0)
        code = input_error("states", NULL);
    else if (!keep(s, &raw, b))
        code = plain_error("out of memory");
    pc_segment_free(segment);
    free(positions);
    return code;
}

/* `need` ids; NULL after a message. */
static int32_t *all_tokens(const bench_model *b, const char *text_file, size_t need)
{
    int32_t *ids = malloc(need * sizeof *ids);
    size_t size, count = 0;
    char *text = text_file ? read_text(text_file, TEXT_BYTES, &size) : NULL;
    if (!ids || (text_file && !text)) {
        if (!ids)
            plain_error("out of memory for %zu tokens", need);
        free(ids);
        free(text);
        return NULL;
    }
    if (!text) {
        uint64_t state = 1;
        for (size_t i = 0; i < need; i++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            ids[i] = (int32_t)((state >> 33) % (uint64_t)b->info.vocab);
        }
        return ids;
    }
    size = size > 16 * need ? 16 * need : size; /* enough for any tokenizer */
    while (size && ((unsigned char)text[size] & 0xc0) == 0x80)
        size--;
    if (pc_tokenize(b->model, text, size, 0, ids, need, &count) != PC_OK && count < need) {
        input_error("text", NULL);
        free(ids);
        ids = NULL;
    } else if (count < need) {
        plain_error("%s has %zu tokens, but %zu are needed; use fewer --segments or --tokens",
                    text_file, count, need);
        free(ids);
        ids = NULL;
    }
    free(text);
    return ids;
}

int make_states(store_states *s, const bench_model *b, const char *text_file, size_t count,
                size_t tokens)
{
    int32_t *ids = all_tokens(b, text_file, count * tokens);
    int code = ids ? EXIT_OK : EXIT_INPUT;
    if (code == EXIT_OK && !(s->items = calloc(count, sizeof *s->items)))
        code = plain_error("out of memory");
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        store_state *item = &s->items[s->count++];
        fprintf(stderr, "computing segment %zu of %zu\n", i + 1, count);
        if (!(item->tokens = malloc(tokens * sizeof *item->tokens)))
            code = plain_error("out of memory");
        else {
            memcpy(item->tokens, ids + i * tokens, tokens * sizeof *ids);
            code = compute(item, b, tokens);
        }
        s->bytes += item->bytes;
        s->largest = item->bytes > s->largest ? item->bytes : s->largest;
        if (code == EXIT_OK && is_interrupted(NULL))
            code = EXIT_INTERRUPTED;
    }
    free(ids);
    return code;
}

void free_states(store_states *s)
{
    for (size_t i = 0; i < s->count; i++) {
        for (size_t j = 0; s->items[i].blocks && j < s->items[i].raw.block_count; j++)
            free(s->items[i].blocks[j]);
        free(s->items[i].blocks);
        free(s->items[i].block_bytes);
        free(s->items[i].tokens);
    }
    free(s->items);
}
