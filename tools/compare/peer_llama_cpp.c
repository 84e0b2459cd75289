/* The side of llama.cpp, by llama.h only.
 *
 *   peer_llama_cpp MODEL.gguf THREADS STATE_FOLDER
 *
 * Commands (FA: flash attention, 0 or 1; OWN: 0 all sequences in one buffer, with the prefix once;
 * 1 a stream and a copy of the prefix for each): prefill FA TOKENS                        a prompt,
 * with the logits of its last token ttft FA TOKENS NEW                       the same prompt; all
 * but NEW tokens are kept decode FA DEPTH STEPS                    one sequence shared FA OWN
 * PREFIX SUFFIX BATCH STEPS  BATCH sequences over one prefix, each with SUFFIX own tokens logits FA
 * TOKENS FILE Threads and flash attention are set; all else is llama.cpp's default: K and V in
 * fp16, 512 tokens a micro batch, OpenMP.
 *
 * Long prompts that only prepare a measurement are computed once and stored in STATE_FOLDER
 * (llama_state_seq_save_file); their K and V serve models of every weight format. */
#include <llama.h>
#include <sys/stat.h>

#include "peer.h"

enum { LONGEST = 4096, SLACK = MOST_STEPS + 64, MOST_SEQUENCES = 32, CHUNK = 2048 };
enum { ONE, SHARED, OWN, KINDS };

static struct {
    struct llama_model *model;
    struct llama_context *contexts[2][KINDS];
    struct llama_batch batch;
    const char *folder;
    int threads, vocab;
} side;

static struct llama_context *context_new(int fa, int cells, int sequences, bool unified)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t)cells;
    p.n_batch = CHUNK;
    p.n_seq_max = (uint32_t)sequences;
    p.n_threads = p.n_threads_batch = side.threads;
    p.flash_attn_type = fa ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.kv_unified = unified;
    p.no_perf = true;
    return llama_init_from_model(side.model, p);
}

/* The context of a kind, with room for `cells`; replaces a smaller one. */
static struct llama_context *context_of(int fa, int kind, int cells)
{
    struct llama_context **c = &side.contexts[fa][kind];
    if (*c && (int)llama_n_ctx(*c) < cells) {
        llama_free(*c);
        *c = NULL;
    }
    if (!*c)
        *c = context_new(fa, cells,
                         kind == ONE      ? 1
                         : kind == SHARED ? MOST_SEQUENCES + 1
                                          : MOST_SEQUENCES,
                         kind != OWN);
    return *c;
}

static void batch_add(int token, int position, int sequence, int logits)
{
    struct llama_batch *b = &side.batch;
    b->token[b->n_tokens] = token;
    b->pos[b->n_tokens] = position;
    b->n_seq_id[b->n_tokens] = 1;
    b->seq_id[b->n_tokens][0] = sequence;
    b->logits[b->n_tokens] = (int8_t)logits;
    b->n_tokens++;
}

static int batch_run(struct llama_context *c)
{
    int status = llama_decode(c, side.batch);
    llama_synchronize(c);
    side.batch.n_tokens = 0;
    return status == 0;
}

/* Computes tokens [from, to) as sequence 0, with logits of the last one or of all. */
static int evaluate(struct llama_context *c, int text, int from, int to, int all)
{
    for (int i = from; i < to; i++) {
        batch_add(peer_token(text, i, side.vocab), i, 0, all || i + 1 == to);
        if ((side.batch.n_tokens == CHUNK || i + 1 == to) && !batch_run(c))
            return 0;
    }
    return 1;
}

/* Fills sequence 0 with `tokens` tokens of text 0, from a file, or by computing and writing that. A
 * file is for one flash attention and number of streams. */
static int hold(struct llama_context *c, int fa, int kind, int tokens)
{
    static llama_token ids[LONGEST + SLACK];
    char path[4096];
    size_t count = 0;
    struct stat about;
    llama_memory_clear(llama_get_memory(c), false);
    snprintf(path, sizeof path, "%s/llama-%d-%s-fa%d.state", side.folder, tokens,
             kind == OWN ? "own" : "one", fa);
    if (!stat(path, &about))
        return llama_state_seq_load_file(c, path, 0, ids, LONGEST + SLACK, &count)
               && count == (size_t)tokens;
    for (int i = 0; i < tokens; i++)
        ids[i] = peer_token(0, i, side.vocab);
    return evaluate(c, 0, 0, tokens, 0)
           && llama_state_seq_save_file(c, path, 0, ids, (size_t)tokens);
}

/* -------------------------------------------------------------- one sequence */

static int prefill(const peer_command *cmd)
{
    int fa = peer_number(cmd, 1, 0, 1), tokens = peer_number(cmd, 2, 1, LONGEST);
    struct llama_context *c = fa < 0 || tokens < 1 ? NULL : context_of(fa, ONE, LONGEST + SLACK);
    double began;
    if (!c)
        return peer_error("prefill: no context");
    llama_memory_clear(llama_get_memory(c), false);
    began = peer_now();
    if (!evaluate(c, 0, 0, tokens, 0))
        return peer_error("prefill failed");
    began = peer_now() - began;
    peer_times(&began, 1);
    return 1;
}

/* The long state, shortened to `tokens`. */
static struct llama_context *held(int fa, int tokens)
{
    struct llama_context *c = fa < 0 || tokens < 0 ? NULL : context_of(fa, ONE, LONGEST + SLACK);
    if (!c || !hold(c, fa, ONE, LONGEST))
        return NULL;
    llama_memory_seq_rm(llama_get_memory(c), 0, tokens, -1);
    return c;
}

static int ttft(const peer_command *cmd)
{
    int fa = peer_number(cmd, 1, 0, 1), tokens = peer_number(cmd, 2, 2, LONGEST),
        fresh = peer_number(cmd, 3, 1, LONGEST - 1);
    struct llama_context *c = fresh < 1 || fresh >= tokens ? NULL : held(fa, tokens - fresh);
    static int text = 0;
    double began;
    if (!c)
        return peer_error("ttft: no kept prefix");
    began = peer_now();
    if (!evaluate(c, ++text, tokens - fresh, tokens, 0))
        return peer_error("ttft failed");
    began = peer_now() - began;
    peer_times(&began, 1);
    return 1;
}

static int decode(const peer_command *cmd)
{
    int fa = peer_number(cmd, 1, 0, 1), depth = peer_number(cmd, 2, 0, LONGEST),
        steps = peer_number(cmd, 3, 1, MOST_STEPS);
    struct llama_context *c = steps < 1 ? NULL : held(fa, depth);
    double times[MOST_STEPS];
    if (!c)
        return peer_error("decode: no kept prefix");
    for (int s = -1; s < steps; s++) { /* the first step warms up */
        double began = peer_now();
        batch_add(peer_token(1, s, side.vocab), depth + s + 1, 0, 1);
        if (!batch_run(c))
            return peer_error("decode failed");
        if (s >= 0)
            times[s] = peer_now() - began;
    }
    peer_times(times, steps);
    return 1;
}

/* ------------------------------------------------------------- many sequences */

typedef struct state {
    uint8_t *data;
    size_t size;
} state;

static state state_of(struct llama_context *c)
{
    state s = {NULL, llama_state_seq_get_size(c, 0)};
    s.data = malloc(s.size);
    if (s.data && llama_state_seq_get_data(c, s.data, s.size, 0) != s.size) {
        free(s.data);
        s.data = NULL;
    }
    return s;
}

/* The prefix once, in a sequence whose cells all others share; a suffix for each. */
static struct llama_context *share(int fa, int prefix, int suffix, int batch, int steps)
{
    struct llama_context *one = held(fa, prefix),
                         *c = context_of(fa, SHARED, prefix + batch * (suffix + steps + 1) + 64);
    llama_memory_t memory;
    state head, tail;
    int good;
    if (!one || !c)
        return NULL;
    head = state_of(one);
    one = held(fa, prefix + suffix);
    if (!one) {
        free(head.data);
        return NULL;
    }
    llama_memory_seq_rm(llama_get_memory(one), 0, 0, prefix);
    tail = state_of(one);
    memory = llama_get_memory(c);
    llama_memory_clear(memory, false);
    good = head.data && tail.data
           && llama_state_seq_set_data(c, head.data, head.size, MOST_SEQUENCES);
    for (int i = 0; i < batch && good; i++) {
        good = llama_state_seq_set_data(c, tail.data, tail.size, i) != 0;
        llama_memory_seq_cp(memory, MOST_SEQUENCES, i, -1, -1);
    }
    free(head.data);
    free(tail.data);
    return good ? c : NULL;
}

/* A stream for each sequence, copied from the first one. */
static struct llama_context *copies(int fa, int prefix, int suffix, int steps)
{
    struct llama_context *c = context_of(fa, OWN, MOST_SEQUENCES * (prefix + suffix + steps + 64));
    if (!c || !hold(c, fa, OWN, prefix + suffix))
        return NULL;
    for (int i = 1; i < MOST_SEQUENCES; i++)
        llama_memory_seq_cp(llama_get_memory(c), 0, i, -1, -1);
    return c;
}

static int shared(const peer_command *cmd)
{
    int fa = peer_number(cmd, 1, 0, 1), own = peer_number(cmd, 2, 0, 1),
        prefix = peer_number(cmd, 3, 1, LONGEST), suffix = peer_number(cmd, 4, 1, LONGEST),
        batch = peer_number(cmd, 5, 1, MOST_SEQUENCES), steps = peer_number(cmd, 6, 1, MOST_STEPS);
    struct llama_context *c = NULL;
    double times[MOST_STEPS];
    if (fa >= 0 && own >= 0 && prefix > 0 && suffix > 0 && batch > 0 && steps > 0
        && prefix + suffix <= LONGEST)
        c = own ? copies(fa, prefix, suffix, steps) : share(fa, prefix, suffix, batch, steps);
    if (!c)
        return peer_error("shared: no context");
    for (int s = -1; s < steps; s++) {
        double began = peer_now();
        for (int i = 0; i < batch; i++)
            batch_add(peer_token(2 + i, s, side.vocab), prefix + suffix + s + 1, i, 1);
        if (!batch_run(c))
            return peer_error("shared step failed");
        if (s >= 0)
            times[s] = peer_now() - began;
    }
    peer_times(times, steps);
    return 1;
}

static int logits(const peer_command *cmd)
{
    int fa = peer_number(cmd, 1, 0, 1), tokens = peer_number(cmd, 2, 1, 512);
    struct llama_context *c = fa < 0 || tokens < 1 || cmd->count < 4
                                  ? NULL
                                  : context_of(fa, ONE, LONGEST + SLACK);
    if (!c)
        return peer_error("logits: no context");
    llama_memory_clear(llama_get_memory(c), false);
    if (!evaluate(c, 0, 0, tokens, 1)
        || !peer_write_logits(cmd->words[3], llama_get_logits(c),
                              (size_t)tokens * (size_t)side.vocab))
        return peer_error("logits failed");
    peer_times(NULL, 0);
    return 1;
}

static void quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

int main(int argc, char **argv)
{
    static const peer_job jobs[] = {{"prefill", prefill},
                                    {"ttft", ttft},
                                    {"decode", decode},
                                    {"shared", shared},
                                    {"logits", logits}};
    if (argc != 4) {
        fprintf(stderr, "usage: peer_llama_cpp MODEL.gguf THREADS STATE_FOLDER\n");
        return 2;
    }
    llama_log_set(quiet, NULL);
    llama_backend_init();
    side.model = llama_model_load_from_file(argv[1], llama_model_default_params());
    side.threads = atoi(argv[2]);
    side.folder = argv[3];
    if (!side.model)
        return 3;
    side.vocab = llama_vocab_n_tokens(llama_model_get_vocab(side.model));
    side.batch = llama_batch_init(CHUNK, 0, 1);
    peer_serve(jobs, sizeof jobs / sizeof *jobs);
    for (int i = 0; i < 2 * KINDS; i++)
        llama_free(side.contexts[i / KINDS][i % KINDS]);
    llama_batch_free(side.batch);
    llama_model_free(side.model);
    return 0;
}
