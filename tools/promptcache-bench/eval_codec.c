/* The folder of a codec, the reference answer, and the comparison of both, token by token. */
#include "eval_codec.h"

#include <promptcache/cache.h>
#include <promptcache/batch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file_tree.h"

const char *const eval_codec_names[EVAL_CODEC_COUNT] = {"raw", "zstd", "int8", "int4"};

struct codec_folder {
    pc_cache *cache;
    char path[4096];
};

int codec_folder_open(codec_folder **out, pc_context *context, size_t codec)
{
    pc_cache_options options = PC_CACHE_OPTIONS_INIT;
    codec_folder *f = calloc(1, sizeof *f);
    int code = EXIT_OK;
    if (!f)
        return plain_error("out of memory");
    snprintf(f->path, sizeof f->path, "%s/promptcache-eval-XXXXXX", temporary_folder());
    if (!mkdtemp(f->path)) {
        f->path[0] = 0;
        code = plain_error("no folder can be made for the codec %s", eval_codec_names[codec]);
    }
    options.flags = PC_CACHE_ALWAYS_LOAD;
    options.disk_path = f->path;
    options.disk_codec = (uint32_t)codec + PC_CODEC_RAW;
    options.deadline_seconds = 60;
    if (code == EXIT_OK && pc_cache_new(&f->cache, context, &options) < 0)
        code = input_error("cache", NULL);
    if (code != EXIT_OK) {
        codec_folder_close(f);
        f = NULL;
    }
    *out = f;
    return code;
}

void codec_folder_close(codec_folder *f)
{
    if (!f)
        return;
    pc_cache_free(f->cache);
    if (f->path[0])
        remove_tree(f->path);
    free(f);
}

void reference_free(reference *r)
{
    free(r->tokens);
    free(r->logits);
    *r = (reference){NULL, NULL, 0, 0};
}

/* A sequence of greedy tokens in its own batch, with logits. */
typedef struct stepper {
    pc_sequence *sequence;
    pc_batch *batch;
} stepper;

static pc_status stepper_new(stepper *s, const pc_model *model, const pc_prompt *prompt,
                             pc_cache *cache, const pc_generate_options *options)
{
    pc_generate_options o = *options;
    pc_status status;
    *s = (stepper){NULL, NULL};
    o.flags |= PC_GENERATE_LOGITS | PC_GENERATE_KEEP;
    o.on_text = NULL;
    if ((status = pc_sequence_new(&s->sequence, prompt, cache, &o)) < 0
        || (status = pc_batch_new(&s->batch, model, NULL)) < 0)
        return status;
    return pc_batch_add(s->batch, s->sequence);
}

static void stepper_free(stepper *s)
{
    pc_sequence_free(s->sequence);
    pc_batch_free(s->batch);
}

/* One step: the logits, and the token chosen at `index` (-1: the end, without a token). */
static pc_status step(stepper *s, size_t index, const float **logits, size_t *vocab, int32_t *token)
{
    size_t count;
    const int32_t *tokens;
    pc_status status = pc_batch_step(s->batch);
    if (status >= 0)
        status = pc_sequence_error(s->sequence, NULL);
    if (status < 0)
        return status;
    tokens = pc_sequence_tokens(s->sequence, &count);
    *token = count > index ? tokens[index] : -1;
    *logits = pc_sequence_logits(s->sequence, vocab);
    return PC_OK;
}

static int add_step(reference *r, const float *logits, int32_t token)
{
    int32_t *tokens = realloc(r->tokens, (r->count + 1) * sizeof *tokens);
    float *rows;
    r->tokens = tokens ? tokens : r->tokens;
    rows = realloc(r->logits, (r->count + 1) * r->vocab * sizeof *rows);
    r->logits = rows ? rows : r->logits;
    if (!tokens || !rows)
        return 0;
    memcpy(rows + r->count * r->vocab, logits, r->vocab * sizeof *rows);
    tokens[r->count++] = token;
    return 1;
}

pc_status reference_make(reference *r, const pc_model *model, const pc_prompt *prompt,
                         pc_cache *cache, const pc_generate_options *options)
{
    stepper s;
    int32_t token = 0;
    pc_status status = stepper_new(&s, model, prompt, cache, options);
    *r = (reference){NULL, NULL, 0, 0};
    while (status >= 0 && token >= 0 && pc_sequence_finish(s.sequence) == PC_FINISH_NONE) {
        const float *logits = NULL;
        status = step(&s, r->count, &logits, &r->vocab, &token);
        if (status >= 0 && logits && !add_step(r, logits, token))
            status = PC_ERR_NOMEM;
    }
    stepper_free(&s);
    if (status < 0)
        reference_free(r);
    return status;
}

/* The logarithm of the sum of exponentials, and the index of the largest. */
static double log_sum(const float *logits, size_t count, size_t *largest)
{
    double sum = 0;
    *largest = 0;
    for (size_t i = 1; i < count; i++)
        *largest = logits[i] > logits[*largest] ? i : *largest;
    for (size_t i = 0; i < count; i++)
        sum += exp((double)logits[i] - (double)logits[*largest]);
    return (double)logits[*largest] + log(sum);
}

static void compare(codec_loss *loss, const float *want, const float *have, size_t count)
{
    size_t a, b;
    double want_sum = log_sum(want, count, &a), have_sum = log_sum(have, count, &b), kl = 0;
    for (size_t i = 0; i < count; i++) {
        double p = (double)want[i] - want_sum, q = (double)have[i] - have_sum;
        kl += exp(p) * (p - q);
    }
    loss->kl += kl;
    loss->agree += a == b;
    loss->tokens++;
}

/* Predicts each token of the reference behind those before it. */
static pc_status predict(codec_folder *f, const pc_model *model, const pc_prompt *prompt,
                         const pc_generate_options *options, const reference *r, codec_loss *loss)
{
    stepper s;
    pc_status status = stepper_new(&s, model, prompt, f->cache, options);
    for (size_t i = 0; status >= 0 && i < r->count; i++) {
        const float *logits = NULL;
        size_t vocab = 0;
        int32_t token = -1;
        if ((status = step(&s, i, &logits, &vocab, &token)) < 0 || !logits || vocab != r->vocab)
            break;
        compare(loss, r->logits + i * vocab, logits, vocab);
        if (r->tokens[i] >= 0
            && token != r->tokens[i]) { /* go on with the token of the reference */
            status = token >= 0 ? pc_sequence_truncate(s.sequence, i) : PC_OK;
            if (status == PC_ERR_UNSUPPORTED) { /* nothing remains behind the prompt */
                status = PC_OK;
                break;
            }
            if (status >= 0)
                status = pc_sequence_push(s.sequence, &r->tokens[i], 1);
        }
    }
    stepper_free(&s);
    return status;
}

pc_status codec_folder_ask(codec_folder *f, const pc_model *model, const pc_prompt *prompt,
                           const pc_generate_options *options, const reference *r, pc_stats *stats,
                           codec_loss *loss)
{
    pc_generate_options fill = *options;
    pc_status status;
    fill.max_tokens = 1;
    fill.on_text = NULL;
    if ((status = pc_generate(prompt, f->cache, &fill, NULL)) < 0
        || (status = pc_cache_flush(f->cache)) < 0 || (status = pc_cache_clear(f->cache)) < 0
        || (status = predict(f, model, prompt, options, r, loss)) < 0
        || (status = pc_cache_clear(f->cache)) < 0
        || (status = pc_generate(prompt, f->cache, options, stats)) < 0)
        return status;
    return stats->tokens_tier[PC_TIER_DISK] ? PC_OK : PC_MISS;
}
