/* Catches: sampling that does not follow its distribution, that is not reproducible, or that draws
 * what a filter excludes; a filter, penalty or bias that is not what a slow reference in double
 * precision has, in any combination, after any tokens that came and were taken back; options that
 * are accepted and mean nothing; memory that is lost when there is none. */
#include "serve/sampler.h"

#include <promptcache/sampling.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

enum { VOCAB = 1000 };

static pc__sampler start(float temperature, uint32_t top_k, float top_p, float penalty,
                         uint64_t seed, size_t vocab)
{
    pc__sampler s;
    pc_sampling o = PC_SAMPLING_INIT, read;
    o.temperature = temperature;
    o.top_k = top_k;
    o.top_p = top_p;
    o.repetition_penalty = penalty;
    o.seed = seed;
    CHECK_OK(pc__sampling_read(&read, &o, "test"));
    CHECK_OK(pc__sampler_init(&s, &pc__libc_allocator, &read, 0, vocab));
    return s;
}

static int32_t draw(pc__sampler *s, const float *logits)
{
    float *copy = malloc(s->vocab * sizeof *copy);
    int32_t token = -1;
    memcpy(copy, logits, s->vocab * sizeof *copy);
    CHECK_OK(pc__sampler_draw(s, copy, &token));
    free(copy);
    return token;
}

/* Chi-square of 20000 draws against the wanted probabilities: with 9 degrees of freedom 33.7 is
 * exceeded by chance once in 10000 seeds, and the seed is fixed. */
static void follows(pc__sampler *s, const float *logits, const double *want)
{
    enum { N = 20000, CELLS = 10 };
    int counts[CELLS] = {0};
    double chi = 0;
    for (int i = 0; i < N; i++)
        counts[draw(s, logits)]++;
    for (int i = 0; i < CELLS; i++) {
        double expected = (double)N * want[i];
        if (want[i] <= 0)
            CHECK_INT(counts[i], 0);
        else
            chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    if (!CHECK(chi < 33.7))
        fprintf(stderr, "    chi-square %g\n", chi);
}

static void distributions(void)
{
    static const float logits[10] = {0.1f, 2.0f, -1.0f, 1.5f, 1.5f, 0.7f, -3.0f, 0.0f, 2.2f, -0.4f};
    const struct {
        float temperature;
        uint32_t top_k;
        float top_p;
    } cases[] = {{1, 0, 0}, {0.5f, 0, 0}, {2, 0, 1}, {1, 3, 0}, {1, 0, 0.6f}, {0.7f, 5, 0.8f}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double p[10], total = 0, mass = 0;
        int order[10] = {8, 1, 3, 4, 5, 0, 7, 9, 2, 6},
            kept = cases[c].top_k ? (int)cases[c].top_k : 10, n = 0;
        for (int i = 0; i < kept; i++)
            total += exp((double)logits[order[i]] / (double)cases[c].temperature);
        for (; n < kept
               && (n == 0 || cases[c].top_p <= 0 || cases[c].top_p >= 1
                   || mass < (double)cases[c].top_p * total);
             n++)
            mass += exp((double)logits[order[n]] / (double)cases[c].temperature);
        memset(p, 0, sizeof p);
        for (int i = 0; i < n; i++)
            p[order[i]] = exp((double)logits[order[i]] / (double)cases[c].temperature) / mass;
        pc__sampler s = start(cases[c].temperature, cases[c].top_k, cases[c].top_p, 0, 11 + c, 10);
        follows(&s, logits, p);
        pc__sampler_end(&s);
    }
}

/* With many candidates the nucleus is found without sorting all of them: compare with the whole
 * sorted list. */
static void large_nucleus(void)
{
    float logits[VOCAB];
    pc_test_rng rng = {3};
    for (int i = 0; i < VOCAB; i++)
        logits[i] = 2 * pc_test_normal(&rng);
    for (int round = 0; round < 6; round++) {
        float top_p = (float[]){0.05f, 0.3f, 0.7f, 0.9f, 0.99f, 0.9999f}[round];
        double total = 0;
        pc__sampler s = start(1, 0, top_p, 0, 5, VOCAB);
        for (int i = 0; i < VOCAB; i++)
            total += exp((double)logits[i]);
        for (int i = 0; i < 2000; i++) {
            int32_t token = draw(&s, logits);
            double before = 0; /* mass of all likelier tokens: the drawn one belongs to the nucleus
                                  if it is below top_p */
            for (int j = 0; j < VOCAB; j++)
                before += logits[j] > logits[token] ? exp((double)logits[j]) : 0;
            if (!CHECK(before < (double)top_p * total))
                break;
        }
        pc__sampler_end(&s);
    }
}

static void top_k_is_a_set(void)
{
    float logits[VOCAB];
    uint8_t drawn[VOCAB] = {0};
    int different = 0;
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)((i * 37) % VOCAB) * 1e-4f;
    pc__sampler s = start(1, 40, 0, 0, 5, VOCAB);
    for (int i = 0; i < 4000; i++) {
        int32_t token = draw(&s, logits);
        CHECK(logits[token] >= (VOCAB - 40) * 1e-4f - 1e-6f);
        different += !drawn[token];
        drawn[token] = 1;
    }
    CHECK_INT(different, 40);
    pc__sampler_end(&s);
}

/* Any number of candidates, many of them equal, in any order: the selection ends, and is right. */
static void selection(void)
{
    pc_test_rng rng = {8};
    for (int round = 0; round < 2000; round++) {
        size_t vocab = 2 + pc_test_bits(&rng) % 60;
        uint32_t k = 2 + (uint32_t)(pc_test_bits(&rng) % vocab), better = 0;
        float logits[64];
        pc__sampler s = start(1, k, 0, 0, (uint64_t)round, vocab);
        for (size_t i = 0; i < vocab; i++)
            logits[i] = (float)(pc_test_bits(&rng) % 8);
        int32_t token = draw(&s, logits);
        for (size_t i = 0; i < vocab; i++)
            better += logits[i] > logits[token]
                      || (logits[i] >= logits[token] && (int32_t)i < token);
        CHECK(better < k);
        pc__sampler_end(&s);
    }
}

/* Goes on as the other does: what a fork does, but for the seed. */
static pc_status copy_sampler(pc__sampler *to, const pc__sampler *from)
{
    pc_status status = pc__sampler_init(to, from->mem, &from->options, 0, from->vocab);
    if (status < 0)
        return status;
    memcpy(to->state, from->state, sizeof to->state);
    return pc__sampler_replay(to, from);
}

static void reproducible(void)
{
    float logits[VOCAB] = {0};
    int32_t first[50], same = 0;
    pc__sampler a = start(1, 0, 0, 0, 42, VOCAB), b = start(1, 0, 0, 0, 43, VOCAB), copy;
    pc_sampling o = {.temperature = 1, .seed = 41};
    for (int i = 0; i < 50; i++)
        first[i] = draw(&a, logits);
    pc__sampler_end(&a);
    a = start(1, 0, 0, 0, 42, VOCAB);
    for (int i = 0; i < 25; i++)
        CHECK_INT(draw(&a, logits), first[i]);
    CHECK_OK(copy_sampler(&copy, &a));
    for (int i = 25; i < 50; i++) {
        CHECK_INT(draw(&a, logits), first[i]);
        CHECK_INT(draw(&copy, logits), first[i]);
        same += draw(&b, logits) == first[i];
    }
    CHECK(same < 5);
    pc__sampler_end(&copy);
    CHECK_OK(pc__sampler_init(&copy, &pc__libc_allocator, &o, 1, VOCAB)); /* seed 41 + 1 */
    CHECK_INT(draw(&copy, logits), first[0]);
    pc__sampler_end(&copy);
    pc__sampler_end(&a);
    pc__sampler_end(&b);
}

static void greedy_and_penalty(void)
{
    static const float logits[5] = {1, 3, 3, 2.5f, -1}, negative[3] = {-1, -1.5f, -4};
    static const float none[3] = {NAN, -INFINITY, NAN}, some[3] = {NAN, -INFINITY, -7};
    float copy[3];
    int32_t token = -1;
    pc__sampler s = start(0, 0, 0, 0, 1, 5);
    CHECK_INT(draw(&s, logits), 1); /* equal: the lower id */
    CHECK_INT(draw(&s, logits), 1);
    pc__sampler_end(&s);
    s = start(0, 0, 0, 1.3f, 1, 5);
    CHECK_INT(draw(&s, logits), 1);
    CHECK_INT(draw(&s, logits), 2); /* 3 / 1.3 < 3 */
    CHECK_INT(draw(&s, logits), 3);
    CHECK_INT(draw(&s, logits), 1);
    pc__sampler_end(&s);
    s = start(0, 0, 0, 2, 1, 3);
    CHECK_OK(pc__sampler_reserve(&s, 1));
    pc__sampler_note(&s, 0);
    CHECK_INT(draw(&s, negative), 1); /* -1 * 2 < -1.5 */
    pc__sampler_end(&s);
    s = start(0, 0, 0, 2, 1, 3);
    CHECK_OK(pc__sampler_reserve(&s, 1));
    pc__sampler_note(&s, 0);
    pc__sampler_drop(&s, 1);
    CHECK_INT(draw(&s, negative), 0);
    pc__sampler_end(&s);
    for (int warm = 0; warm <= 1; warm++) {
        s = start((float)warm, 0, 0, 0, 1, 3);
        memcpy(copy, none, sizeof copy);
        CHECK_STATUS(pc__sampler_draw(&s, copy, &token), PC_ERR_INVALID);
        CHECK_ERROR_HAS("no token is left");
        CHECK_INT(draw(&s, some), 2);
        pc__sampler_end(&s);
    }
}

/* ------------------------------------------------------------------ a slow reference */

enum { MOST = 48 };

/* What was noted and drawn so far. */
typedef struct past {
    int32_t token[MOST];
    uint8_t drawn[MOST];
    size_t count;
} past;

static int names(const int32_t *list, size_t count, int32_t token)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == token)
            return 1;
    return 0;
}

/* The longest repeat that `next` would go on with. */
static size_t repeat_of(const pc_sampling *o, const past *h, size_t begin, int32_t next)
{
    size_t most = 0;
    for (size_t j = begin; j + 1 < h->count; j++) {
        size_t n = 0;
        while (n <= j - begin && h->token[j - n] == h->token[h->count - 1 - n]
               && !names(o->dry_breakers, o->dry_breaker_count, h->token[j - n]))
            n++;
        if (h->token[j + 1] == next && n > most)
            most = n;
    }
    return names(o->dry_breakers, o->dry_breaker_count, next) ? 0 : most;
}

static double changed(const pc_sampling *o, const past *h, int32_t token, double l)
{
    size_t last = o->penalty_last_tokens, begin = last && last < h->count ? h->count - last : 0;
    size_t allowed = o->dry_allowed_length ? o->dry_allowed_length : 2, seen = 0, drawn = 0;
    for (size_t i = 0; i < o->bias_count; i++)
        l += o->bias_tokens[i] == token ? (double)o->bias_values[i] : 0;
    for (size_t i = begin; i < h->count; i++) {
        seen += h->token[i] == token;
        drawn += h->token[i] == token && h->drawn[i];
    }
    if (seen && o->repetition_penalty > 0)
        l = l > 0 ? l / (double)o->repetition_penalty : l * (double)o->repetition_penalty;
    l -= (double)o->frequency_penalty * (double)drawn;
    l -= drawn ? (double)o->presence_penalty : 0;
    if (o->dry_multiplier > 0 && repeat_of(o, h, begin, token) >= allowed)
        l -= (double)o->dry_multiplier
             * pow(o->dry_base > 0 ? (double)o->dry_base : 1.75,
                   (double)(repeat_of(o, h, begin, token) - allowed));
    return l;
}

/* Sets all of p to 0 but for the first tokens of a falling `score`, the lower id first, up to the
 * mass `top`, or up to `k`. */
static void keep_first(double *p, const double *score, size_t vocab, double top, size_t k)
{
    uint8_t kept[MOST] = {0};
    double total = 0, mass = 0;
    size_t n = 0;
    for (size_t i = 0; i < vocab; i++)
        total += p[i];
    while (n < k && mass < top * total) {
        int best = -1;
        for (size_t i = 0; i < vocab; i++)
            if (!kept[i] && p[i] > 0 && (best < 0 || score[i] > score[best]))
                best = (int)i;
        if (best < 0)
            break;
        kept[best] = 1;
        mass += p[best];
        n++;
    }
    for (size_t i = 0; i < vocab; i++)
        p[i] = kept[i] ? p[i] : 0;
}

static void normalise(double *p, size_t vocab)
{
    double total = 0;
    for (size_t i = 0; i < vocab; i++)
        total += p[i];
    for (size_t i = 0; i < vocab; i++)
        p[i] /= total;
}

/* The probabilities by the definitions, one after the other. */
static void reference(const pc_sampling *o, const past *h, const float *logits, size_t vocab,
                      double *p)
{
    double l[MOST] = {0}, score[MOST], most = -INFINITY, entropy = 0;
    int greedy = o->temperature < 1e-5f || o->top_k == 1;
    for (size_t i = 0; i < vocab; i++) {
        l[i] = changed(o, h, (int32_t)i, (double)logits[i]);
        most = l[i] > most ? l[i] : most;
    }
    for (size_t i = 0; i < vocab; i++)
        p[i] = greedy ? l[i] >= most : exp((l[i] - most) / (double)o->temperature);
    for (size_t i = 0; i < vocab; i++)
        p[i] = p[i] >= (double)o->min_p ? p[i] : 0; /* the highest is 1 */
    if (o->top_k)
        keep_first(p, l, vocab, 2, o->top_k);
    normalise(p, vocab);
    for (size_t i = 0; i < vocab; i++)
        entropy -= p[i] > 0 ? p[i] * log(p[i]) : 0;
    for (size_t i = 0; i < vocab; i++)
        score[i] = -fabs(-log(p[i]) - entropy);
    if (o->typical_p > 0 && o->typical_p < 1)
        keep_first(p, score, vocab, (double)o->typical_p, MOST);
    if (o->top_p > 0 && o->top_p < 1)
        keep_first(p, l, vocab, (double)o->top_p, MOST);
    normalise(p, vocab);
}

/* Draws many tokens, each from the same state: only possible ones, and all of the likely ones. */
static int agrees(pc__sampler *s, const pc_sampling *o, const past *h, const float *logits)
{
    double p[MOST];
    uint8_t drawn[MOST] = {0};
    int good = 1;
    reference(o, h, logits, s->vocab, p);
    for (int i = 0; i < 80; i++) {
        drawn[draw(s, logits)] = 1;
        pc__sampler_drop(s, 1);
    }
    for (size_t i = 0; i < s->vocab; i++)
        good &= (p[i] > 0 || !drawn[i]) && (p[i] < 0.2 || drawn[i]);
    return good;
}

static void random_sampling(pc_test_rng *rng, pc_sampling *o, size_t vocab, int32_t *tokens,
                            float *values)
{
    *o = (pc_sampling)PC_SAMPLING_INIT;
#define MAYBE(field, value) o->field = pc_test_bits(rng) % 2 ? (value) : 0
    MAYBE(temperature, 0.3f + 2 * pc_test_uniform(rng));
    MAYBE(top_p, pc_test_uniform(rng));
    MAYBE(top_k, (uint32_t)(pc_test_bits(rng) % 9));
    MAYBE(min_p, 0.6f * pc_test_uniform(rng));
    MAYBE(typical_p, pc_test_uniform(rng));
    MAYBE(repetition_penalty, 0.5f + 2 * pc_test_uniform(rng));
    MAYBE(presence_penalty, 2 * pc_test_normal(rng));
    MAYBE(frequency_penalty, pc_test_normal(rng));
    MAYBE(dry_multiplier, 5 * pc_test_uniform(rng));
    MAYBE(dry_base, 1 + 2 * pc_test_uniform(rng));
    MAYBE(dry_allowed_length, (uint32_t)(pc_test_bits(rng) % 4));
    MAYBE(penalty_last_tokens, 1 + (uint32_t)(pc_test_bits(rng) % 30));
    MAYBE(dry_breaker_count, pc_test_bits(rng) % 3);
    MAYBE(bias_count, pc_test_bits(rng) % 4);
#undef MAYBE
    o->seed = pc_test_bits(rng);
    for (size_t i = 0; i < 8; i++) {
        tokens[i] = (int32_t)(pc_test_bits(rng) % (i < 4 || vocab < 4 ? vocab : 4));
        values[i] = i % 4 ? 2 * pc_test_normal(rng) : -INFINITY;
    }
    if (o->bias_count && tokens[0] == 0)
        values[0] = 1; /* token 0 is always possible */
    o->bias_tokens = tokens;
    o->bias_values = values;
    o->dry_breakers = tokens + 4;
}

/* Draws the token, as the only possible one; but a biased one may be forbidden. */
static void draw_this(pc__sampler *s, int32_t token)
{
    float only[MOST];
    for (size_t i = 0; i < s->vocab; i++)
        only[i] = -INFINITY;
    only[token] = 1;
    CHECK_INT(draw(s, only), token);
}

/* Tokens come and are taken back. They are few different ones, so that much is repeated. */
static void live(pc_test_rng *rng, pc__sampler *s, past *h)
{
    size_t steps = pc_test_bits(rng) % 60;
    for (size_t i = 0; i < steps; i++) {
        size_t what = pc_test_bits(rng) % 8;
        int32_t token = (int32_t)(pc_test_bits(rng) % (s->vocab < 4 ? s->vocab : 4));
        if (what == 0) {
            size_t gone = h->count ? pc_test_bits(rng) % h->count : 0;
            pc__sampler_drop(s, gone);
            h->count -= gone;
        } else if (h->count < MOST) {
            int drawn = what > 3
                        && !(s->options.bias_count
                             && names(s->options.bias_tokens, s->options.bias_count, token));
            if (drawn) {
                draw_this(s, token);
            } else {
                CHECK_OK(pc__sampler_reserve(s, 1));
                pc__sampler_note(s, token);
            }
            h->token[h->count] = token;
            h->drawn[h->count++] = (uint8_t)drawn;
        }
    }
}

static void as_reference(void)
{
    pc_test_rng rng = {77};
    for (int round = 0; round < 6000; round++) {
        size_t vocab = 1 + pc_test_bits(&rng) % (MOST - 1);
        float logits[MOST], values[8], other_values[8];
        int32_t tokens[8], other_tokens[8];
        pc_sampling o, other, read;
        pc__sampler s, fork, copy;
        past h = {.count = 0};
        random_sampling(&rng, &o, vocab, tokens, values);
        random_sampling(&rng, &other, vocab, other_tokens, other_values);
        for (size_t i = 0; i < vocab; i++)
            logits[i] = 2 * pc_test_normal(&rng);
        CHECK_OK(pc__sampling_read(&read, &o, "test"));
        CHECK_OK(pc__sampler_init(&s, &pc__libc_allocator, &read, 0, vocab));
        live(&rng, &s, &h);
        int good = agrees(&s, &o, &h, logits);
        CHECK_OK(pc__sampler_init(&fork, &pc__libc_allocator, &other, 0, vocab));
        CHECK_OK(pc__sampler_replay(&fork, &s));
        good &= agrees(&fork, &other, &h, logits);
        CHECK_OK(copy_sampler(&copy, &s));
        for (int i = 0; i < 3; i++)
            good &= draw(&s, logits) == draw(&copy, logits);
        pc__sampler_drop(&copy, 3);
        good &= agrees(&copy, &o, &h, logits);
        pc__sampler_end(&s);
        pc__sampler_end(&fork);
        pc__sampler_end(&copy);
        if (!CHECK(good)) {
            fprintf(stderr, "    round %d\n", round);
            break;
        }
    }
}

/* Each filter alone and some together, by many draws. */
static void filtered_distributions(void)
{
    static const float logits[10] = {0.1f, 2.0f, -1.0f, 1.5f, 1.4f, 0.7f, -3.0f, 0.0f, 2.2f, -0.4f};
    static const int32_t biased[] = {2, 8}, breakers[] = {9};
    static const float values[] = {3, -INFINITY};
    const pc_sampling cases[] = {
        {.min_p = 0.2f},
        {.typical_p = 0.5f},
        {.typical_p = 0.9f, .top_p = 0.8f},
        {.min_p = 0.1f, .top_k = 5, .top_p = 0.9f},
        {.presence_penalty = 1},
        {.frequency_penalty = 0.5f, .repetition_penalty = 1.2f},
        {.presence_penalty = -1, .penalty_last_tokens = 2},
        {.dry_multiplier = 0.8f},
        {.dry_multiplier = 0.8f, .dry_breakers = breakers, .dry_breaker_count = 1},
        {.bias_tokens = biased, .bias_values = values, .bias_count = 2},
    };
    past h = {{1, 3, 9, 3, 4, 1, 3, 9, 3}, {1, 1, 0, 0, 1, 1, 1, 1, 0}, 9};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        enum { N = 20000 };
        double p[MOST], chi = 0;
        int counts[10] = {0};
        pc_sampling o = cases[c];
        pc__sampler s;
        o.temperature = 0.9f;
        o.seed = 5 + c;
        CHECK_OK(pc__sampler_init(&s, &pc__libc_allocator, &o, 0, 10));
        for (size_t i = 0; i < h.count; i++) {
            CHECK_OK(pc__sampler_reserve(&s, 1));
            if (h.drawn[i])
                draw_this(&s, h.token[i]);
            else
                pc__sampler_note(&s, h.token[i]);
        }
        reference(&o, &h, logits, 10, p);
        for (int i = 0; i < N; i++) {
            counts[draw(&s, logits)]++;
            pc__sampler_drop(&s, 1);
        }
        for (int i = 0; i < 10; i++)
            if (p[i] <= 0)
                CHECK_INT(counts[i], 0);
            else
                chi += (counts[i] - N * p[i]) * (counts[i] - N * p[i]) / (N * p[i]);
        if (!CHECK(chi < 33.7))
            fprintf(stderr, "    case %zu: chi-square %g\n", c, chi);
        pc__sampler_end(&s);
    }
}

/* Worst repeats take time in proportion to their length, and large numbers forbid nothing. */
static void long_repeats(void)
{
    enum { TOKENS = 200000 };
    static const float logits[3] = {1, 1, -3e38f};
    pc_sampling o = {.dry_multiplier = 3e38f, .dry_base = 3e38f, .frequency_penalty = 3e38f};
    pc__sampler s;
    CHECK_OK(pc__sampler_init(&s, &pc__libc_allocator, &o, 0, 3));
    CHECK_OK(pc__sampler_reserve(&s, TOKENS + 10));
    for (int i = 0; i < TOKENS; i++)
        pc__sampler_note(&s, 0);
    CHECK_INT(draw(&s, logits), 1);
    pc__sampler_drop(&s, 1);
    for (int i = 0; i < 3; i++)
        draw(&s, logits);
    for (int i = 0; i < 3; i++) {
        float only[3] = {i == 0 ? 1 : -INFINITY, i == 1 ? 1 : -INFINITY, i == 2 ? 1 : -INFINITY};
        CHECK_INT(draw(&s, only), i);
    }
    pc__sampler_end(&s);
}

static void tokens_of_options(void)
{
    const int32_t good[] = {0, 9}, bad[] = {3, 10}, negative[] = {-1};
    const float zeros[2] = {0, 0}, forbidden[2] = {-INFINITY, -INFINITY};
    float logits[2] = {1, 2}, infinite[2] = {1, INFINITY};
    int32_t token;
    pc__sampler s;
    pc_sampling o = {.bias_tokens = good, .bias_values = zeros, .bias_count = 2};
    CHECK_OK(pc__sampler_init(&s, &pc__libc_allocator, &o, 0, 10));
    pc__sampler_end(&s);
    o.bias_tokens = bad;
    CHECK_STATUS(pc__sampler_init(&s, &pc__libc_allocator, &o, 0, 10), PC_ERR_INVALID);
    CHECK_ERROR_HAS("bias_tokens[1] is 10, the vocabulary has 10 tokens");
    o = (pc_sampling){.dry_multiplier = 1, .dry_breakers = negative, .dry_breaker_count = 1};
    CHECK_STATUS(pc__sampler_init(&s, &pc__libc_allocator, &o, 0, 10), PC_ERR_INVALID);
    CHECK_ERROR_HAS("dry_breakers[0] is -1,");
    o = (pc_sampling){.bias_tokens = (int32_t[]){0, 1}, .bias_values = forbidden, .bias_count = 2};
    CHECK_OK(pc__sampler_init(&s, &pc__libc_allocator, &o, 0, 2));
    CHECK_STATUS(pc__sampler_draw(&s, logits, &token), PC_ERR_INVALID);
    CHECK_ERROR_HAS("on_logits, the grammar and min_tokens together forbid all");
    pc__sampler_end(&s);
    s = start(0, 0, 0, 0, 0, 2);
    CHECK_STATUS(pc__sampler_draw(&s, infinite, &token), PC_ERR_INVALID);
    CHECK_ERROR_HAS("the logit of token 1 is infinite");
    pc__sampler_end(&s);
}

/* Every allocation fails once. */
static void without_memory(void)
{
    const int32_t named[] = {3, 4};
    const float values[] = {1, 2}, logits[5] = {1, 2, 3, 4, 5};
    pc_sampling o = {.temperature = 1,
                     .dry_multiplier = 1,
                     .dry_breakers = named,
                     .dry_breaker_count = 2,
                     .bias_tokens = named,
                     .bias_values = values,
                     .bias_count = 2};
    for (uint64_t at = 1, more = 1; more; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        float copied[5];
        pc__sampler s = {.mem = NULL}, copy = {.mem = NULL};
        int32_t token;
        pc_status status = pc__sampler_init(&s, &mem, &o, 0, 5);
        for (int i = 0; i < 40 && status >= 0; i++) {
            memcpy(copied, logits, sizeof copied);
            status = pc__sampler_draw(&s, copied, &token);
        }
        if (status >= 0)
            status = copy_sampler(&copy, &s);
        more = memory.calls >= at;
        CHECK_STATUS(status, more ? PC_ERR_NOMEM : PC_OK);
        pc__sampler_end(&copy);
        pc__sampler_end(&s);
        CHECK_INT(memory.live_blocks, 0);
        CHECK(at < 60);
    }
}

static void arguments(void)
{
    const struct {
        pc_sampling sampling;
        const char *text;
    } bad[] = {
        {{.temperature = -1}, "temperature is -1, not"},
        {{.temperature = NAN}, "temperature is nan, not"},
        {{.temperature = INFINITY}, "temperature is inf, not"},
        {{.top_p = -0.1f}, "top_p is -0.1, not"},
        {{.top_p = 1.1f}, "top_p is 1.1, not"},
        {{.top_p = NAN}, "top_p is nan, not"},
        {{.repetition_penalty = -1}, "repetition_penalty is -1, not"},
        {{.repetition_penalty = NAN}, "repetition_penalty is nan, not"},
        {{.min_p = 1.5f}, "min_p is 1.5, not in 0 to 1"},
        {{.min_p = NAN}, "min_p is nan, not"},
        {{.typical_p = -1}, "typical_p is -1, not in 0 to 1"},
        {{.presence_penalty = INFINITY}, "presence_penalty is inf, not a finite number"},
        {{.presence_penalty = NAN}, "presence_penalty is nan, not"},
        {{.frequency_penalty = -INFINITY}, "frequency_penalty is -inf, not"},
        {{.dry_multiplier = -1}, "dry_multiplier is -1, not a finite number from 0"},
        {{.dry_base = 0.5f}, "dry_base is 0.5, not 0 or a finite number from 1"},
        {{.dry_base = NAN}, "dry_base is nan, not"},
        {{.dry_base = INFINITY}, "dry_base is inf, not"},
        {{.dry_breaker_count = 1}, "dry_breakers is NULL"},
        {{.bias_count = 1}, "bias_tokens is NULL"},
        {{.bias_count = 1, .bias_tokens = (int32_t[]){7}}, "bias_values is NULL"},
        {{.bias_count = 1, .bias_tokens = (int32_t[]){7}, .bias_values = (float[]){NAN}},
         "bias_values[0], of token 7, is nan"},
        {{.bias_count = 1, .bias_tokens = (int32_t[]){7}, .bias_values = (float[]){INFINITY}},
         "bias_values[0], of token 7, is inf"},
    };
    static const pc_sampling zeros = {.struct_size = sizeof zeros};
    pc_sampling read;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pc_sampling one = bad[i].sampling;
        CHECK_STATUS(pc__sampling_read(&read, &one, "pc_x"), PC_ERR_INVALID);
        CHECK_ERROR_HAS("struct_size 0");
        one.struct_size = sizeof one;
        CHECK_STATUS(pc__sampling_read(&read, &one, "pc_x"), PC_ERR_INVALID);
        CHECK_ERROR_HAS("pc_x: ");
        CHECK_ERROR_HAS(bad[i].text);
    }
    CHECK_OK(pc__sampling_read(&read, NULL, "pc_x"));
    CHECK(!memcmp(&read, &zeros, sizeof read));
}

int main(void)
{
    distributions();
    large_nucleus();
    top_k_is_a_set();
    selection();
    reproducible();
    greedy_and_penalty();
    as_reference();
    filtered_distributions();
    long_repeats();
    tokens_of_options();
    without_memory();
    arguments();
    return pc_test_end();
}
