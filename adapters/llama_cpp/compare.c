/* `promptcache-bench serve` with llama.cpp beside the library: the same requests, arrivals and
 * weights in one run, in turn.
 *
 *   llama_compare serve --model MODEL.gguf --load 0.7 --methods pieces,whole,llama.cpp
 *
 * llama.cpp serves as its own server does, with that server's defaults. A step gives one token to
 * every sequence that answers, and fills up with tokens of waiting prompts, in order of arrival, to
 * n_batch = 2048 tokens; llama_decode computes them in parts of n_ubatch = 512. A prompt ends with
 * the logits of its last token. A shared prefix is computed before the clock starts and given to
 * each sequence by llama_memory_seq_cp.
 *   llama.cpp       all sequences in one buffer (kv_unified): the prefix is stored once
 *   llama.cpp-own   a stream for each sequence, with a copy of the prefix
 * The likeliest token is taken: no sampler costs less. */
#include <llama.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_serve.h"
#include "commands.h"

enum { PADDING = 256 }; /* cells are looked through in blocks of so many */

typedef struct slot {
    request *r; /* NULL: free */
    int32_t *tokens;
    size_t count, done; /* of the prompt; done: in the cells */
    uint64_t order;     /* of arrival */
    int32_t next;       /* the token that was chosen last */
    int32_t row;        /* of its logits in this step; -1: none */
} slot;

/* Contexts stay for later runs: a prefix takes long. All prefixes of a length are the same. */
typedef struct llama_side {
    struct llama_context *context;
    size_t prefix, cells, slots;
} llama_side;

typedef struct llama_run {
    llama_side *side;
    struct llama_batch batch;
    slot *slots;
    size_t count;
    uint64_t arrived;
    int32_t vocab;
} llama_run;

static struct llama_model *weights;
static llama_side sides[2]; /* [own copies] */

static int failed(const char *what)
{
    return plain_error("llama.cpp: %s", what);
}

static int load_weights(const run_args *args)
{
    if (weights)
        return EXIT_OK;
    if (!args->model->path)
        return failed("it needs --model with a GGUF file");
    weights = llama_model_load_from_file(args->model->path, llama_model_default_params());
    return weights ? EXIT_OK : failed("it cannot load the model");
}

static size_t padded(size_t cells)
{
    return (cells + PADDING - 1) / PADDING * PADDING;
}

static size_t longest_own(const workload *w)
{
    size_t most = 0;
    for (size_t i = 0; i < w->count; i++) {
        size_t own = w->requests[i].own.count + w->requests[i].output;
        most = own > most ? own : most;
    }
    return most;
}

static struct llama_context *context_new(size_t cells, size_t sequences, int own)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t)cells;
    p.n_seq_max = (uint32_t)sequences;
    p.n_threads = p.n_threads_batch = (int32_t)machine_threads();
    p.kv_unified = !own;
    return llama_init_from_model(weights, p);
}

static void batch_add(struct llama_batch *b, int32_t token, size_t position, size_t sequence)
{
    b->token[b->n_tokens] = token;
    b->pos[b->n_tokens] = (llama_pos)position;
    b->n_seq_id[b->n_tokens] = 1;
    b->seq_id[b->n_tokens][0] = (llama_seq_id)sequence;
    b->logits[b->n_tokens] = 0;
    b->n_tokens++;
}

static int decode(llama_run *l)
{
    int good = !llama_decode(l->side->context, l->batch);
    llama_synchronize(l->side->context);
    return good ? EXIT_OK : failed("llama_decode failed");
}

/* Tokens as the sequence behind those of the slots. */
static int compute_sequence(llama_run *l, const int32_t *tokens, size_t count)
{
    int code = EXIT_OK;
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        batch_add(&l->batch, tokens[i], i, l->count);
        if ((uint32_t)l->batch.n_tokens == llama_n_batch(l->side->context) || i + 1 == count) {
            code = decode(l);
            l->batch.n_tokens = 0;
        }
    }
    return code;
}

/* A new context holds the prefix. Without one, a short prompt pays for what is done only once. */
static int prepare(llama_run *l, const workload *w)
{
    const request *r = w->requests;
    size_t some = r->own.count < 64 ? r->own.count : 64;
    int code;
    if (l->side->prefix)
        return compute_sequence(l, r->shared[0]->tokens, r->shared[0]->count);
    code = compute_sequence(l, r->own.tokens, some);
    llama_memory_seq_rm(llama_get_memory(l->side->context), (llama_seq_id)l->count, -1, -1);
    return code;
}

/* Empty but for the prefix. */
static int open_side(llama_run *l, const workload *w, int own)
{
    llama_side *s = l->side;
    size_t prefix = shared_tokens(w->requests, w->requests->levels);
    size_t one = padded(longest_own(w) + prefix);
    size_t cells = own ? one * (w->batch + 1) : padded(prefix + longest_own(w) * w->batch);
    if (s->context && s->prefix == prefix && s->cells >= cells && s->slots == w->batch)
        return EXIT_OK;
    llama_free(s->context);
    *s = (llama_side){context_new(cells, w->batch + 1, own), prefix, cells, w->batch};
    return s->context ? prepare(l, w) : failed("no context");
}

static int llama_open(void **out, const workload *w, const run_args *args)
{
    llama_run *l = calloc(1, sizeof *l);
    int code = load_weights(args), own = args->how->levels == 0;
    *out = l;
    if (!l || code != EXIT_OK)
        return l ? code : failed("no memory");
    l->side = &sides[own];
    l->count = w->batch;
    l->slots = calloc(w->batch, sizeof *l->slots);
    l->vocab = llama_vocab_n_tokens(llama_model_get_vocab(weights));
    l->batch = llama_batch_init((int32_t)llama_context_default_params().n_batch, 0, 1);
    return l->slots ? open_side(l, w, own) : failed("no memory");
}

static int llama_start(void *run, request *r, const int32_t *tokens, size_t count)
{
    llama_run *l = run;
    slot *s = l->slots;
    size_t prefix = r->levels ? l->side->prefix : 0;
    llama_memory_t memory = llama_get_memory(l->side->context);
    while (s->r)
        s++; /* the caller keeps to w->batch */
    *s = (slot){.r = r, .tokens = malloc(count * sizeof *tokens), .count = count, .done = prefix};
    s->order = l->arrived++;
    if (!s->tokens)
        return failed("no memory");
    memcpy(s->tokens, tokens, count * sizeof *tokens);
    if (prefix)
        llama_memory_seq_cp(memory, (llama_seq_id)l->count, (llama_seq_id)(s - l->slots), -1, -1);
    return EXIT_OK;
}

/* One token for each sequence that answers. */
static void add_answers(llama_run *l)
{
    for (size_t i = 0; i < l->count; i++) {
        slot *s = &l->slots[i];
        s->row = -1;
        if (!s->r || s->done < s->count)
            continue;
        s->row = l->batch.n_tokens;
        batch_add(&l->batch, s->next, s->count + s->r->generated - 1, i);
        l->batch.logits[s->row] = 1;
    }
}

static slot *oldest_waiting(llama_run *l)
{
    slot *found = NULL;
    for (size_t i = 0; i < l->count; i++) {
        slot *s = &l->slots[i];
        if (s->r && s->done < s->count && (!found || s->order < found->order))
            found = s;
    }
    return found;
}

/* Prompts, until the batch is full. */
static void add_prompts(llama_run *l)
{
    int32_t most = (int32_t)llama_n_batch(l->side->context);
    slot *s;
    while (l->batch.n_tokens < most && (s = oldest_waiting(l))) {
        while (s->done < s->count && l->batch.n_tokens < most) {
            batch_add(&l->batch, s->tokens[s->done], s->done, (size_t)(s - l->slots));
            s->done++;
        }
        if (s->done == s->count) {
            s->row = l->batch.n_tokens - 1;
            l->batch.logits[s->row] = 1;
        }
    }
}

static int32_t likeliest(const float *logits, int32_t count)
{
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static int llama_step(void *run, double *computing)
{
    llama_run *l = run;
    double began;
    int code;
    l->batch.n_tokens = 0;
    add_answers(l);
    add_prompts(l);
    began = machine_now();
    code = decode(l);
    *computing = machine_now() - began;
    for (size_t i = 0; i < l->count && code == EXIT_OK; i++) {
        slot *s = &l->slots[i];
        if (!s->r || s->row < 0)
            continue;
        s->next = likeliest(llama_get_logits_ith(l->side->context, s->row), l->vocab);
        note_token(s->r);
    }
    l->batch.n_tokens = 0;
    if (is_interrupted(NULL))
        return EXIT_INTERRUPTED;
    return code;
}

static void llama_drop(void *run, request *r, run_result *out)
{
    llama_run *l = run;
    slot *s = l->slots;
    while (s->r != r)
        s++;
    out->prompt += s->count;
    out->cached += r->levels ? l->side->prefix : 0;
    llama_memory_seq_rm(llama_get_memory(l->side->context), (llama_seq_id)(s - l->slots), -1, -1);
    free(s->tokens);
    *s = (slot){.r = NULL};
}

static void llama_close(void *run)
{
    llama_run *l = run;
    if (!l)
        return;
    if (l->batch.token)
        llama_batch_free(l->batch);
    free(l->slots);
    free(l);
}

static const server by_llama = {llama_open, llama_start, llama_step, llama_drop, llama_close};
/* Of `levels`, 0 stands for own copies of the prefix. */
static const method methods[] = {
    {"llama.cpp", "llama.cpp", 0, 1, 1, 0, &by_llama},
    {"llama.cpp-own", "llama.cpp, own copies", 0, 0, 1, 0, &by_llama},
};

static void errors_only(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int run_serve(int argc, char **argv)
{
    int code = serve_command_line(argc, argv, methods, sizeof methods / sizeof *methods);
    for (size_t i = 0; i < 2; i++)
        llama_free(sides[i].context);
    llama_model_free(weights);
    return code;
}

int main(int argc, char **argv)
{
    static const char details[] =
        "As `promptcache-bench serve`, with two methods more:\n"
        "  llama.cpp      llama.cpp's own loop, all sequences in one buffer\n"
        "  llama.cpp-own  the same with a stream and a copy of the prefix for each sequence\n";
    command serve = bench_serve;
    const command *const parts[] = {&serve, NULL};
    const command program = {.name = "llama_compare",
                             .usage = "llama_compare serve ...",
                             .summary = "measures promptcache beside llama.cpp",
                             .details = details,
                             .parts = parts};
    serve.run = run_serve;
    llama_log_set(errors_only, NULL);
    return run_program(&program, argc, argv);
}
