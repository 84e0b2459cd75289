/* The usual methods, and the requests of a workload: pieces, tokens, arrivals. */
#include "workload.h"

#include <promptcache/bench.h>
#include <stdlib.h>

#include "draw.h"

const method usual_methods[METHODS] = {
    [METHOD_SHARED] = {"shared", "shared", PC_BASELINE_NONE, 0, 1, 0, NULL},
    [METHOD_PER_ROW] = {"per-row", "per row", PC_BASELINE_PER_ROW, 0, 1, 0, NULL},
    [METHOD_COPIES] = {"copies", "own copies", PC_BASELINE_COPIES, 0, 1, 0, NULL},
    [METHOD_RECOMPUTE] = {"recompute", "computed again", PC_BASELINE_PREFILL, 0, 0, 0, NULL},
    [METHOD_NO_ATTENTION] = {"no-attention", "no attention", PC_BASELINE_NO_ATTENTION, 0, 1, 0,
                             NULL},
    [METHOD_PIECES] = {"pieces", "pieces", PC_BASELINE_NONE, 0, 1, 0, NULL},
    [METHOD_WHOLE] = {"whole", "whole prompts", PC_BASELINE_NONE, 0, 1, UINT32_MAX, NULL},
};

int workload_new(workload *w, size_t pieces, size_t requests, size_t batch)
{
    *w = (workload){.piece_count = pieces, .count = requests, .batch = batch};
    w->pieces = calloc(pieces + 1, sizeof *w->pieces);
    w->requests = calloc(requests + 1, sizeof *w->requests);
    if (!w->pieces || !w->requests)
        return plain_error("no memory for %zu requests", requests);
    return EXIT_OK;
}

void workload_free(workload *w)
{
    for (size_t i = 0; w->pieces && i < w->piece_count; i++)
        free(w->pieces[i].tokens);
    for (size_t i = 0; w->requests && i < w->count; i++)
        free(w->requests[i].own.tokens);
    free(w->pieces);
    free(w->requests);
    *w = (workload){.count = 0};
}

int piece_fill(piece *p, const bench_model *b, size_t count, uint64_t stream)
{
    uint64_t state = stream * UINT64_C(0x2545f4914f6cdd1d) + 1;
    free(p->tokens);
    *p = (piece){malloc((count + 1) * sizeof *p->tokens), count, 0};
    if (!p->tokens)
        return plain_error("no memory for %zu tokens", count);
    for (size_t i = 0; i < count; i++)
        p->tokens[i] = (int32_t)(draw_bits(&state) % (uint64_t)b->info.vocab);
    return EXIT_OK;
}

int piece_from_text(piece *p, const bench_model *b, const char *text, size_t size, size_t most)
{
    const pc_model *tokenizer = b->tokenizer ? b->tokenizer : b->model;
    size_t count = 0;
    if (pc_tokenize(tokenizer, text, size, 0, NULL, 0, &count) < 0)
        return input_error("tokenize", NULL);
    free(p->tokens);
    *p = (piece){malloc((count + 1) * sizeof *p->tokens), count, 0};
    if (!p->tokens)
        return plain_error("no memory for %zu tokens", count);
    if (pc_tokenize(tokenizer, text, size, 0, p->tokens, count, &count) < 0)
        return input_error("tokenize", NULL);
    p->count = most && count > most ? most : count;
    for (size_t i = 0; i < p->count; i++)
        p->tokens[i] %= b->info.vocab;
    return EXIT_OK;
}

size_t shared_tokens(const request *r, size_t levels)
{
    size_t count = 0;
    for (size_t i = 0; i < r->levels && i < levels; i++)
        count += r->shared[i]->count;
    return count;
}

void set_arrivals(workload *w, double rate, uint64_t seed)
{
    uint64_t state = seed;
    double at = 0;
    for (size_t i = 0; i < w->count; i++) {
        w->requests[i].arrival = at;
        at += draw_exponential(&state, 1 / rate);
    }
}
