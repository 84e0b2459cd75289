/* Sampling: biases and penalties, selection by a heap, nucleus, draw; what a backend needs for it.
 */
#include "serve/sampler.h"

#include <promptcache/sampling.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/options.h"
#include "base/splitmix.h"

#define GREEDY_BELOW 1e-5f
#define DRY_BASE 1.75f
enum { DRY_ALLOWED_LENGTH = 2 };

/* ---- Options */

static pc_status check_number(const char *call, const char *field, float value, float least,
                              float most)
{
    if (value >= least && value <= most)
        return PC_OK;
    if (most < FLT_MAX)
        return pc__fail(PC_ERR_INVALID, "%s: pc_sampling: %s is %g, not in %g to %g", call, field,
                        (double)value, (double)least, (double)most);
    return pc__fail(PC_ERR_INVALID, "%s: pc_sampling: %s is %g, not a finite number%s", call, field,
                    (double)value, least < 0 ? "" : " from 0");
}

static pc_status check_biases(const pc_sampling *o, const char *call)
{
    PC__TRY_RETURN(pc__check_array(call, "pc_sampling.bias_tokens", o->bias_tokens, o->bias_count,
                                   sizeof *o->bias_tokens));
    PC__TRY_RETURN(pc__check_array(call, "pc_sampling.bias_values", o->bias_values, o->bias_count,
                                   sizeof *o->bias_values));
    for (size_t i = 0; i < o->bias_count; i++)
        if (!(o->bias_values[i] <= FLT_MAX))
            return pc__fail(PC_ERR_INVALID,
                            "%s: pc_sampling: bias_values[%zu], of token %d, is %g, not a finite "
                            "number or -infinity",
                            call, i, o->bias_tokens[i], (double)o->bias_values[i]);
    return PC_OK;
}

pc_status pc__sampling_read(pc_sampling *o, const pc_sampling *in, const char *call)
{
    PC__TRY_RETURN(
        pc__options_read(o, sizeof *o, PC__V1_SIZE(pc_sampling, bias_count), in, "pc_sampling"));
    PC__TRY_RETURN(check_number(call, "temperature", o->temperature, 0, FLT_MAX));
    PC__TRY_RETURN(check_number(call, "top_p", o->top_p, 0, 1));
    PC__TRY_RETURN(check_number(call, "repetition_penalty", o->repetition_penalty, 0, FLT_MAX));
    PC__TRY_RETURN(check_number(call, "min_p", o->min_p, 0, 1));
    PC__TRY_RETURN(check_number(call, "typical_p", o->typical_p, 0, 1));
    PC__TRY_RETURN(check_number(call, "presence_penalty", o->presence_penalty, -FLT_MAX, FLT_MAX));
    PC__TRY_RETURN(
        check_number(call, "frequency_penalty", o->frequency_penalty, -FLT_MAX, FLT_MAX));
    PC__TRY_RETURN(check_number(call, "dry_multiplier", o->dry_multiplier, 0, FLT_MAX));
    if (!(fabsf(o->dry_base) <= 0 || (o->dry_base >= 1 && o->dry_base <= FLT_MAX)))
        return pc__fail(PC_ERR_INVALID,
                        "%s: pc_sampling: dry_base is %g, not 0 or a finite number from 1", call,
                        (double)o->dry_base);
    PC__TRY_RETURN(pc__check_array(call, "pc_sampling.dry_breakers", o->dry_breakers,
                                   o->dry_breaker_count, sizeof *o->dry_breakers));
    return check_biases(o, call);
}

static pc_status check_tokens(const char *field, const int32_t *tokens, size_t count, size_t vocab)
{
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= vocab)
            return pc__fail(PC_ERR_INVALID,
                            "pc_sampling: %s[%zu] is %d, the vocabulary has %zu tokens", field, i,
                            tokens[i], vocab);
    return PC_OK;
}

static pc_status copy_array(const pc_allocator *mem, const void *from, size_t bytes,
                            const void **out)
{
    void *copy = bytes ? pc__alloc(mem, bytes) : NULL;
    *out = copy;
    if (copy)
        memcpy(copy, from, bytes);
    return copy || !bytes ? PC_OK : PC_ERR_NOMEM;
}

static int by_id(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static pc_status copy_options(pc__sampler *s, const pc_sampling *o)
{
    const void *biased = NULL, *values = NULL, *breakers = NULL;
    pc_status status = copy_array(s->mem, o->bias_tokens, o->bias_count * sizeof(int32_t), &biased);
    if (status >= 0)
        status = copy_array(s->mem, o->bias_values, o->bias_count * sizeof(float), &values);
    if (status >= 0)
        status = copy_array(s->mem, o->dry_breakers, o->dry_breaker_count * sizeof(int32_t),
                            &breakers);
    s->options = *o;
    s->options.bias_tokens = biased;
    s->options.bias_values = values;
    s->options.dry_breakers = breakers;
    if (breakers)
        qsort((void *)(uintptr_t)breakers, o->dry_breaker_count, sizeof(int32_t), by_id);
    return status;
}

/* ---- Random numbers */

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

static double uniform(pc__sampler *s)
{
    return (double)(next_random(s) >> 11) * 0x1.0p-53;
}

/* The state from one word, by splitmix64. */
static void seed(pc__sampler *s, uint64_t value)
{
    for (int i = 0; i < 4; i++)
        s->state[i] = pc__splitmix_next(&value);
}

/* ---- Life */

static int is_greedy(const pc__sampler *s)
{
    return s->options.temperature < GREEDY_BELOW || s->options.top_k == 1;
}

/* 0 and 1: off. */
static int has_repetition(const pc__sampler *s)
{
    float by = s->options.repetition_penalty;
    return by > 0 && (by < 1 || by > 1);
}

static int has_subtraction(const pc__sampler *s)
{
    return fabsf(s->options.presence_penalty) > 0 || fabsf(s->options.frequency_penalty) > 0;
}

static int has_dry(const pc__sampler *s)
{
    return s->options.dry_multiplier > 0;
}

static int has_penalties(const pc__sampler *s)
{
    return has_repetition(s) || has_subtraction(s) || has_dry(s);
}

static pc_status reserve_sampler(pc__sampler *s)
{
    if (!is_greedy(s)) {
        s->candidates = pc__calloc(s->mem, s->vocab, sizeof *s->candidates);
        if (!s->candidates)
            return PC_ERR_NOMEM;
    }
    if (has_penalties(s)) {
        s->place = pc__calloc(s->mem, s->vocab, sizeof *s->place);
        if (!s->place)
            return PC_ERR_NOMEM;
    }
    return PC_OK;
}

pc_status pc__sampler_init(pc__sampler *s, const pc_allocator *mem, const pc_sampling *options,
                           uint64_t seed_offset, size_t vocab)
{
    pc_status status;
    memset(s, 0, sizeof *s);
    PC__TRY_RETURN(check_tokens("bias_tokens", options->bias_tokens, options->bias_count, vocab));
    PC__TRY_RETURN(
        check_tokens("dry_breakers", options->dry_breakers, options->dry_breaker_count, vocab));
    s->mem = mem;
    s->vocab = vocab;
    seed(s, options->seed + seed_offset);
    status = copy_options(s, options);
    if (status >= 0)
        status = reserve_sampler(s);
    if (status < 0)
        pc__sampler_end(s);
    return status;
}

void pc__sampler_end(pc__sampler *s)
{
    if (s->mem) {
        pc__free(s->mem, s->candidates);
        pc__free(s->mem, s->history);
        pc__free(s->mem, s->place);
        pc__free(s->mem, s->counts);
        pc__free(s->mem, s->repeats);
        pc__free(s->mem, s->changes);
        pc__free(s->mem, (void *)(uintptr_t)s->options.bias_tokens);
        pc__free(s->mem, (void *)(uintptr_t)s->options.bias_values);
        pc__free(s->mem, (void *)(uintptr_t)s->options.dry_breakers);
    }
    memset(s, 0, sizeof *s);
}

/* ---- The history */

static int32_t token_of(int32_t noted)
{
    return noted < 0 ? ~noted : noted;
}

pc_status pc__sampler_reserve(pc__sampler *s, size_t more)
{
    size_t need = s->history_count + more, distinct = s->count_count + more;
    PC__TRY_RETURN(
        pc__grow(s->mem, (void **)&s->history, &s->history_capacity, need, sizeof *s->history));
    if (s->place)
        PC__TRY_RETURN(pc__grow(s->mem, (void **)&s->counts, &s->count_capacity,
                                distinct < s->vocab ? distinct : s->vocab, sizeof *s->counts));
    return has_dry(s) ? pc__grow(s->mem, (void **)&s->repeats, &s->repeat_capacity, need,
                                 sizeof *s->repeats)
                      : PC_OK;
}

/* NULL: the token is none of the vocabulary. */
static pc__token_count *count_of(pc__sampler *s, int32_t token)
{
    if (token < 0 || (size_t)token >= s->vocab)
        return NULL;
    if (!s->place[token]) {
        s->counts[s->count_count++] = (pc__token_count){.token = token};
        s->place[token] = (uint32_t)s->count_count;
    }
    return &s->counts[s->place[token] - 1];
}

/* `change` 1: it enters the window; -1: it leaves. */
static void count_token(pc__sampler *s, int32_t noted, int change)
{
    pc__token_count *c = count_of(s, token_of(noted));
    if (!c)
        return;
    c->seen += (uint32_t)change;
    if (noted < 0)
        c->drawn += (uint32_t)change;
}

static void append(pc__sampler *s, int32_t noted)
{
    size_t last = s->options.penalty_last_tokens;
    s->history[s->history_count++] = noted;
    if (!s->place)
        return;
    count_token(s, noted, 1);
    if (last && s->history_count > last)
        count_token(s, s->history[s->history_count - 1 - last], -1);
}

void pc__sampler_note(pc__sampler *s, int32_t token)
{
    append(s, token);
}

void pc__sampler_drop(pc__sampler *s, size_t count)
{
    size_t last = s->options.penalty_last_tokens;
    for (; count; count--) {
        int32_t noted = s->history[--s->history_count];
        if (!s->place)
            continue;
        count_token(s, noted, -1);
        if (last && s->history_count >= last)
            count_token(s, s->history[s->history_count - last], 1);
    }
}

pc_status pc__sampler_replay(pc__sampler *to, const pc__sampler *from)
{
    PC__TRY_RETURN(pc__sampler_reserve(to, from->history_count));
    for (size_t i = 0; i < from->history_count; i++)
        append(to, from->history[i]);
    return PC_OK;
}

/* ---- Changes: biases and penalties */

static int is_breaker(const pc__sampler *s, int32_t token)
{
    return s->options.dry_breaker_count
           && bsearch(&token, s->options.dry_breakers, s->options.dry_breaker_count, sizeof token,
                      by_id);
}

/* The k-th token from the end of the history. */
static int32_t token_back(const pc__sampler *s, size_t k)
{
    return token_of(s->history[s->history_count - 1 - k]);
}

static size_t window_size(const pc__sampler *s)
{
    size_t last = s->options.penalty_last_tokens;
    return last && last < s->history_count ? last : s->history_count;
}

/* The end of the history stands also k tokens earlier, with `length` tokens: the token behind it
 * there would go on with that repeat. */
static void note_repeat(pc__sampler *s, size_t k, size_t length)
{
    int32_t next = token_back(s, k - 1);
    pc__token_count *c = is_breaker(s, next) ? NULL : count_of(s, next);
    if (c && c->repeat < length)
        c->repeat = (uint32_t)length;
}

/* Sets `repeat` of the tokens that would continue a repeat. Their lengths are those of the
 * Z-algorithm, over the history read backwards: each comparison that succeeds moves `right` on. */
static void find_repeats(pc__sampler *s)
{
    size_t window = window_size(s), limit = 0, left = 0, right = 0;
    size_t allowed = s->options.dry_allowed_length ? s->options.dry_allowed_length
                                                   : DRY_ALLOWED_LENGTH;
    while (limit < window && !is_breaker(s, token_back(s, limit)))
        limit++;
    for (size_t k = 1; k < window && limit >= allowed; k++) {
        size_t n = 0;
        if (k < right)
            n = s->repeats[k - left] < right - k ? s->repeats[k - left] : right - k;
        while (k + n < window && token_back(s, n) == token_back(s, k + n))
            n++;
        if (k + n > right) {
            left = k;
            right = k + n;
        }
        s->repeats[k] = (uint32_t)n;
        n = n < limit ? n : limit;
        if (n >= allowed)
            note_repeat(s, k, n);
    }
}

static double dry_penalty(const pc__sampler *s, uint32_t repeat)
{
    const pc_sampling *o = &s->options;
    double base = (double)(o->dry_base > 0 ? o->dry_base : DRY_BASE);
    uint32_t allowed = o->dry_allowed_length ? o->dry_allowed_length : DRY_ALLOWED_LENGTH;
    return (double)o->dry_multiplier * pow(base, repeat - allowed);
}

static void add_change(pc__sampler *s, int32_t token, uint32_t kind, double a, double b)
{
    s->changes[s->change_count++] = (pc__logit_change){token, kind, a, b};
}

/* A forbidden token stays forbidden, and no penalty forbids one. */
static void list_penalties(pc__sampler *s, const pc__token_count *c)
{
    const pc_sampling *o = &s->options;
    if (c->seen && has_repetition(s))
        add_change(s, c->token, PC__CHANGE_DIVIDE, (double)o->repetition_penalty, 0);
    if (c->drawn && has_subtraction(s))
        add_change(s, c->token, PC__CHANGE_SUBTRACT, (double)o->frequency_penalty * c->drawn,
                   (double)o->presence_penalty);
    if (c->repeat)
        add_change(s, c->token, PC__CHANGE_SUBTRACT, dry_penalty(s, c->repeat), 0);
}

/* All that changes logits before the choice. */
static pc_status list_changes(pc__sampler *s)
{
    const pc_sampling *o = &s->options;
    size_t most = s->forbidden_count + o->bias_count + 3 * s->count_count;
    s->change_count = 0;
    PC__TRY_RETURN(
        pc__grow(s->mem, (void **)&s->changes, &s->change_capacity, most, sizeof *s->changes));
    for (size_t i = 0; i < s->forbidden_count; i++)
        if (s->forbidden[i] >= 0 && (size_t)s->forbidden[i] < s->vocab)
            add_change(s, s->forbidden[i], PC__CHANGE_ADD, -(double)INFINITY, 0);
    for (size_t i = 0; i < o->bias_count; i++)
        add_change(s, o->bias_tokens[i], PC__CHANGE_ADD, (double)o->bias_values[i], 0);
    if (has_dry(s))
        find_repeats(s);
    for (size_t i = 0; i < s->count_count; i++) {
        list_penalties(s, &s->counts[i]);
        s->counts[i].repeat = 0;
    }
    return PC_OK;
}

static float within_floats(double value)
{
    double most = (double)FLT_MAX;
    return (float)(value > most ? most : value < -most ? -most : value);
}

static float changed(float logit, const pc__logit_change *c)
{
    double l = (double)logit;
    if (c->kind == PC__CHANGE_ADD)
        return logit + (float)c->a;
    if (!isfinite(logit))
        return logit;
    if (c->kind == PC__CHANGE_DIVIDE)
        return within_floats(l > 0 ? l / c->a : l * c->a);
    return within_floats(l - c->a - c->b);
}

void pc__change_logits(const pc__logit_change *changes, size_t count, float *logits)
{
    for (size_t i = 0; i < count; i++)
        logits[changes[i].token] = changed(logits[changes[i].token], &changes[i]);
}

void pc__sampler_forbid(pc__sampler *s, const int32_t *tokens, size_t count)
{
    s->forbidden = tokens;
    s->forbidden_count = count;
}

/* ---- Choice */

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

/* The smallest set of first candidates with `top_p` of the mass of all `n`. Sorts no further than
 * it has to. Their order may be another than that of the logits, which give the mass. */
static size_t nucleus(pc__candidate *c, size_t n, const float *logits, float most,
                      double temperature, double total, double top_p)
{
    double mass = 0;
    size_t sorted = 0;
    for (size_t want = 256;; want *= 4) {
        size_t end = want < n ? want : n;
        if (end < n)
            select_first(c + sorted, n - sorted, end - sorted);
        qsort(c + sorted, end - sorted, sizeof *c, by_logit);
        for (; sorted < end; sorted++) {
            float l = logits ? logits[c[sorted].token] : c[sorted].logit;
            mass += exp(((double)l - (double)most) / temperature);
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

/* Keeps candidates of at least `min_p` times the highest probability. */
static size_t keep_likely(pc__candidate *c, size_t n, float most, double temperature, double min_p)
{
    double least = log(min_p);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (((double)c[i].logit - (double)most) / temperature >= least)
            c[kept++] = c[i];
    return kept;
}

/* The smallest set of candidates with `typical_p` of the mass whose information is nearest to the
 * entropy (Meister et al. 2022). Meanwhile their `logit` is what they are ordered by. */
static size_t keep_typical(pc__candidate *c, size_t n, const float *logits, float most,
                           double temperature, double typical_p)
{
    double total = total_mass(c, n, most, temperature), entropy = 0;
    for (size_t i = 0; i < n; i++) {
        double log_p = ((double)c[i].logit - (double)most) / temperature - log(total);
        entropy -= exp(log_p) > 0 ? exp(log_p) * log_p : 0;
    }
    for (size_t i = 0; i < n; i++) {
        double log_p = ((double)c[i].logit - (double)most) / temperature - log(total);
        c[i].logit = (float)-fabs(-log_p - entropy);
    }
    n = nucleus(c, n, logits, most, temperature, total, typical_p);
    for (size_t i = 0; i < n; i++)
        c[i].logit = logits[c[i].token];
    return n;
}

static int is_share(float p)
{
    return p > 0 && p < 1;
}

/* What top k and the like leave of the candidates. */
static size_t choose_candidates(pc__sampler *s, size_t n, const float *logits, float most)
{
    const pc_sampling *o = &s->options;
    double temperature = (double)o->temperature;
    pc__candidate *c = s->candidates;
    if (o->min_p > 0)
        n = keep_likely(c, n, most, temperature, (double)o->min_p);
    if (o->top_k && o->top_k < n) {
        select_first(c, n, o->top_k);
        n = o->top_k;
        qsort(c, n, sizeof *c, by_logit); /* the draw must not depend on the selection's order */
    }
    if (is_share(o->typical_p))
        n = keep_typical(c, n, logits, most, temperature, (double)o->typical_p);
    if (is_share(o->top_p))
        n = nucleus(c, n, NULL, most, temperature, total_mass(c, n, most, temperature),
                    (double)o->top_p);
    return n;
}

static int32_t draw_token(pc__sampler *s, const float *logits, float most)
{
    double temperature = (double)s->options.temperature, left;
    pc__candidate *c = s->candidates;
    size_t n = choose_candidates(s, collect_candidates(s, logits), logits, most);
    left = uniform(s) * total_mass(c, n, most, temperature);
    for (size_t i = 0; i + 1 < n; i++) {
        left -= exp(((double)c[i].logit - (double)most) / temperature);
        if (left < 0)
            return c[i].token;
    }
    return c[n - 1].token;
}

static pc_status nothing_left(void)
{
    return pc__fail(PC_ERR_INVALID,
                    "sampling: no token is left that may be drawn: biases, on_logits, the grammar "
                    "and min_tokens together forbid all of them");
}

static pc_status infinite(int32_t token)
{
    return pc__fail(PC_ERR_INVALID, "sampling: the logit of token %d is infinite", token);
}

pc_status pc__sampler_draw(pc__sampler *s, float *logits, int32_t *token)
{
    int32_t best;
    PC__TRY_RETURN(pc__sampler_reserve(s, 1));
    PC__TRY_RETURN(list_changes(s));
    pc__change_logits(s->changes, s->change_count, logits);
    best = highest_logit(s, logits);
    if (best < 0)
        return nothing_left();
    if (isinf(logits[best]))
        return infinite(best);
    *token = is_greedy(s) ? best : draw_token(s, logits, logits[best]);
    append(s, ~*token);
    return PC_OK;
}

/* ---- By a backend */

/* The number that it gives next. */
static double next_uniform(const pc__sampler *s)
{
    pc__sampler copy = *s;
    return uniform(&copy);
}

pc_status pc__sampler_describe(pc__sampler *s, pc__draw *out)
{
    const pc_sampling *o = &s->options;
    int greedy = is_greedy(s);
    if ((!greedy && is_share(o->typical_p)) || s->vocab > PC__DRAW_MOST_VOCAB)
        return PC_MISS;
    PC__TRY_RETURN(pc__sampler_reserve(s, 1));
    PC__TRY_RETURN(list_changes(s));
    *out = (pc__draw){.vocab = s->vocab, .changes = s->changes, .change_count = s->change_count};
    if (greedy)
        return PC_OK;
    out->random = next_uniform(s);
    out->temperature = o->temperature;
    out->top_p = o->top_p;
    out->min_p = o->min_p;
    out->top_k = o->top_k;
    return PC_OK;
}

pc_status pc__sampler_take(pc__sampler *s, const pc__drawn *drawn, int32_t *token)
{
    if (drawn->outcome == PC__DRAWN_INFINITE)
        return infinite(drawn->token);
    if (drawn->outcome != PC__DRAWN)
        return nothing_left();
    if (!is_greedy(s))
        next_random(s);
    *token = drawn->token;
    append(s, ~*token);
    return PC_OK;
}
