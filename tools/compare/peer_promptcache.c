/* The side of promptcache, by its public header only, as an application would use it: prompts of
 * tokens, sequences, a batch.
 *
 *   peer_promptcache MODEL.gguf THREADS default|f32|bf16|int8
 *
 * Commands:
 *   prefill TOKENS                    a prompt up to its first token, nothing reused
 *   ttft TOKENS NEW                   the same prompt; all but NEW tokens are in the cache
 *   decode DEPTH STEPS                one sequence
 *   shared PREFIX SUFFIX BATCH STEPS  BATCH sequences over one prefix, each with SUFFIX own tokens
 *   logits TOKENS FILE
 * A batch is made once; later commands go on after its last steps. */
#include <promptcache.h>
#include <promptcache/bench.h>
#include <promptcache/extend.h>
#include <promptcache/batch.h>

#include "peer.h"

enum { LONGEST = 8192, MOST_RUNNING = 16 };

typedef struct running {
    int prefix, suffix, count;
    pc_batch *batch;
    pc_sequence *sequences[MOST_BATCH];
} running;

static struct {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_model_info info;
    running all[MOST_RUNNING];
    int count;
} side;

static int failed(void)
{
    return peer_error(pc_error_text());
}

/* A prompt of `prefix` tokens of text 0, then `suffix` of text `text`. */
static pc_prompt *prompt_of(int prefix, int suffix, int text)
{
    static int32_t tokens[LONGEST];
    pc_prompt *prompt = NULL;
    for (int i = 0; i < prefix + suffix; i++)
        tokens[i] = peer_token(i < prefix ? 0 : text, i, side.info.vocab);
    pc_prompt_from_tokens(&prompt, side.model, tokens, (size_t)(prefix + suffix), NULL);
    return prompt;
}

static pc_status first_token(const pc_prompt *prompt, pc_cache *cache, uint32_t baseline,
                             double *seconds, pc_stats *stats)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_bench_options bench = PC_BENCH_OPTIONS_INIT;
    double began = peer_now();
    pc_status status;
    bench.baseline = baseline;
    options.max_tokens = 1;
    options.bench = &bench;
    *stats = (pc_stats)PC_STATS_INIT;
    status = pc_generate(prompt, cache, &options, stats);
    *seconds = peer_now() - began;
    return status;
}

static int prefill(const peer_command *cmd)
{
    int tokens = peer_number(cmd, 1, 1, LONGEST);
    pc_prompt *prompt = tokens < 1 ? NULL : prompt_of(tokens, 0, 0);
    pc_stats stats;
    double seconds;
    pc_status status = prompt ? first_token(prompt, NULL, PC_BASELINE_PREFILL, &seconds, &stats)
                              : PC_ERR_INVALID;
    pc_prompt_free(prompt);
    if (status < 0)
        return failed();
    peer_times(&seconds, 1);
    return 1;
}

static int ttft(const peer_command *cmd)
{
    int tokens = peer_number(cmd, 1, 2, LONGEST), fresh = peer_number(cmd, 2, 1, LONGEST - 1),
        kept = tokens - fresh;
    static int text = 1000;
    pc_status status = PC_OK;
    pc_stats stats;
    double seconds = 0;
    if (fresh < 1 || kept < 1)
        return peer_error("ttft TOKENS NEW");
    for (int timed = 0; timed < 2 && status >= 0;
         timed++) { /* the first one may fill the cache; both have their own texts */
        pc_prompt *prompt = prompt_of(kept, fresh, text++);
        status = prompt ? first_token(prompt, side.cache, PC_BASELINE_NONE, &seconds, &stats)
                        : PC_ERR_INVALID;
        pc_prompt_free(prompt);
    }
    if (status < 0)
        return failed();
    if (stats.tokens_cached + 64 < (uint64_t)kept)
        return peer_error("ttft: the prefix did not come from the cache");
    peer_times(&seconds, 1);
    return 1;
}

/* ------------------------------------------------------------------ sequences */

static pc_status join(running *r, int index)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_prompt *prompt = prompt_of(r->prefix, r->suffix, index + 1);
    pc_sequence *sequence = NULL;
    pc_status status;
    options.max_tokens = 4096;
    status = prompt ? pc_sequence_new(&sequence, prompt, side.cache, &options) : PC_ERR_INVALID;
    pc_prompt_free(prompt);
    if (status < 0)
        return status;
    r->sequences[index] = sequence;
    return pc_batch_add(r->batch, sequence);
}

static void running_free(running *r)
{
    for (int i = 0; i < r->count; i++)
        pc_sequence_free(r->sequences[i]);
    pc_batch_free(r->batch);
}

/* Why a step did not give every sequence a token. */
static const char *end_of(const running *r, pc_status status)
{
    const char *text = status < 0 ? pc_error_text() : "";
    for (int i = 0; i < r->count && !*text; i++)
        pc_sequence_error(r->sequences[i], &text);
    return *text ? text : "a sequence is finished";
}

static int all_run(const running *r)
{
    for (int i = 0; i < r->count; i++)
        if (pc_sequence_finish(r->sequences[i]) != PC_FINISH_NONE)
            return 0;
    return 1;
}

/* The batch of that composition, after its prefill and a step to warm up. NULL after an error
 * message. */
static running *running_of(int prefix, int suffix, int count)
{
    running *r = side.all;
    pc_status status;
    for (int i = 0; i < side.count; i++, r++)
        if (r->prefix == prefix && r->suffix == suffix && r->count == count)
            return r;
    if (side.count == MOST_RUNNING) {
        peer_error("too many different batches");
        return NULL;
    }
    *r = (running){.prefix = prefix, .suffix = suffix, .count = count};
    status = pc_batch_new(&r->batch, side.model, NULL);
    for (int i = 0; i < count && status >= 0; i++)
        status = join(r, i);
    for (int i = 0; i < 2 && status == PC_OK; i++)
        status = pc_batch_step(r->batch);
    if (status == PC_OK && all_run(r)) {
        side.count++;
        return r;
    }
    peer_error(end_of(r, status));
    running_free(r);
    return NULL;
}

static int steps_of(running *r, int steps)
{
    double times[MOST_STEPS];
    if (!r)
        return 0;
    for (int s = 0; s < steps; s++) {
        double began = peer_now();
        pc_status status = pc_batch_step(r->batch);
        times[s] = peer_now() - began;
        if (status != PC_OK)
            return peer_error(end_of(r, status));
    }
    if (!all_run(r))
        return peer_error(end_of(r, PC_OK));
    peer_times(times, steps);
    return 1;
}

static int decode(const peer_command *cmd)
{
    int depth = peer_number(cmd, 1, 0, LONGEST - 1), steps = peer_number(cmd, 2, 1, MOST_STEPS);
    if (depth < 0 || steps < 1)
        return peer_error("decode DEPTH STEPS");
    return steps_of(running_of(depth ? depth : 1, 0, 1), steps);
}

static int shared(const peer_command *cmd)
{
    int prefix = peer_number(cmd, 1, 1, LONGEST), suffix = peer_number(cmd, 2, 1, LONGEST),
        batch = peer_number(cmd, 3, 1, MOST_BATCH), steps = peer_number(cmd, 4, 1, MOST_STEPS);
    if (prefix < 1 || suffix < 1 || batch < 1 || steps < 1 || prefix + suffix > LONGEST)
        return peer_error("shared PREFIX SUFFIX BATCH STEPS");
    return steps_of(running_of(prefix, suffix, batch), steps);
}

static int logits(const peer_command *cmd)
{
    int tokens = peer_number(cmd, 1, 1, 512);
    int32_t ids[512];
    int64_t positions[512];
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    pc_lane lane = {NULL, 0, ids, positions, (size_t)(tokens < 1 ? 0 : tokens), NULL, 0};
    float *out = tokens < 1 || cmd->count < 3
                     ? NULL
                     : malloc(lane.count * (size_t)side.info.vocab * sizeof *out);
    pc_status status;
    int good;
    if (!out)
        return peer_error("logits TOKENS FILE");
    for (int i = 0; i < tokens; i++) {
        ids[i] = peer_token(0, i, side.info.vocab);
        positions[i] = i;
    }
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.logits = out;
    status = pc_eval(side.model, &args);
    good = status >= 0
           && peer_write_logits(cmd->words[2], out, lane.count * (size_t)side.info.vocab);
    free(out);
    if (!good)
        return status < 0 ? failed() : peer_error("cannot write the file");
    peer_times(NULL, 0);
    return 1;
}

static int load(char **argv)
{
    pc_context_options context = PC_CONTEXT_OPTIONS_INIT;
    pc_model_options model = PC_MODEL_OPTIONS_INIT;
    pc_cache_options cache = PC_CACHE_OPTIONS_INIT;
    context.threads = (uint32_t)atoi(argv[2]);
    model.compute = !strcmp(argv[3], "f32")    ? PC_DTYPE_F32
                    : !strcmp(argv[3], "bf16") ? PC_DTYPE_BF16
                    : !strcmp(argv[3], "int8") ? PC_DTYPE_I8
                                               : PC_DTYPE_DEFAULT;
    cache.ram_bytes = UINT64_C(4) << 30;
    side.info = (pc_model_info)PC_MODEL_INFO_INIT;
    if (pc_context_new(&side.context, &context) < 0
        || pc_model_load(&side.model, side.context, argv[1], &model) < 0
        || pc_cache_new(&side.cache, side.context, &cache) < 0
        || pc_model_get_info(side.model, &side.info) < 0)
        return failed();
    return 1;
}

int main(int argc, char **argv)
{
    static const peer_job jobs[] = {{"prefill", prefill},
                                    {"ttft", ttft},
                                    {"decode", decode},
                                    {"shared", shared},
                                    {"logits", logits}};
    int ready;
    if (argc != 4) {
        fprintf(stderr, "usage: peer_promptcache MODEL.gguf THREADS default|f32|bf16|int8\n");
        return 2;
    }
    if ((ready = load(argv)))
        peer_serve(jobs, sizeof jobs / sizeof *jobs);
    for (int i = 0; i < side.count; i++)
        running_free(&side.all[i]);
    pc_cache_free(side.cache);
    pc_model_free(side.model);
    pc_context_free(side.context);
    return ready ? 0 : 3;
}
