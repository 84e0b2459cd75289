/* One sampler a row, whose next random number is the one of the draw. */
#include "host_sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/logprobs.h"
#include "serve/sampler.h"

static int any_finite(const float *logits, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (isfinite(logits[i]))
            return 1;
    return 0;
}

static void start(pc__sampler *s, const pc__draw *draw)
{
    const uint64_t bits = (uint64_t)(draw->random * 0x1p53) << 11;
    const pc_sampling options = {.struct_size = sizeof options,
                                 .temperature = draw->temperature,
                                 .top_p = draw->top_p,
                                 .min_p = draw->min_p,
                                 .top_k = draw->top_k};
    if (pc__sampler_init(s, &pc__libc_allocator, &options, 0, draw->vocab) < 0)
        abort();
    /* xoshiro256++ gives rotate_left(x[0] + x[3], 23) + x[0] */
    s->state[0] = 0;
    s->state[3] = bits >> 23 | bits << 41;
}

/* By logits that were changed. */
static void choose(const pc__draw *draw, float *logits, pc__drawn *out)
{
    pc__sampler s;
    float most = -INFINITY;
    start(&s, draw);
    for (size_t i = 0; i < draw->vocab; i++)
        if (logits[i] > most) {
            most = logits[i];
            out->token = (int32_t)i;
        }
    out->outcome = most > -INFINITY ? isinf(most) ? PC__DRAWN_INFINITE : PC__DRAWN
                                    : PC__DRAWN_NOTHING;
    if (out->outcome == PC__DRAWN && pc__sampler_draw(&s, logits, &out->token) < 0)
        abort();
    pc__sampler_end(&s);
}

static void list_likely(const pc__draw *draw, const float *logits, pc__drawn *out)
{
    pc__likely *likely = (pc__likely *)(void *)(out + 1);
    pc__logprobs of;
    pc__logprobs_of(&of, logits, draw->vocab, draw->likely);
    if (out->outcome == PC__DRAWN)
        out->logprob = pc__logprob(&of, logits[out->token]);
    for (uint32_t i = 0; i < draw->likely; i++)
        likely[i] = i < of.count ? (pc__likely){of.logprobs[i], of.tokens[i], 0}
                                 : (pc__likely){0, -1, 0};
}

void host_sample(const float *logits, size_t stride, const pc__draws *draws)
{
    for (size_t i = 0; i < draws->count; i++) {
        const pc__draw *draw = &draws->list[i];
        const float *row = logits + (draw->row - draws->first) * stride;
        pc__drawn *out = pc__drawn_at(draws, i);
        float *changed = malloc(draw->vocab * sizeof *changed + 1);
        if (!changed)
            abort();
        memcpy(changed, row, draw->vocab * sizeof *changed);
        pc__change_logits(draw->changes, draw->change_count, changed);
        *out = (pc__drawn){0, -1, PC__DRAWN_NO_NUMBER};
        if (any_finite(row, draw->vocab)) {
            choose(draw, changed, out);
            if (draw->logprob)
                list_likely(draw, row, out);
        }
        free(changed);
    }
}
