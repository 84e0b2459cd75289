/* Prompts for memos, and what unknown prompts find in a memo. */
#ifndef PC_TEST_MEMO_PROMPTS_H
#define PC_TEST_MEMO_PROMPTS_H

#include <promptcache/memo.h>
#include <math.h>
#include <stdlib.h>

#include "testing.h"

enum { MEMO_TOKENS = 8, MEMO_QUERIES = 24, MEMO_HIDDEN = 64 /* of the shape "tiny" */ };

/* Prompts from..from + count - 1 of an endless sequence. */
static inline pc_input *memo_prompts(size_t from, size_t count)
{
    pc_input *inputs = malloc(count * sizeof *inputs);
    int32_t *tokens = malloc(count * MEMO_TOKENS * sizeof *tokens);
    for (size_t i = 0; i < count; i++) {
        pc_test_rng rng = {1000 + from + i};
        for (size_t t = 0; t < MEMO_TOKENS; t++)
            tokens[i * MEMO_TOKENS + t] = (int32_t)(pc_test_bits(&rng) % 250);
        inputs[i] = (pc_input){tokens + i * MEMO_TOKENS, MEMO_TOKENS, NULL};
    }
    return inputs;
}

static inline void memo_prompts_free(pc_input *inputs)
{
    free((void *)(uintptr_t)inputs->tokens);
    free(inputs);
}

typedef struct memo_found {
    int64_t record[MEMO_QUERIES];
    double similarity[MEMO_QUERIES];
} memo_found;

static inline memo_found memo_look(const pc_model *model, pc_memo *memo)
{
    pc_input *inputs = memo_prompts(1u << 20, MEMO_QUERIES);
    pc_memo_result results[MEMO_QUERIES];
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    float out[MEMO_QUERIES * MEMO_HIDDEN];
    memo_found f;
    o.memo = memo;
    static const double nearest = -INFINITY;
    o.threshold = &nearest;
    o.embeddings = out;
    o.results = results;
    o.result_stride = sizeof(pc_memo_result);
    CHECK_OK(pc_prefill(model, inputs, sizeof(pc_input), MEMO_QUERIES, &o, NULL));
    for (size_t i = 0; i < MEMO_QUERIES; i++) {
        f.record[i] = results[i].record;
        f.similarity[i] = results[i].similarity;
    }
    memo_prompts_free(inputs);
    return f;
}

static inline int memo_same(const memo_found *a, const memo_found *b)
{
    int same = 1;
    for (size_t i = 0; i < MEMO_QUERIES; i++) {
        same &= CHECK_INT(a->record[i], b->record[i]);
        same &= CHECK(fabs(a->similarity[i] - b->similarity[i]) < 1e-4);
    }
    return same;
}

#endif
