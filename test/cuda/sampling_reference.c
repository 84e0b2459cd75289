/* Samples with the library's own sampler. */
#include "sampling_reference.h"

#include <promptcache/sampling.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "serve/sampler.h"
#include "testing.h"

int32_t reference_sample(float *logits, size_t vocab, uint64_t bits, float temperature,
                         uint32_t top_k, float top_p, float penalty, uint8_t *penalised)
{
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc_sampling options = PC_SAMPLING_INIT;
    pc__sampler sampler;
    int32_t token = -1;
    options.temperature = temperature;
    options.top_k = top_k;
    options.top_p = top_p;
    options.repetition_penalty = penalised ? penalty : 1.0f;
    if (pc__sampler_init(&sampler, &mem, &options, 0, vocab) < 0)
        abort();
    /* xoshiro256++ gives rotate_left(x[0] + x[3], 23) + x[0] */
    sampler.state[0] = 0;
    sampler.state[3] = bits >> 23 | bits << 41;
    if (pc__sampler_reserve(&sampler, vocab) < 0)
        abort();
    for (size_t i = 0; penalised && i < vocab; i++)
        if (penalised[i])
            pc__sampler_note(&sampler, (int32_t)i);
    if (pc__sampler_draw(&sampler, logits, &token) < 0)
        token = -1;
    else if (penalised && sampler.place)
        penalised[token] = 1;
    pc__sampler_end(&sampler);
    return token;
}
