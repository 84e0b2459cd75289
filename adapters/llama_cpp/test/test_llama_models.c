/* Catches: an architecture whose states llama.cpp moves wrongly, or labels wrongly, and that is
 * moved, or used with gaps, all the same: layers without RoPE, YaRN (whose factor for the size of K
 * would come in twice), learned positions, ALiBi; a kind of model that cannot be reused and is
 * taken.
 *
 * Reference: the same prompt, all of it computed where it stands. Segments are encoded without
 * context, so those that were computed elsewhere and moved must give the same logits. */
#include <math.h>

#include "world.h"
#include "write_model.h"

#define LONG_TEXT "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 "
#define SHORT_TEXT "w30 w20 w10 w3 w5 w7 w9 w11 "

static const char first[] = "<schema name=\"s\">w21 <module name=\"a\">" LONG_TEXT
                            "</module><module name=\"b\">" SHORT_TEXT "</module></schema>";
static const char turned[] = "<schema name=\"s\">w21 <module name=\"b\">" SHORT_TEXT
                             "</module><module name=\"a\">" LONG_TEXT "</module></schema>";
static const char first_prompt[] = "<prompt schema=\"s\"><a/><b/>w1 w2 w3</prompt>";
static const char turned_prompt[] = "<prompt schema=\"s\"><b/><a/>w1 w2 w3</prompt>";
static const char gap_prompt[] = "<prompt schema=\"s\"><b/>w1 w2 w3</prompt>";

static pc_status ask(const pc_model *model, pc_cache *cache, const char *schema, const char *text,
                     float *logits)
{
    pc_generate_options o = world_once(logits);
    return world_ask(model, cache, schema, text, &o, NULL);
}

static float apart(const float *a, const float *b)
{
    float most = 0, largest = 0;
    for (int i = 0; i < WRITE_VOCAB; i++) {
        most = fmaxf(most, fabsf(a[i] - b[i]));
        largest = fmaxf(largest, fabsf(b[i]));
    }
    return most / largest;
}

/* moves: whether its segments can be moved. */
static void test_moves(const char *path, enum ggml_type type, int moves, float bound)
{
    struct llama_context_params p = world_params();
    float want[WRITE_VOCAB], got[WRITE_VOCAB];
    pc_cache *cache = NULL;
    world w = {.context = NULL};
    p.type_k = type;
    if (!world_llama(&w, path, &p))
        return;
    CHECK_OK(ask(w.model, NULL, turned, turned_prompt, want));
    CHECK_OK(pc_cache_new(&cache, w.context, NULL));
    CHECK_OK(ask(w.model, cache, first, first_prompt, got));
    CHECK_INT(w.stats.cells_copied, 0);
    CHECK_OK(ask(w.model, cache, turned, turned_prompt, got));
    if (!CHECK(apart(got, want) < bound))
        printf("  %s, K as %s: apart by %.3g\n", path, ggml_type_name(type),
               (double)apart(got, want));
    CHECK(moves == (w.stats.cells_copied > 0));
    pc_cache_free(cache);
    world_close(&w);
}

/* A gap before the question is refused, and nothing is left of it. */
static void test_gap(const char *path, const char *reason)
{
    struct llama_context_params p = world_params();
    float logits[WRITE_VOCAB];
    world w = {.context = NULL};
    if (!world_llama(&w, path, &p))
        return;
    CHECK_STATUS(ask(w.model, NULL, turned, gap_prompt, logits), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS(reason);
    CHECK_OK(ask(w.model, NULL, turned, turned_prompt, logits));
    world_close(&w);
}

/* Four layers, one head of 64. */
static const char *write_wide(const char *architecture, int yarn)
{
    model_writer w = write_begin(architecture, 4);
    gguf_set_val_u32(w.gguf, write_key(&w, "attention.head_count"), 1);
    gguf_set_val_u32(w.gguf, write_key(&w, "attention.key_length"), WRITE_WIDTH);
    gguf_set_val_u32(w.gguf, write_key(&w, "attention.value_length"), WRITE_WIDTH);
    if (yarn) {
        gguf_set_val_str(w.gguf, write_key(&w, "rope.scaling.type"), "yarn");
        gguf_set_val_f32(w.gguf, write_key(&w, "rope.scaling.factor"), 8);
        gguf_set_val_u32(w.gguf, write_key(&w, "rope.scaling.original_context_length"), 256);
    }
    write_whole(&w, 4);
    return write_end(&w, "wide");
}

/* 40 layers, by which llama.cpp knows the one with ALiBi. */
static const char *write_baichuan(void)
{
    model_writer w = write_begin("baichuan", 40);
    gguf_set_val_u32(w.gguf, write_key(&w, "attention.head_count"), 2);
    write_whole(&w, 40);
    return write_end(&w, "baichuan");
}

int main(void)
{
    const char *path = write_model("plain", "llama", 3, 0, NULL);
    llama_log_set(world_quiet, NULL);
    test_moves(path, GGML_TYPE_F32, 1, 1e-4f);
    test_moves(path, GGML_TYPE_F16, 1, 1e-2f);
    test_moves(path, GGML_TYPE_BF16, 0, 1e-4f); /* ggml would abort */
    test_moves(path, GGML_TYPE_Q8_0, 0, 1e-4f); /* heads of 32: llama.cpp would crash */
    path = write_wide("llama", 0);
    test_moves(path, GGML_TYPE_F32, 1, 1e-4f);
    test_moves(path, GGML_TYPE_Q8_0, 1, 5e-2f);
    test_moves(path, GGML_TYPE_Q4_0, 1, 1);
    setenv("LLAMA_ATTN_ROT_DISABLE", "1", 1);
    test_moves(path, GGML_TYPE_Q8_0, 0, 1e-4f);
    unsetenv("LLAMA_ATTN_ROT_DISABLE");
    path = write_wide("smollm3", 0);
    test_moves(path, GGML_TYPE_Q8_0, 0, 1e-4f);
    test_moves(path, GGML_TYPE_Q4_0, 0, 1e-4f);
    path = write_wide("llama", 1);
    test_moves(path, GGML_TYPE_F16, 0, 1e-4f);
    test_moves(path, GGML_TYPE_Q8_0, 0, 1e-4f);
    test_moves(path, GGML_TYPE_Q4_0, 0, 1e-4f);
    test_moves(write_model("smollm3", "smollm3", 4, 0, NULL), GGML_TYPE_F32, 0, 1e-4f);
    test_moves(write_gpt("gpt2"), GGML_TYPE_F32, 0, 1e-4f);
    test_moves(write_gpt("starcoder"), GGML_TYPE_F32, 0, 1e-4f);
    path = write_gpt("bloom");
    test_moves(path, GGML_TYPE_F32, 1, 1e-4f);
    test_gap(path, "ALiBi");
    path = write_baichuan();
    test_moves(path, GGML_TYPE_F32, 0, 1e-4f);
    test_gap(path, "ALiBi");
    return pc_test_end();
}
