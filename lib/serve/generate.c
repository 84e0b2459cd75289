/* pc_generate: the samples of one request, from prompt to statistics. */
#include <promptcache/batch.h>
#include <string.h>

#include "base/options.h"
#include "serve/request.h"
#include "serve/sequence.h"

/* The samples of one request. */
typedef struct generating {
    const pc_allocator *mem;
    pc_sequence **samples;
    uint32_t count;
    size_t vocab;
    float *logits; /* [count][vocab] */
} generating;

static pc_status reserve_samples(generating *g, uint32_t count)
{
    g->samples = pc__calloc(g->mem, count, sizeof(*g->samples));
    g->logits = pc__calloc(g->mem, count * g->vocab, sizeof *g->logits);
    return g->samples && g->logits ? PC_OK : PC_ERR_NOMEM;
}

/* All samples fork behind the prompt, and each draws from the same logits; a single one may have
 * been drawn. */
static pc_status branch_samples(generating *g, uint32_t count, const pc__drawn *drawn)
{
    for (uint32_t i = 1; i < count; i++) {
        PC__TRY_RETURN(pc__sequence_copy(&g->samples[i], g->samples[0], NULL));
        g->count++;
        memcpy(g->logits + i * g->vocab, g->logits, g->vocab * sizeof *g->logits);
    }
    for (uint32_t i = 0; i < count; i++) {
        pc__sequence_sample(g->samples[i], g->logits + i * g->vocab, drawn);
        PC__TRY_RETURN(pc_sequence_error(g->samples[i], NULL));
    }
    return PC_OK;
}

/* One failed sample ends them all. */
static pc_status step_samples(const generating *g)
{
    PC__TRY_RETURN(pc__sequences_step(g->samples, NULL, g->count, g->logits));
    for (uint32_t i = 0; i < g->count; i++)
        PC__TRY_RETURN(pc_sequence_error(g->samples[i], NULL));
    return PC_OK;
}

static pc_status run_samples(generating *g, uint32_t count)
{
    pc__first_token first;
    pc__drawn *drawn = count == 1 ? &first.drawn : NULL;
    pc_status status = pc__sequence_prefill(g->samples[0], g->logits, drawn);
    if (status >= 0)
        status = branch_samples(g, count, drawn);
    while (status >= 0 && pc__any_sequence_runs(g->samples, g->count))
        status = step_samples(g);
    return status;
}

static void sum_stats(const generating *g, pc_stats *stats)
{
    pc_stats s = g->samples[0]->stats;
    for (uint32_t i = 1; i < g->count; i++) {
        s.tokens_generated += g->samples[i]->stats.tokens_generated;
        if (g->samples[i]->stats.seconds_decode > s.seconds_decode)
            s.seconds_decode = g->samples[i]->stats.seconds_decode;
    }
    pc__result_write(stats, PC__V1_SIZE(pc_stats, tokens_uncached), &s, sizeof s, "pc_stats");
}

static void end_generating(generating *g, pc_stats *stats)
{
    if (stats && g->count)
        sum_stats(g, stats);
    for (uint32_t i = 0; i < g->count; i++)
        pc_sequence_free(g->samples[i]);
    pc__free(g->mem, g->samples);
    pc__free(g->mem, g->logits);
}

static pc_status check_arguments(const pc_prompt *prompt, pc_stats *stats)
{
    static const pc_stats nothing = PC__STATS_START;
    if (stats) {
        PC__TRY_RETURN(pc__result_write(stats, PC__V1_SIZE(pc_stats, tokens_uncached), &nothing,
                                        sizeof nothing, "pc_stats"));
    }
    if (!prompt)
        return pc__fail(PC_ERR_INVALID, "pc_generate: prompt is NULL");
    return pc__model_can_go_on(prompt->model);
}

pc_status pc_generate(const pc_prompt *prompt, pc_cache *cache, const pc_generate_options *options,
                      pc_stats *stats)
{
    PC__HOLD(pc_prompt, prompt);
    PC__HOLD(pc_cache, cache);
    generating g = {0};
    pc__generation generation = {0};
    uint32_t samples;
    pc_status status;
    PC__TRY_RETURN(check_arguments(prompt, stats));
    g.mem = &prompt->model->context->mem;
    g.vocab = (size_t)prompt->model->info.vocab;
    PC__TRY(pc__generation_init(&generation, prompt->model, options, "pc_generate"), done);
    samples = generation.options.samples;
    if (samples > 1 && !prompt->model->ops.fork) {
        status = pc__fail(PC_ERR_UNSUPPORTED,
                          "pc_generate: %u samples need a model that can fork a sequence", samples);
        goto done;
    }
    PC__TRY(reserve_samples(&g, samples), done);
    PC__TRY(pc__sequence_make(&g.samples[0], prompt, cache, &generation), done);
    g.count = 1;
    status = run_samples(&g, samples);
done:
    end_generating(&g, stats);
    pc__generation_end(&generation, &prompt->model->context->mem);
    return status;
}
