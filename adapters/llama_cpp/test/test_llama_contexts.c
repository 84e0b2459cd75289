/* Catches: a context that the adapter cannot use and takes all the same, or refuses without a
 * reason; states of another K/V format, flash attention, RoPE setting or identity that are served;
 * windows: a segment whose beginning llama.cpp has dropped, before or after a restart; a chat
 * template of the GGUF file that does not reach prompts; text that another tokenizer would cut
 * otherwise; options that are not read as the header says. */
#include <math.h>

#include "world.h"
#include "write_model.h"

static const char facts[] =
    "<schema name=\"facts\">Notes: <module name=\"a\">w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 "
    "w14 w15 w16 w17 w18 w19 w20 w21 w22 w23 w24 w25 w26 w27 w28 w29 w30 w31 w32 w33 w34 w35 "
    "</module><module name=\"b\">w30 w20 w10 w3 w5 w7 w9 w11 w13 w15 w17 w19 w21 w23 w25 w27 "
    "</module></schema>";
static const char all[] = "<prompt schema=\"facts\"><a/><b/>w1 w2 w3</prompt>";
static const char gap[] = "<prompt schema=\"facts\"><a/>w1 w2 w3</prompt>";

/* ------------------------------------------------------------- contexts */

static void refused(const char *path, const struct llama_context_params *params,
                    const struct llama_context_params *given, pc_status want, const char *part)
{
    world w = {.context = NULL};
    struct llama_context *memory;
    pc_llama_options o = PC_LLAMA_OPTIONS_INIT;
    CHECK_OK(pc_context_new(&w.context, NULL));
    llama_log_set(world_quiet, NULL);
    w.weights = llama_model_load_from_file(path, llama_model_default_params());
    memory = llama_init_from_model(w.weights, *params);
    o.params = given;
    o.files = &path;
    o.file_count = 1;
    if (CHECK(memory != NULL)) {
        CHECK_STATUS(pc_llama_model_new(&w.model, w.context, w.weights, memory, &o), want);
        CHECK_ERROR_HAS(part);
        CHECK(!w.model);
    }
    llama_free(memory);
    world_close(&w);
}

static void test_refusals(const char *path)
{
    struct llama_context_params good = world_params(), p = good;
    p.n_seq_max = 4;
    refused(path, &p, &p, PC_ERR_UNSUPPORTED, "n_seq_max is 4");
    p = good;
    p.kv_unified = false;
    p.n_seq_max = 16;
    refused(path, &p, &p, PC_ERR_UNSUPPORTED, "kv_unified");
    p = good;
    p.embeddings = true;
    refused(path, &p, &p, PC_ERR_UNSUPPORTED, "embeddings");
    p = good;
    p.type_k = p.type_v = GGML_TYPE_F16;
    refused(path, &p, &good, PC_ERR_MISMATCH, "f16");
    p = good;
    p.n_seq_max = 32;
    refused(path, &p, &good, PC_ERR_MISMATCH, "n_seq_max 32");
    refused(path, &good, NULL, PC_ERR_INVALID, "params");
}

static void test_options(const char *path)
{
    struct llama_context_params p = world_params();
    world w = {.context = NULL};
    pc_llama_options o = PC_LLAMA_OPTIONS_INIT;
    llama_token token = 5;
    int32_t stops[4];
    size_t count;
    if (!world_llama(&w, path, &p))
        return;
    CHECK_OK(pc_llama_stop_tokens(w.weights, stops, 4, &count));
    CHECK(count == 1 && stops[0] == 2);
    CHECK_STR(pc_llama_built_with(), pc_llama_runs_with());
    pc_model_free(w.model);
    w.model = NULL;
    o.params = &w.params;
    CHECK_STATUS(pc_llama_model_new(&w.model, w.context, w.weights, w.memory, &o), PC_ERR_INVALID);
    CHECK_ERROR_HAS("neither fingerprint nor files");
    path = "/no/such/file";
    o.files = &path;
    o.file_count = 1;
    CHECK_STATUS(pc_llama_model_new(&w.model, w.context, w.weights, w.memory, &o),
                 PC_ERR_NOT_FOUND);
    o.fingerprint = (const uint8_t *)"01234567890123456789012345678901";
    o.flags = 64;
    CHECK_STATUS(pc_llama_model_new(&w.model, w.context, w.weights, w.memory, &o), PC_ERR_INVALID);
    o.flags = 0;
    o.chat_template = "no such family";
    CHECK_STATUS(pc_llama_model_new(&w.model, w.context, w.weights, w.memory, &o),
                 PC_ERR_NOT_FOUND);
    o.chat_template = NULL;
    /* whatever failed, the context is as it was; but with tokens of others it is not taken */
    llama_decode(w.memory, llama_batch_get_one(&token, 1));
    CHECK_STATUS(pc_llama_model_new(&w.model, w.context, w.weights, w.memory, &o), PC_ERR_STATE);
    llama_memory_clear(llama_get_memory(w.memory), true);
    CHECK_OK(pc_llama_model_new(&w.model, w.context, w.weights, w.memory, &o));
    world_close(&w);
}

/* ------------------------------------------------------------- answers */

typedef struct taken {
    float logits[WRITE_VOCAB];
    pc_stats stats;
} taken;

static pc_status ask(const pc_model *model, pc_cache *cache, const char *schema, const char *text,
                     taken *out)
{
    pc_generate_options o = world_once(out->logits);
    out->stats = (pc_stats)PC_STATS_INIT;
    return world_ask(model, cache, schema, text, &o, &out->stats);
}

static float apart(const taken *a, const taken *b)
{
    float most = 0;
    for (int i = 0; i < WRITE_VOCAB; i++)
        most = fmaxf(most, fabsf(a->logits[i] - b->logits[i]));
    return most;
}

/* ------------------------------------------------------------- identity */

/* Asks with other settings over the same folder; whether states were found there. */
static int found(const char *path, const struct llama_context_params *p, const char *identity,
                 const char *folder)
{
    world w = {.context = NULL};
    pc_llama_options o = PC_LLAMA_OPTIONS_INIT;
    pc_cache *cache;
    taken t = {.logits = {0}};
    CHECK_OK(pc_context_new(&w.context, NULL));
    w.weights = llama_model_load_from_file(path, llama_model_default_params());
    w.memory = llama_init_from_model(w.weights, *p);
    w.params = *p;
    o.params = &w.params;
    o.files = &path;
    o.file_count = 1;
    o.identity = identity;
    o.identity_size = strlen(identity);
    w.stats = (pc_llama_stats)PC_LLAMA_STATS_INIT;
    o.stats = &w.stats;
    CHECK_OK(pc_llama_model_new(&w.model, w.context, w.weights, w.memory, &o));
    cache = world_disk_cache(&w, folder);
    CHECK_OK(ask(w.model, cache, facts, all, &t));
    pc_cache_free(cache);
    world_close(&w);
    return t.stats.tokens_cached > 0;
}

static void test_identity(const char *path)
{
    struct llama_context_params good = world_params(), p = good;
    const char *folder = world_folder();
    CHECK(!found(path, &good, "", folder));
    CHECK(found(path, &good, "", folder));
    p.n_ctx = 4096, p.n_batch = 256, p.n_ubatch = 64, p.n_seq_max = 64;
    CHECK(found(path, &p, "", folder)); /* these change no states */
    p = good;
    p.type_k = GGML_TYPE_F16;
    CHECK(!found(path, &p, "", folder));
    p.type_v = GGML_TYPE_F16;
    CHECK(!found(path, &p, "", folder));
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    CHECK(!found(path, &p, "", folder));
    CHECK(found(path, &p, "", folder));
    p.type_k = p.type_v = GGML_TYPE_Q8_0;
    CHECK(!found(path, &p, "", folder));
    CHECK(found(path, &p, "", folder));
    p = good;
    p.rope_freq_base = 20000;
    CHECK(!found(path, &p, "", folder));
    CHECK(!found(path, &good, "adapter x at 0.5", folder));
    CHECK(found(path, &good, "adapter x at 0.5", folder));
    CHECK(found(path, &good, "", folder));
}

/* -------------------------------------------------------------- windows */

/* 16 positions; module a alone is twice as long. Schemas in which a module stands elsewhere. */
static void test_windows(void)
{
    static const char moved[] =
        "<schema name=\"facts\">w5 w6 w7 Notes: w8 <module name=\"b\">w30 w20 w10 w3 w5 w7 w9 w11 "
        "w13 w15 w17 w19 w21 w23 w25 w27 </module><module name=\"a\">w1 w2 w3 w4 w5 w6 w7 w8 w9 "
        "w10 w11 w12 w13 w14 w15 w16 w17 w18 w19 w20 w21 w22 w23 w24 w25 w26 w27 w28 w29 w30 w31 "
        "w32 w33 w34 w35 </module></schema>";
    static const char *const orders[] = {"<prompt schema=\"facts\"><a/><b/>w1 w2 w3</prompt>",
                                         "<prompt schema=\"facts\"><b/><a/>w1 w2 w3</prompt>"};
    const char *path = write_model("gemma3", "gemma3", 7, 16, NULL), *folder = world_folder();
    struct llama_context_params p = world_params();
    taken want[2], t;
    world w;
    p.n_ctx = 1024;
    if (!world_open(&w, path, &p))
        return;
    CHECK_OK(ask(w.own, NULL, facts, orders[0], &want[0]));
    CHECK_OK(ask(w.own, NULL, moved, orders[1], &want[1]));
    for (int restart = 0; restart < 2; restart++) {
        pc_cache *cache = world_disk_cache(&w, folder);
        for (int round = 0; round < 3; round++) {
            CHECK_OK(ask(w.model, cache, facts, orders[0], &t));
            CHECK(apart(&t, &want[0]) < 1e-3f);
            CHECK(!t.stats.tokens_encoded || (!round && !restart));
            CHECK_OK(ask(w.model, cache, moved, orders[1], &t));
            CHECK(apart(&t, &want[1]) < 1e-3f);
            CHECK(!t.stats.tokens_encoded || (!round && !restart));
            /* other prompts, so that cells are looked for */
            for (int i = 0; i < 5; i++) {
                pc_prompt *prompt = NULL;
                int32_t tokens[100];
                pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
                for (int k = 0; k < 100; k++)
                    tokens[k] = 259 + (i * 7 + k * 3) % 40;
                o.max_tokens = 30;
                CHECK_OK(pc_prompt_from_tokens(&prompt, w.model, tokens, 100, NULL));
                CHECK_OK(pc_generate(prompt, NULL, &o, NULL));
                pc_prompt_free(prompt);
            }
        }
        /* positions are left out before the question: refused, with the reason */
        CHECK_STATUS(ask(w.model, cache, facts, gap, &t), PC_ERR_UNSUPPORTED);
        CHECK_ERROR_HAS("sliding window");
        pc_cache_free(cache);
        world_close_llama(&w);
        if (!world_llama(&w, path, &p))
            break;
    }
    CHECK(w.stats.ids == 0);
    world_close(&w);
    p.swa_full = false;
    refused(path, &p, &p, PC_ERR_UNSUPPORTED, "swa_full");
}

/* ----------------------------------------------------------------- text */

static const char template[] =
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{{ '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}";

static void test_text(void)
{
    static const char *const texts[] = {"w1 w22  Gr\xc3\xb6\xc3\x9f"
                                        "e\n<s>x",
                                        "", " w3", "<unk>"};
    const char *path = write_model("chat", "llama", 2, 0, template);
    struct llama_context_params p = world_params();
    int32_t a[64], b[64];
    size_t na, nb;
    char text[2][256];
    taken want, t;
    world w;
    if (!world_open(&w, path, &p))
        return;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (uint64_t flags = 0; flags < 4; flags++) {
            CHECK_OK(pc_tokenize(w.model, texts[i], strlen(texts[i]), flags, a, 64, &na));
            CHECK_OK(pc_tokenize(w.own, texts[i], strlen(texts[i]), flags, b, 64, &nb));
            CHECK(na == nb && !memcmp(a, b, na * sizeof *a));
            CHECK_OK(pc_detokenize(w.model, a, na, flags & 1, text[0], 256, &na));
            CHECK_OK(pc_detokenize(w.own, b, nb, flags & 1, text[1], 256, &nb));
            CHECK(na == nb && !memcmp(text[0], text[1], na));
        }
    CHECK_STATUS(pc_tokenize(w.model, "w1 w2 w3 w4", 11, 0, a, 2, &na), PC_ERR_LIMIT);
    CHECK(na > 2);
    CHECK_STATUS(pc_detokenize(w.model, (int32_t[]){5000}, 1, 0, text[0], 9, &na), PC_ERR_INVALID);
    CHECK_OK(ask(w.own, NULL, "<schema name=\"s\"><system>w4</system></schema>",
                 "<prompt schema=\"s\"><user>w1 w2</user></prompt>", &want));
    CHECK_OK(ask(w.model, NULL, "<schema name=\"s\"><system>w4</system></schema>",
                 "<prompt schema=\"s\"><user>w1 w2</user></prompt>", &t));
    CHECK_INT(t.stats.tokens_prompt, want.stats.tokens_prompt);
    CHECK(apart(&t, &want) < 1e-3f);
    world_close(&w);
}

int main(void)
{
    const char *path = write_model("plain", "llama", 2, 0, NULL);
    llama_log_set(world_quiet, NULL);
    test_refusals(path);
    test_options(path);
    test_identity(path);
    test_windows();
    test_text();
    return pc_test_end();
}
