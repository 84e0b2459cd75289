/* Catches: a memo of a real encoder, tuned on real sentences, that accepts unrelated inputs: random
 * tokens, and text of another domain. Bound: fewer than one in 10 000. PC_TEST_LONG=1: 20 000
 * inputs and a larger memo. */
#include <promptcache/memo.h>
#include <string.h>

#include "minilm.h"
#include "testing.h"

enum { MOST_TOKENS = 64, AT_ONCE = 64, MOST_LINES = 24000 };

typedef struct texts {
    int32_t *tokens; /* [count][MOST_TOKENS] */
    pc_input *inputs;
    size_t count;
} texts;

static texts room(size_t most)
{
    return (texts){calloc(most, MOST_TOKENS * sizeof(int32_t)), calloc(most, sizeof(pc_input)), 0};
}

static void drop(texts *t)
{
    free(t->tokens);
    free(t->inputs);
}

static int32_t *next(texts *t)
{
    return t->tokens + t->count * MOST_TOKENS;
}

static void keep(texts *t, size_t count)
{
    t->inputs[t->count] = (pc_input){next(t), count, NULL};
    t->count++;
}

/* Lines [from, from + most) of a file that are neither very short nor very long. */
static texts lines_of(const pc_model *model, const char *path, size_t from, size_t most)
{
    texts out = room(most);
    char *data = pc_test_read(path, NULL), *rest = data;
    for (size_t n = 0; rest && out.count < most; n++) {
        char *line = strsep(&rest, "\n");
        size_t size = strcspn(line, "\r"), count;
        if (n < from || size < 24 || size > 120)
            continue;
        if (pc_tokenize(model, line, size, PC_TOKENIZE_BOS, next(&out), MOST_TOKENS, &count)
            == PC_OK)
            keep(&out, count);
    }
    free(data);
    return out;
}

/* Random tokens with the sentences' lengths and their first and last token. */
static texts at_random(const texts *like, size_t most)
{
    texts out = room(most);
    pc_test_rng rng = {41};
    while (out.count < most) {
        const pc_input *model = &like->inputs[pc_test_bits(&rng) % like->count];
        int32_t *to = next(&out);
        memcpy(to, model->tokens, model->count * sizeof *to);
        for (size_t i = 1; i + 1 < model->count; i++)
            to[i] = 1000 + (int32_t)(pc_test_bits(&rng) % 28000);
        keep(&out, model->count);
    }
    return out;
}

static size_t accepted(const pc_model *model, pc_memo *memo, const texts *t)
{
    float *vectors = calloc(AT_ONCE, 384 * sizeof *vectors);
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    size_t hits = 0;
    o.memo = memo;
    o.embeddings = vectors;
    for (size_t i = 0, n; i < t->count; i += n) {
        pc_prefill_stats s = PC_PREFILL_STATS_INIT;
        n = t->count - i < AT_ONCE ? t->count - i : AT_ONCE;
        CHECK_OK(pc_prefill(model, t->inputs + i, sizeof(pc_input), n, &o, &s));
        hits += s.hits;
    }
    free(vectors);
    return hits;
}

static void report(pc_memo *memo)
{
    int open = 0;
    for (size_t b = 0; b < pc_memo_bucket_count(memo); b++) {
        pc_memo_bucket bucket = PC_MEMO_BUCKET_INIT;
        CHECK_OK(pc_memo_get_bucket(memo, b, &bucket));
        open += bucket.open != 0;
        if (bucket.trained)
            printf("%u to %u tokens: %d records, %s, threshold %.4f, %.1f %% of the tuning's "
                   "inputs, loss %.5f\n",
                   bucket.min_tokens, bucket.max_tokens, (int)bucket.records,
                   bucket.open ? "open" : "closed", bucket.threshold, 100 * bucket.tuned_hit_rate,
                   bucket.tuned_loss);
    }
    CHECK(open > 0); /* else nothing is accepted */
}

int main(void)
{
    const char *path = pc_test_minilm(), *known = pc_test_data("data/stsb/stsb-en-train.csv"),
               *foreign = pc_test_data("data/tinyshakespeare/input.txt");
    int is_long = getenv("PC_TEST_LONG") != NULL;
    size_t most = is_long ? 4000 : 800, strangers = is_long ? 10000 : 1000;
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_memo *memo = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_memo_work work = PC_MEMO_WORK_INIT;
    texts own, others, noise, plays;
    if (!path || !known || !foreign)
        pc_test_skip(
            "all-MiniLM-L6-v2 (tools/setup.sh --tests), STS-B or Shakespeare is not there");
    options.compute = PC_DTYPE_BF16;
    CHECK_OK(pc_context_new(&context, NULL));
    if (!CHECK_OK(pc_model_load(&model, context, path, &options)))
        return pc_test_end();
    own = lines_of(model, known, 0, most);
    others = lines_of(model, pc_test_data("data/stsb/stsb-en-dev.csv"), 0, most / 3);
    noise = at_random(&own, strangers);
    plays = lines_of(model, foreign, 0, strangers);
    CHECK_OK(pc_memo_open(&memo, model, pc_test_folder(), NULL));
    CHECK_OK(pc_memo_add(memo, own.inputs, sizeof(pc_input), own.count, NULL));
    work.epochs = 12;
    CHECK_OK(pc_memo_train(memo, &work));
    work.limit = 0.02;
    work.hit_limit = -1; /* so few sentences could not open a bucket otherwise */
    CHECK_OK(pc_memo_tune(memo, others.inputs, sizeof(pc_input), others.count, &work));
    report(memo);
    size_t noise_hits = accepted(model, memo, &noise), play_hits = accepted(model, memo, &plays);
    printf("accepted: %d of %d inputs of random tokens, %d of %d lines of plays\n", (int)noise_hits,
           (int)noise.count, (int)play_hits, (int)plays.count);
    CHECK((noise_hits + play_hits) * 10000 < noise.count + plays.count);
    drop(&own);
    drop(&others);
    drop(&noise);
    drop(&plays);
    pc_memo_free(memo);
    pc_model_free(model);
    pc_context_free(context);
    return pc_test_end();
}
