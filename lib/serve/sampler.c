/* Sampling: penalty, selection by a heap, nucleus, draw. */
#include "serve/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/options.h"
#include "base/splitmix.h"

#define GREEDY_BELOW 1e-5f

pc_status pc__sampling_read(pc_sampling *o, const pc_sampling *in, const char *call)
{
    PC__TRY_RETURN(
        pc__options_read(o, sizeof *o, PC__V1_SIZE(pc_sampling, seed), in, "pc_sampling"));
    if (!(o->temperature >= 0) || isinf(o->temperature))
        return pc__fail(PC_ERR_INVALID,
                        "%s: pc_sampling: temperature is %g, not a finite number from 0", call,
                        (double)o->temperature);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return pc__fail(PC_ERR_INVALID, "%s: pc_sampling: top_p is %g, not in 0 to 1", call,
                        (double)o->top_p);
    if (!(o->repetition_penalty >= 0) || isinf(o->repetition_penalty))
        return pc__fail(PC_ERR_INVALID,
                        "%s: pc_sampling: repetition_penalty is %g, not a finite number from 0",
                        call, (double)o->repetition_penalty);
    return PC_OK;
}

static uint64_t rotate_left(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

static uint64_t next_random(pc__sampler *s)
{
    uint64_t *x = s->state, result = rotate_left(x[0] + x[3], 23) + x[0], t = x[1] << 17;
    x[2] ^= x[0];
    x[3] ^= x[1];
    x[1] ^= x[2];
    x[0] ^= x[3];
    x[2] ^= t;
    x[3] = rotate_left(x[3], 45);
    return result;
}

/* The state from one word, by splitmix64. */
static void seed(pc__sampler *s, uint64_t value)
{
    for (int i = 0; i < 4; i++)
        s->state[i] = pc__splitmix_next(&value);
}

static int is_greedy(const pc__sampler *s)
{
    return s->options.temperature < GREEDY_BELOW || s->options.top_k == 1;
}

static pc_status reserve_sampler(pc__sampler *s)
{
    float penalty = s->options.repetition_penalty;
    if (!is_greedy(s)) {
        s->candidates = pc__calloc(s->mem, s->vocab, sizeof *s->candidates);
        if (!s->candidates)
            return PC_ERR_NOMEM;
    }
    if (penalty > 0 && (penalty < 1 || penalty > 1)) {
        s->penalised = pc__calloc(s->mem, s->vocab, 1);
        if (!s->penalised)
            return PC_ERR_NOMEM;
    }
    return PC_OK;
}

pc_status pc__sampler_init(pc__sampler *s, const pc_allocator *mem, const pc_sampling *options,
                           uint64_t seed_offset, size_t vocab)
{
    pc_status status;
    memset(s, 0, sizeof *s);
    s->mem = mem;
    s->options = *options;
    s->vocab = vocab;
    seed(s, options->seed + seed_offset);
    status = reserve_sampler(s);
    if (status < 0)
        pc__sampler_end(s);
    return status;
}

pc_status pc__sampler_copy(pc__sampler *to, const pc__sampler *from)
{
    PC__TRY_RETURN(pc__sampler_init(to, from->mem, &from->options, 0, from->vocab));
    memcpy(to->state, from->state, sizeof to->state);
    if (from->penalised)
        memcpy(to->penalised, from->penalised, from->vocab);
    return PC_OK;
}

void pc__sampler_end(pc__sampler *s)
{
    if (s->mem) {
        pc__free(s->mem, s->candidates);
        pc__free(s->mem, s->penalised);
    }
    memset(s, 0, sizeof *s);
}

void pc__sampler_forget(pc__sampler *s)
{
    if (s->penalised)
        memset(s->penalised, 0, s->vocab);
}

void pc__sampler_note(pc__sampler *s, int32_t token)
{
    if (s->penalised && token >= 0 && (size_t)token < s->vocab)
        s->penalised[token] = 1;
}

static void apply_penalty(const pc__sampler *s, float *logits)
{
    for (size_t i = 0; s->penalised && i < s->vocab; i++)
        if (s->penalised[i])
            logits[i] = logits[i] > 0 ? logits[i] / s->options.repetition_penalty
                                      : logits[i] * s->options.repetition_penalty;
}

static int32_t highest_logit(const pc__sampler *s, const float *logits)
{
    int32_t best = -1;
    float most = -INFINITY;
    for (size_t i = 0; i < s->vocab; i++)
        if (logits[i] > most) {
            most = logits[i];
            best = (int32_t)i;
        }
    return best;
}

static int comes_before(const pc__candidate *a, const pc__candidate *b)
{
    return a->logit > b->logit || (!(b->logit > a->logit) && a->token < b->token);
}

static int by_logit(const void *a, const void *b)
{
    return comes_before(a, b) ? -1 : comes_before(b, a) ? 1 : 0;
}

/* Restores the heap below `i`: every candidate comes after its children. */
static void restore_heap(pc__candidate *heap, size_t count, size_t i)
{
    pc__candidate moved = heap[i];
    for (size_t child = 2 * i + 1; child < count; child = 2 * i + 1) {
        if (child + 1 < count && comes_before(&heap[child], &heap[child + 1]))
            child++;
        if (!comes_before(&moved, &heap[child]))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

/* Brings the first `count` candidates of the order to the front, unsorted. They are a heap with the
 * last of them on top, which most of the others do not beat. */
static void select_first(pc__candidate *c, size_t n, size_t count)
{
    for (size_t i = count / 2; i--;)
        restore_heap(c, count, i);
    for (size_t i = count; i < n && count; i++)
        if (comes_before(&c[i], &c[0])) {
            pc__candidate out = c[0];
            c[0] = c[i];
            c[i] = out;
            restore_heap(c, count, 0);
        }
}

static size_t collect_candidates(pc__sampler *s, const float *logits)
{
    size_t n = 0;
    for (size_t i = 0; i < s->vocab; i++)
        if (logits[i] > -INFINITY)
            s->candidates[n++] = (pc__candidate){logits[i], (int32_t)i};
    return n;
}

/* The smallest set of likeliest tokens with `top_p` of the mass of the `n` candidates. Sorts no
 * further than it has to. */
static size_t nucleus(pc__candidate *c, size_t n, float most, double temperature, double total,
                      double top_p)
{
    double mass = 0;
    size_t sorted = 0;
    for (size_t want = 256;; want *= 4) {
        size_t end = want < n ? want : n;
        if (end < n)
            select_first(c + sorted, n - sorted, end - sorted);
        qsort(c + sorted, end - sorted, sizeof *c, by_logit);
        for (; sorted < end; sorted++) {
            mass += exp(((double)c[sorted].logit - (double)most) / temperature);
            if (mass >= top_p * total)
                return sorted + 1;
        }
        if (end == n)
            return n;
    }
}

static double total_mass(const pc__candidate *c, size_t n, float most, double temperature)
{
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += exp(((double)c[i].logit - (double)most) / temperature);
    return total;
}

static int32_t draw_token(pc__sampler *s, size_t n, float most)
{
    double temperature = (double)s->options.temperature, total, left;
    pc__candidate *c = s->candidates;
    if (s->options.top_k && s->options.top_k < n) {
        select_first(c, n, s->options.top_k);
        n = s->options.top_k;
        qsort(c, n, sizeof *c, by_logit); /* the draw must not depend on the selection's order */
    }
    total = total_mass(c, n, most, temperature);
    if (s->options.top_p > 0 && s->options.top_p < 1) {
        n = nucleus(c, n, most, temperature, total, (double)s->options.top_p);
        total = total_mass(c, n, most, temperature);
    }
    left = (double)(next_random(s) >> 11) * 0x1.0p-53 * total;
    for (size_t i = 0; i + 1 < n; i++) {
        left -= exp(((double)c[i].logit - (double)most) / temperature);
        if (left < 0)
            return c[i].token;
    }
    return c[n - 1].token;
}

pc_status pc__sampler_draw(pc__sampler *s, float *logits, int32_t *token)
{
    int32_t best;
    apply_penalty(s, logits);
    best = highest_logit(s, logits);
    if (best < 0 || isinf(logits[best]))
        return pc__fail(PC_ERR_INTERNAL, "sampling: the highest logit is not finite");
    *token = is_greedy(s) ? best : draw_token(s, collect_candidates(s, logits), logits[best]);
    pc__sampler_note(s, *token);
    return PC_OK;
}
