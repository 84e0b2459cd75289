/* The loop: a question's prompt joins the batch when there is room for its samples. In methods that
 * share questions, its first sample computes the prompt. The others are forks of it, cut back to
 * the end of the prompt, so that each draws its first token from the prompt's logits. In other
 * methods every sample is a request of its own with the whole prompt. */
#include "draws.h"

#include <promptcache/batch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json_lines.h"

enum { SEED_STEP = 1000003 }; /* between prompts */

const draw_method draw_methods[DRAW_METHODS] = {
    {"two-levels", PC_BASELINE_NONE, 0, 1, 1, 0, 0},
    {"one-level", PC_BASELINE_COPIES, 1, 0, 1, 0, 1},
    {"no-level", PC_BASELINE_COPIES, 0, 0, 1, 0, 1},
    {"per-row", PC_BASELINE_PER_ROW, 0, 1, 1, 0, 0},
    {"recompute", PC_BASELINE_PREFILL, 0, 0, 0, 0, 2},
    {"one-by-one", PC_BASELINE_PREFILL, 0, 0, 0, 1, 2},
};

/* A sample under way. */
typedef struct drawing {
    pc_sequence *sequence;
    size_t prompt, sample;
} drawing;

/* A prompt that has begun, and some of whose samples have not. */
typedef struct family {
    pc_sequence *first; /* its first sample, kept until all are forked */
    size_t begun;       /* samples */
    int is_done;        /* the first sample is drawn */
} family;

typedef struct loop {
    draws *d;
    const draw_method *how;
    draw_run *out;
    pc_cache *cache;
    pc_batch *batch;
    drawing *active; /* [room] */
    family *families;
    uint64_t *digests;                   /* of the method's pieces */
    size_t running, room, next, waiting; /* waiting: samples of begun prompts that are to fork */
    size_t open;                         /* the first prompt that may have some */
    size_t finished;
    int is_device; /* a GPU promises less */
    double began, shown;
} loop;

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void show_progress(loop *l, int is_end)
{
    double now = machine_now();
    if (!isatty(2) || (!is_end && now - l->shown < 0.5))
        return;
    l->shown = now;
    fprintf(stderr, "\r%s: %zu of %zu answers, %.0f s   %s", l->d->what, l->finished,
            l->d->prompt_count * l->d->samples, now - l->began, is_end ? "\r\033[K" : "");
    fflush(stderr);
}

/* ------------------------------------------------------------------- begin */

static pc_sampling sampling_of(const draws *d, size_t prompt, size_t sample)
{
    pc_sampling s = d->sampling;
    s.seed += (uint64_t)prompt * SEED_STEP + sample;
    return s;
}

static pc_status begin(loop *l, size_t prompt, size_t sample)
{
    const draw_prompt *p = &l->d->prompts[prompt];
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_bench_options bench = PC_BENCH_OPTIONS_INIT;
    pc_sampling sampling = sampling_of(l->d, prompt, sample);
    drawing *to = &l->active[l->running];
    pc_status status;
    bench.baseline = l->how->baseline;
    bench.shared_tokens = l->how->keeps_context ? p->context : 0;
    o.bench = &bench;
    o.encoding = PC_ENCODE_EXACT;
    o.max_tokens = p->max_tokens;
    o.stop_strings = p->stops;
    o.stop_string_count = p->stop_count;
    o.sampling = &sampling;
    o.cancelled = is_interrupted;
    o.flags = l->how->forks && l->d->samples > 1 ? PC_GENERATE_KEEP : 0;
    *to = (drawing){NULL, prompt, sample};
    status = pc_sequence_new(&to->sequence, p->prompt, l->how->cached ? l->cache : NULL, &o);
    l->running += status >= 0;
    return status >= 0 ? pc_batch_add(l->batch, to->sequence) : status;
}

static pc_status fork_sample(loop *l, size_t prompt)
{
    family *f = &l->families[prompt];
    pc_fork_options o = PC_FORK_OPTIONS_INIT;
    pc_sampling sampling = sampling_of(l->d, prompt, f->begun);
    drawing *to = &l->active[l->running];
    pc_status status;
    *to = (drawing){NULL, prompt, f->begun};
    o.sampling = &sampling;
    if ((status = pc_sequence_fork(&to->sequence, f->first, &o)) < 0)
        return status;
    l->running++;
    l->waiting--;
    f->begun++;
    status = pc_sequence_truncate(to->sequence, 0);
    return status >= 0 ? pc_batch_add(l->batch, to->sequence) : status;
}

/* Forks what there is room for, of a prompt that is computed. */
static pc_status fork_samples(loop *l, size_t prompt)
{
    family *f = &l->families[prompt];
    pc_status status = PC_OK;
    size_t count = 1;
    if (!f->first)
        return PC_OK;
    if (!f->is_done)
        pc_sequence_tokens(f->first, &count);
    while (status >= 0 && count && f->begun < l->d->samples && l->running < l->room)
        status = fork_sample(l, prompt);
    if (f->begun == l->d->samples) {
        if (f->is_done)
            pc_sequence_free(f->first);
        f->first = NULL;
    }
    return status;
}

/* Begins the next prompt, or the next sample of it. */
static pc_status begin_next(loop *l)
{
    family *f = &l->families[l->next];
    size_t samples = l->d->samples, prompt = l->next;
    pc_status status = begin(l, prompt, f->begun);
    f->begun++;
    if (l->how->forks && samples > 1 && status >= 0) {
        f->first = l->active[l->running - 1].sequence;
        l->waiting += samples - 1;
    }
    l->next += l->how->forks || f->begun == samples;
    return status;
}

static int has_room(const loop *l)
{
    size_t needed = l->how->forks ? l->d->samples : 1;
    return l->running < l->room
           && (l->running + l->waiting + needed <= l->room || !(l->running + l->waiting));
}

static pc_status admit(loop *l)
{
    pc_status status = PC_OK;
    while (l->open < l->next && l->families[l->open].begun == l->d->samples)
        l->open++;
    for (size_t i = l->open; i < l->next && l->waiting && status >= 0; i++)
        status = fork_samples(l, i);
    while (status >= 0 && l->next < l->d->prompt_count && has_room(l))
        status = begin_next(l);
    return status;
}

/* --------------------------------------------------------------------- end */

/* Keeps an answer of the first run. 0: out of memory. */
static int keep(draw *to, const pc_sequence *s, const int32_t *tokens, size_t count)
{
    size_t size;
    const char *text = pc_sequence_text(s, &size);
    to->tokens = malloc((count + 1) * sizeof *to->tokens);
    to->text = malloc(size + 1);
    if (!to->tokens || !to->text)
        return 0;
    memcpy(to->tokens, tokens, count * sizeof *tokens);
    to->count = count;
    for (size_t i = 0; i < size; i++) /* a NUL would end the answer */
        to->text[i] = (char)(text[i] ? text[i] : ' ');
    to->text[size] = 0;
    return 1;
}

/* FNV-1a of the tokens; never 0. */
static uint64_t digest_of(const int32_t *tokens, size_t count)
{
    uint64_t digest = TEXT_DIGEST;
    for (size_t i = 0; i < count; i++)
        digest = (digest ^ (uint64_t)(uint32_t)tokens[i]) * UINT64_C(0x100000001b3);
    return digest | 1;
}

/* Compares an answer with that of the first run with the same pieces. */
static void compare_pieces(loop *l, size_t index, const int32_t *tokens, size_t count, int is_exact)
{
    uint64_t digest = digest_of(tokens, count), *first = &l->digests[index];
    if (!*first)
        *first = digest;
    if (*first == digest || !is_exact || l->is_device)
        return;
    if (!l->out->broken++)
        l->out->first_broken = index;
}

static int record(loop *l, const drawing *a)
{
    size_t count, index = a->prompt * l->d->samples + a->sample;
    const int32_t *tokens = pc_sequence_tokens(a->sequence, &count);
    draw *item = &l->d->items[index];
    pc_stats stats = PC_STATS_INIT;
    if (pc_sequence_error(a->sequence, NULL) < 0 || pc_sequence_get_stats(a->sequence, &stats) < 0)
        return input_error("answer", NULL);
    l->out->generated += count;
    if (!l->how->forks || !a->sample) {
        l->out->prompt += stats.tokens_prompt;
        l->out->computed += stats.tokens_prompt - stats.tokens_cached;
    }
    compare_pieces(l, index, tokens, count, stats.exactness == PC_EXACT);
    if (!l->d->is_drawn)
        return keep(item, a->sequence, tokens, count) ? EXIT_OK : plain_error("out of memory");
    l->out->different += item->count != count
                         || memcmp(item->tokens, tokens, count * sizeof *tokens) != 0;
    return EXIT_OK;
}

/* Takes what is finished out of the batch. */
static int collect(loop *l)
{
    int code = EXIT_OK;
    for (size_t i = l->running; i-- > 0 && code == EXIT_OK;) {
        drawing a = l->active[i];
        family *f = &l->families[a.prompt];
        if (!pc_sequence_finish(a.sequence))
            continue;
        code = record(l, &a);
        l->finished++;
        if (a.sequence == f->first) {
            pc_batch_remove(l->batch, a.sequence);
            f->is_done = 1;
        } else
            pc_sequence_free(a.sequence);
        l->active[i] = l->active[--l->running];
    }
    return code;
}

/* -------------------------------------------------------------------- loop */

static int run(loop *l)
{
    int code = EXIT_OK;
    while (code == EXIT_OK && l->finished < l->d->prompt_count * l->d->samples) {
        if (admit(l) < 0)
            return input_error("request", NULL);
        if (l->running && pc_batch_step(l->batch) < 0)
            return input_error("step", NULL);
        code = collect(l);
        show_progress(l, 0);
    }
    return code;
}

static int open_loop(loop *l)
{
    pc_cache_options cache = PC_CACHE_OPTIONS_INIT;
    l->room = l->how->alone ? 1 : l->d->batch;
    l->active = calloc(l->room, sizeof *l->active);
    l->families = calloc(l->d->prompt_count, sizeof *l->families);
    if (!l->active || !l->families)
        return plain_error("no memory for a batch of %zu", l->room);
    if (!l->d->digests[l->how->pieces])
        l->d->digests[l->how->pieces] = calloc(l->d->prompt_count * l->d->samples,
                                               sizeof *l->digests);
    if (!(l->digests = l->d->digests[l->how->pieces]))
        return plain_error("no memory for %zu samples", l->d->prompt_count * l->d->samples);
    cache.ram_bytes = l->d->ram_bytes;
    return pc_cache_new(&l->cache, l->d->context, &cache) < 0
                   || pc_batch_new(&l->batch, l->d->model, NULL) < 0
               ? input_error("batch", NULL)
               : EXIT_OK;
}

static void close_loop(loop *l)
{
    for (size_t i = 0; i < l->running; i++)
        pc_sequence_free(l->active[i].sequence);
    for (size_t i = 0; l->families && i < l->d->prompt_count; i++)
        if (l->families[i].is_done)
            pc_sequence_free(l->families[i].first);
    pc_batch_free(l->batch);
    pc_cache_free(l->cache);
    free(l->active);
    free(l->families);
}

int draws_run(draws *d, const draw_method *how, draw_run *out)
{
    const char *backend = program_variable("PC_BACKEND");
    loop l = {.d = d, .how = how, .out = out, .is_device = backend && strncmp(backend, "cpu", 3)};
    int code = open_loop(&l);
    *out = (draw_run){.seconds = 0};
    double cpu = cpu_now();
    l.began = machine_now();
    if (code == EXIT_OK)
        code = run(&l);
    out->seconds = machine_now() - l.began;
    out->cpu_seconds = cpu_now() - cpu;
    show_progress(&l, 1);
    close_loop(&l);
    d->is_drawn |= code == EXIT_OK;
    return code;
}

int draws_warm_up(const draws *d)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = 2;
    o.cancelled = is_interrupted;
    return pc_generate(d->prompts[0].prompt, NULL, &o, NULL) < 0 ? input_error("request", NULL)
                                                                 : EXIT_OK;
}

void draws_free(draws *d)
{
    for (size_t i = 0; d->items && i < d->prompt_count * d->samples; i++) {
        free(d->items[i].tokens);
        free(d->items[i].text);
    }
    free(d->items);
    for (size_t i = 0; i < DRAW_PIECES; i++)
        free(d->digests[i]);
}
