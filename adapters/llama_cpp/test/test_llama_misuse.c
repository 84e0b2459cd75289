/* Catches: a second model over a context that has one; a context that the application clears, or
 * decodes with, behind the adapter's back, and answers from what is left; kinds of models that
 * cannot be reused and are taken; requests that llama.cpp cannot compute and that are answered all
 * the same; bytes that are no UTF-8 and end the process; a segment at position 0 that moves to
 * where new text stands. */
#include <math.h>

#include "world.h"
#include "write_model.h"

#define TEXT_A "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 "
#define TEXT_B "w30 w20 w10 w3 w5 w7 w9 w11 "

static const char both[] = "<schema name=\"s\"><module name=\"a\">" TEXT_A
                           "</module><module name=\"b\">" TEXT_B "</module></schema>";
static const char alone[] = "<schema name=\"s\"><module name=\"b\">" TEXT_B "</module></schema>";
static const char question[] = "<prompt schema=\"s\"><a/><b/>w1 w2 w3</prompt>";
static const char alone_question[] = "<prompt schema=\"s\"><b/>w1 w2 w3</prompt>";
static const char over[] = "<prompt schema=\"s\"><a/>w4 w5 w6<b/>w1 w2 w3</prompt>";

static pc_status ask(const pc_model *model, pc_cache *cache, const char *schema, const char *text,
                     float *logits)
{
    pc_generate_options o = world_once(logits);
    return world_ask(model, cache, schema, text, &o, NULL);
}

static float apart(const float *a, const float *b)
{
    float most = 0;
    for (int i = 0; i < WRITE_VOCAB; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

/* ------------------------------------------------- others use the context */

static void test_two_models(const char *path)
{
    struct llama_context_params p = world_params();
    pc_llama_options o = PC_LLAMA_OPTIONS_INIT;
    pc_model *second = NULL;
    world w = {.context = NULL};
    if (!world_llama(&w, path, &p))
        return;
    o.params = &w.params;
    o.files = &path;
    o.file_count = 1;
    CHECK_STATUS(pc_llama_check(w.weights, w.memory, &p), PC_ERR_STATE);
    CHECK_STATUS(pc_llama_model_new(&second, w.context, w.weights, w.memory, &o), PC_ERR_STATE);
    CHECK_ERROR_HAS("another pc_model");
    CHECK(!second);
    pc_model_free(second);
    pc_model_free(w.model);
    w.model = NULL;
    CHECK_OK(pc_llama_check(w.weights, w.memory, &p));
    CHECK_OK(pc_llama_model_new(&w.model, w.context, w.weights, w.memory, &o));
    world_close(&w);
}

static void decode_one(struct llama_context *memory, llama_seq_id id)
{
    struct llama_batch b = llama_batch_init(1, 0, 1);
    b.n_tokens = 1;
    b.token[0] = 270;
    b.pos[0] = llama_memory_seq_pos_max(llama_get_memory(memory), id) + 1;
    b.n_seq_id[0] = 1;
    b.seq_id[0][0] = id;
    b.logits[0] = 1;
    CHECK_INT(llama_decode(memory, b), 0);
    llama_batch_free(b);
}

/* how 0: clears; 1: decodes with an id of a segment; 2: with one that is free. */
static void test_changed(const char *path, int how)
{
    struct llama_context_params p = world_params();
    float want[WRITE_VOCAB], got[WRITE_VOCAB];
    pc_cache *cache = NULL;
    world w = {.context = NULL};
    llama_seq_id id = 0;
    if (!world_llama(&w, path, &p))
        return;
    CHECK_OK(pc_cache_new(&cache, w.context, NULL));
    CHECK_OK(ask(w.model, cache, both, question, want));
    while (llama_memory_seq_pos_max(llama_get_memory(w.memory), id) < 0)
        id++;
    if (!how)
        llama_memory_clear(llama_get_memory(w.memory), true);
    for (llama_seq_id i = 0; how == 2 && i < (llama_seq_id)p.n_seq_max; i++)
        if (llama_memory_seq_pos_max(llama_get_memory(w.memory), i) < 0)
            decode_one(w.memory, i);
    if (how == 1)
        decode_one(w.memory, id);
    CHECK_STATUS(ask(w.model, cache, both, question, got), PC_ERR_STATE);
    CHECK_ERROR_HAS("by other code");
    pc_cache_free(cache);
    cache = NULL;
    /* when it is empty again it can be used again */
    llama_memory_clear(llama_get_memory(w.memory), true);
    CHECK_OK(pc_cache_new(&cache, w.context, NULL));
    CHECK_OK(ask(w.model, cache, both, question, got));
    CHECK(apart(got, want) < 1e-4f);
    pc_cache_free(cache);
    world_close(&w);
}

/* A context that is smaller than the number of its sequences: llama.cpp would abort. */
static void test_tiny(const char *path)
{
    struct llama_context_params p = llama_context_default_params();
    float logits[WRITE_VOCAB];
    world w = {.context = NULL};
    p.n_threads = p.n_threads_batch = 1;
    p.n_ctx = 20;
    p.n_outputs_max = 4;
    pc_llama_params(&p);
    if (world_llama(&w, path, &p))
        CHECK_OK(ask(w.model, NULL, both, question, logits));
    world_close(&w);
}

/* ------------------------------------------------------------ kinds */

static void refused(const char *path, const char *part)
{
    struct llama_context_params p = world_params();
    pc_llama_options o = PC_LLAMA_OPTIONS_INIT;
    pc_context *context = NULL;
    pc_model *model = NULL;
    struct llama_model *weights;
    struct llama_context *memory;
    p.n_seq_max = 8;
    llama_log_set(world_quiet, NULL);
    CHECK_OK(pc_context_new(&context, NULL));
    weights = llama_model_load_from_file(path, llama_model_default_params());
    memory = weights ? llama_init_from_model(weights, p) : NULL;
    o.params = &p;
    o.files = &path;
    o.file_count = 1;
    if (CHECK(memory != NULL)) {
        CHECK_STATUS(pc_llama_model_new(&model, context, weights, memory, &o), PC_ERR_UNSUPPORTED);
        CHECK_ERROR_HAS(part);
    }
    llama_free(memory);
    llama_model_free(weights);
    pc_context_free(context);
}

static const char *write_mamba(void)
{
    enum { INNER = 2 * WRITE_WIDTH, STATE = 16, RANK = 4, KERNEL = 4 };
    model_writer w = write_begin("mamba", 2);
    gguf_set_val_u32(w.gguf, "mamba.ssm.conv_kernel", KERNEL);
    gguf_set_val_u32(w.gguf, "mamba.ssm.inner_size", INNER);
    gguf_set_val_u32(w.gguf, "mamba.ssm.state_size", STATE);
    gguf_set_val_u32(w.gguf, "mamba.ssm.time_step_rank", RANK);
    gguf_set_val_u32(w.gguf, "mamba.attention.head_count", 0);
    write_tensor(&w, -1, "token_embd.weight", WRITE_WIDTH, WRITE_VOCAB, 0);
    write_tensor(&w, -1, "output_norm.weight", WRITE_WIDTH, 0, 1);
    for (int l = 0; l < 2; l++) {
        write_tensor(&w, l, "attn_norm.weight", WRITE_WIDTH, 0, 1);
        write_tensor(&w, l, "ssm_in.weight", WRITE_WIDTH, 2 * INNER, 0);
        write_tensor(&w, l, "ssm_conv1d.weight", KERNEL, INNER, 0);
        write_tensor(&w, l, "ssm_conv1d.bias", INNER, 0, 0);
        write_tensor(&w, l, "ssm_x.weight", INNER, RANK + 2 * STATE, 0);
        write_tensor(&w, l, "ssm_dt.weight", RANK, INNER, 0);
        write_tensor(&w, l, "ssm_dt.bias", INNER, 0, 0);
        write_tensor(&w, l, "ssm_a", STATE, INNER, 0);
        write_tensor(&w, l, "ssm_d", INNER, 0, 0);
        write_tensor(&w, l, "ssm_out.weight", INNER, WRITE_WIDTH, 0);
    }
    return write_end(&w, "mamba");
}

static const char *write_mrope(void)
{
    static const int32_t sections[4] = {8, 4, 4, 0};
    model_writer w = write_begin("qwen2vl", 2);
    gguf_set_val_u32(w.gguf, "qwen2vl.attention.head_count", 2);
    gguf_set_arr_data(w.gguf, "qwen2vl.rope.dimension_sections", GGUF_TYPE_INT32, sections, 4);
    write_whole(&w, 2);
    return write_end(&w, "mrope");
}

static const char *write_encoder(void)
{
    model_writer w = write_begin("t5encoder", 2);
    gguf_set_val_u32(w.gguf, "t5encoder.attention.head_count", 2);
    gguf_set_val_u32(w.gguf, "t5encoder.attention.relative_buckets_count", 8);
    write_tensor(&w, -1, "token_embd.weight", WRITE_WIDTH, WRITE_VOCAB, 0);
    write_tensor(&w, -1, "enc.output_norm.weight", WRITE_WIDTH, 0, 1);
    w.before = "enc.";
    for (int l = 0; l < 2; l++) {
        write_tensor(&w, l, "attn_rel_b.weight", 2, 8, 0);
        write_tensor(&w, l, "attn_norm.weight", WRITE_WIDTH, 0, 1);
        write_tensor(&w, l, "attn_q.weight", WRITE_WIDTH, WRITE_WIDTH, 0);
        write_tensor(&w, l, "attn_k.weight", WRITE_WIDTH, WRITE_WIDTH, 0);
        write_tensor(&w, l, "attn_v.weight", WRITE_WIDTH, WRITE_WIDTH, 0);
        write_tensor(&w, l, "attn_o.weight", WRITE_WIDTH, WRITE_WIDTH, 0);
        write_tensor(&w, l, "ffn_norm.weight", WRITE_WIDTH, 0, 1);
        write_tensor(&w, l, "ffn_up.weight", WRITE_WIDTH, WRITE_FFN, 0);
        write_tensor(&w, l, "ffn_gate.weight", WRITE_WIDTH, WRITE_FFN, 0);
        write_tensor(&w, l, "ffn_down.weight", WRITE_FFN, WRITE_WIDTH, 0);
    }
    return write_end(&w, "encoder");
}

/* ---------------------------------------------------------- requests */

/* Text of the prompt that reaches into positions of another text of it, and text before all. */
static const char two_texts[] =
    "<prompt schema=\"s\"><a/>w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12<b/>w1 w2 w3</prompt>";
static const char before_all[] = "<prompt schema=\"s\">w4 w5<a/><b/>w1 w2 w3</prompt>";

static void test_requests(const char *path)
{
    static const uint8_t digest[32] = "an adapter of one request";
    struct llama_context_params p = world_params();
    float want[WRITE_VOCAB], got[WRITE_VOCAB];
    pc_generate_options o = world_once(got);
    pc_cache *cache = NULL, *own_cache = NULL;
    world w = {.context = NULL};
    if (!world_open(&w, path, &p))
        return;
    o.visibility = PC_VISIBLE_ALL;
    CHECK_STATUS(world_ask(w.model, NULL, both, question, &o, NULL), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("PC_VISIBLE_ALL");
    o = world_once(got);
    o.adapter = digest;
    CHECK_STATUS(world_ask(w.model, NULL, both, question, &o, NULL), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("an adapter of one request");
    CHECK_STATUS(ask(w.model, NULL, both, two_texts, got), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("where other text of the prompt stands");
    CHECK_STATUS(ask(w.model, NULL, both, before_all, got), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("text at position 0, where a segment stands");
    /* module b was computed at position 0; then it moves to where the prompt's text begins */
    CHECK_OK(pc_cache_new(&cache, w.context, NULL));
    CHECK_OK(pc_cache_new(&own_cache, w.context, NULL));
    CHECK_OK(ask(w.model, cache, alone, alone_question, got));
    for (int round = 0; round < 2; round++) {
        CHECK_OK(ask(w.model, cache, both, over, got));
        CHECK_OK(ask(w.own, own_cache, both, over, want));
        CHECK(apart(got, want) < 1e-3f);
    }
    CHECK(w.stats.cells_copied > 0);
    pc_cache_free(own_cache);
    pc_cache_free(cache);
    world_close(&w);
}

/* ----------------------------------------------------------------- bytes */

static void test_bytes(const char *path)
{
    static const char *const texts[] = {
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf7\xbf\xbf\xbf", "a\xf4\xbf\xbf\xbf z",
        "\xff\xfe",         "\xed\xa0\x80",     "\xc0\x80",         "\xf8\x88\x80\x80\x80",
        "\xf0\x9f\x98",
    };
    struct llama_context_params p = world_params();
    pc_test_rng rng = {5};
    char bytes[64];
    int32_t tokens[256];
    size_t count;
    world w = {.context = NULL};
    if (!path || !world_llama(&w, path, &p))
        return;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (uint64_t flags = 0; flags < 4; flags++) {
            CHECK_OK(pc_tokenize(w.model, texts[i], strlen(texts[i]), flags, tokens, 256, &count));
            CHECK(count > 0);
        }
    for (int i = 0; i < 2000; i++) {
        size_t size = 1 + pc_test_bits(&rng) % sizeof bytes;
        for (size_t k = 0; k < size; k++) {
            uint64_t r = pc_test_bits(&rng);
            bytes[k] = (char)(r & 1 ? 0xf0 | (r >> 8 & 15) : r & 2 ? 0x80 | (r >> 8 & 63) : r >> 8);
        }
        CHECK_OK(pc_tokenize(w.model, bytes, size, 0, tokens, 256, &count));
    }
    world_close(&w);
}

/* A file without vocabulary: llama.cpp's tokenizer would end the process. Tokens do without. */
static void test_no_vocabulary(void)
{
    static const int32_t given[] = {20, 30, 40};
    struct llama_context_params p = world_params();
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    model_writer writer = write_begin("llama", 2);
    pc_prompt *prompt = NULL;
    const char *path;
    int32_t tokens[8];
    char text[8];
    size_t count;
    world w = {.context = NULL};
    gguf_set_val_str(writer.gguf, "tokenizer.ggml.model", "none");
    gguf_set_val_u32(writer.gguf, "llama.vocab_size", WRITE_VOCAB);
    write_llama(&writer, 2, 0);
    path = write_end(&writer, "silent");
    if (!world_llama(&w, path, &p))
        return;
    CHECK_STATUS(pc_tokenize(w.model, "a", 1, 0, tokens, 8, &count), PC_ERR_UNSUPPORTED);
    CHECK_STATUS(pc_detokenize(w.model, given, 1, 0, text, 8, &count), PC_ERR_UNSUPPORTED);
    o.max_tokens = 2;
    CHECK_OK(pc_prompt_from_tokens(&prompt, w.model, given, 3, NULL));
    CHECK_OK(pc_generate(prompt, NULL, &o, NULL));
    pc_prompt_free(prompt);
    world_close(&w);
}

int main(void)
{
    const char *path = write_model("plain", "llama", 2, 0, NULL);

    llama_log_set(world_quiet, NULL);
    test_two_models(path);
    for (int how = 0; how < 3; how++)
        test_changed(path, how);
    test_tiny(path);
    refused(write_mamba(), "recurrent");
    refused(write_mrope(), "M-RoPE");
    refused(write_encoder(), "encoder");
    test_requests(path);
    test_bytes(path);
    test_no_vocabulary();
    test_bytes(world_file("models/demo/demo.gguf"));
    return pc_test_end();
}
