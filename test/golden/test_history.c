/* Conversations over modules that go on, of the demo model: prompt after prompt, each with all that
 * was said. Catches: a turn that computes what was said before; logits that are not those of a
 * request with nothing kept, or change with what comes from RAM or a folder; states that are lost
 * with the process. PC_TEST_LONG=1: 2000 conversations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "at_rest.h"
#include "request_logits.h"

enum { MOST_TEXT = 4096, BLOCK = PC__BLOCK_TOKENS, NAMES = 5 };

static const char *const names[NAMES] = {"anna-reed", "peter-novak", "clara-holt", "hugo-brook",
                                         "sara-lopez"};
static const char *const says[] = {
    "What is the desk of Peter Novak? ",   "Who is in the team of research? ",
    "Tell me the phone of Anna Reed. ",    "The hobby of Clara Holt is reading. ",
    "I do not know the job of a clerk. ",  "Is the desk of Sara Lopez 713? ",
    "The team of Hugo Brook is research. "};

static pc_test_rng rng = {5};

static size_t below(size_t n)
{
    return (size_t)(pc_test_bits(&rng) % n);
}

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_schema *schema;
    pc_cache *cache;
    size_t vocab;
    float *logits[3];
} world;

static void open_cache(world *w, const char *folder)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    o.disk_path = folder;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    CHECK_OK(pc_cache_new(&w->cache, w->context, &o));
}

static void start(world *w, const char *folder)
{
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    pc_model_info info = PC_MODEL_INFO_INIT;
    o.compute = PC_DTYPE_F32;
    memset(w, 0, sizeof *w);
    CHECK_OK(pc_context_new(&w->context, NULL));
    CHECK_OK(pc_model_load(&w->model, w->context, PC_SOURCE_DIR "/models/demo/demo.gguf", &o));
    CHECK_OK(
        pc_schema_load(&w->schema, w->model, PC_SOURCE_DIR "/examples/pml/employees.pml", NULL));
    CHECK_OK(pc_model_get_info(w->model, &info));
    w->vocab = (size_t)info.vocab;
    for (int i = 0; i < 3; i++)
        w->logits[i] = calloc(w->vocab, sizeof *w->logits[i]);
    open_cache(w, folder);
}

static void end(world *w)
{
    for (int i = 0; i < 3; i++)
        free(w->logits[i]);
    pc_cache_free(w->cache);
    pc_schema_free(w->schema);
    pc_model_free(w->model);
    pc_context_free(w->context);
}

static double distance(const world *w, const float *a, const float *b)
{
    double most = 0, scale = 0;
    for (size_t i = 0; i < w->vocab; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        scale = fmax(scale, fabs((double)a[i]));
    }
    return most / scale;
}

static void say(char *text, const char *role, size_t count)
{
    char *to = text + strlen(text);
    to += sprintf(to, "<%s>", role);
    while (count--)
        to += sprintf(to, "%s", says[below(sizeof says / sizeof *says)]);
    sprintf(to, "</%s>", role);
}

static pc_prompt *prompt_of(const world *w, const char *text)
{
    pc_prompt *prompt = NULL;
    char whole[MOST_TEXT + 64];
    snprintf(whole, sizeof whole, "%s</prompt>", text);
    CHECK_OK(
        pc_prompt_parse(&prompt, (pc_schema *const *)&w->schema, 1, whole, strlen(whole), NULL));
    return prompt;
}

static void talk(world *w, const char *folder)
{
    char text[MOST_TEXT] = "<prompt schema=\"employees\">";
    pc__generation g = {.options = PC_GENERATE_OPTIONS_INIT, .bench = PC_BENCH_OPTIONS_INIT};
    uint64_t before = 0;
    size_t chosen = 1 + below((1 << NAMES) - 1);
    g.options.encoding = (uint32_t)below(3);
    for (size_t i = 0; i < NAMES; i++)
        if (chosen >> i & 1)
            sprintf(text + strlen(text), "<%s/>", names[i]);
    for (int turn = 0; turn < 3; turn++) {
        if (turn)
            say(text, "assistant", 1 + below(4));
        say(text, "user", 2 + below(6));
        pc_prompt *prompt = prompt_of(w, text);
        request_by_rows(prompt, w->cache, &g, w->logits[0]);
        pc_stats cold = request_run(prompt, w->cache, &g, w->logits[1]);
        pc_stats warm = request_run(prompt, w->cache, &g, w->logits[2]);
        CHECK(distance(w, w->logits[0], w->logits[1]) < 2e-4);
        CHECK(distance(w, w->logits[1], w->logits[2]) <= 0);
        CHECK(warm.tokens_new <= BLOCK && !warm.tokens_encoded);
        if (before)
            CHECK(cold.tokens_new <= cold.tokens_prompt - before + BLOCK);
        before = cold.tokens_prompt;
        if (folder && turn == 2) { /* another process */
            CHECK_OK(pc_cache_flush(w->cache));
            pc_cache_free(w->cache);
            open_cache(w, folder);
            pc_stats disk = request_run(prompt, w->cache, &g, w->logits[1]);
            CHECK(distance(w, w->logits[1], w->logits[2]) <= 0);
            CHECK_INT(disk.tokens_new, warm.tokens_new);
            CHECK_INT(disk.tokens_tier[PC_TIER_DISK], disk.tokens_cached);
        }
        pc_prompt_free(prompt);
    }
}

int main(void)
{
    size_t count = getenv("PC_TEST_LONG") ? 2000 : 8;
    const char *folder = pc_test_folder();
    world w;
    start(&w, folder);
    for (size_t i = 0; i < count; i++)
        talk(&w, i < 4 ? folder : NULL);
    end(&w);
    return pc_test_end();
}
