/* Writes small models with random weights as GGUF files, by ggml's own writer. */
#ifndef LLAMA_TEST_WRITE_MODEL_H
#define LLAMA_TEST_WRITE_MODEL_H

#include <ggml.h>
#include <gguf.h>
#include <math.h>
#include <string.h>

#include "testing.h"

enum { WRITE_WIDTH = 64, WRITE_HEAD = 32, WRITE_FFN = 96, WRITE_VOCAB = 300, WRITE_CONTEXT = 2048 };

typedef struct model_writer {
    struct gguf_context *gguf;
    struct ggml_context *tensors;
    pc_test_rng rng;
    const char *architecture;
    const char *before; /* names of tensors in layers */
} model_writer;

static inline const char *write_key(const model_writer *w, const char *name)
{
    static char key[128];
    snprintf(key, sizeof key, "%s.%s", w->architecture, name);
    return key;
}

/* layer < 0: no layer. height 0: a vector around `centre`. */
static inline void write_tensor(model_writer *w, int layer, const char *name, int64_t width,
                                int64_t height, float centre)
{
    struct ggml_tensor *t = height ? ggml_new_tensor_2d(w->tensors, GGML_TYPE_F32, width, height)
                                   : ggml_new_tensor_1d(w->tensors, GGML_TYPE_F32, width);
    char full[128];
    float *data = t->data, spread = height ? 1.0f / sqrtf((float)width) : 0.1f;
    if (layer < 0)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "%sblk.%d.%s", w->before, layer, name);
    ggml_set_name(t, full);
    for (int64_t i = 0; i < ggml_nelements(t); i++)
        data[i] = centre + spread * pc_test_normal(&w->rng);
    gguf_add_tensor(w->gguf, t);
}

static inline void write_vocabulary(model_writer *w)
{
    static char text[WRITE_VOCAB][16];
    static const char *tokens[WRITE_VOCAB];
    static float scores[WRITE_VOCAB];
    static int32_t kinds[WRITE_VOCAB];
    for (int i = 0; i < WRITE_VOCAB; i++) {
        tokens[i] = text[i];
        scores[i] = (float)-i;
        kinds[i] = i >= 259 ? 1 : i >= 3 ? 6 : i ? 3 : 2;
        if (i < 3)
            strcpy(text[i], (const char *[]){"<unk>", "<s>", "</s>"}[i]);
        else if (i < 259)
            snprintf(text[i], sizeof text[i], "<0x%02X>", i - 3);
        else
            snprintf(text[i], sizeof text[i], "\xe2\x96\x81w%d", i - 259);
    }
    gguf_set_val_str(w->gguf, "tokenizer.ggml.model", "llama");
    gguf_set_arr_str(w->gguf, "tokenizer.ggml.tokens", tokens, WRITE_VOCAB);
    gguf_set_arr_data(w->gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores, WRITE_VOCAB);
    gguf_set_arr_data(w->gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, kinds, WRITE_VOCAB);
    gguf_set_val_u32(w->gguf, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(w->gguf, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_val_u32(w->gguf, "tokenizer.ggml.unknown_token_id", 0);
}

static inline void write_layers(model_writer *w, int layers, int gemma)
{
    for (int l = 0; l < layers; l++) {
        write_tensor(w, l, "attn_norm.weight", WRITE_WIDTH, 0, 1);
        write_tensor(w, l, "attn_q.weight", WRITE_WIDTH, 4 * WRITE_HEAD, 0);
        write_tensor(w, l, "attn_k.weight", WRITE_WIDTH, 2 * WRITE_HEAD, 0);
        write_tensor(w, l, "attn_v.weight", WRITE_WIDTH, 2 * WRITE_HEAD, 0);
        write_tensor(w, l, "attn_output.weight", 4 * WRITE_HEAD, WRITE_WIDTH, 0);
        write_tensor(w, l, "ffn_norm.weight", WRITE_WIDTH, 0, 1);
        write_tensor(w, l, "ffn_gate.weight", WRITE_WIDTH, WRITE_FFN, 0);
        write_tensor(w, l, "ffn_up.weight", WRITE_WIDTH, WRITE_FFN, 0);
        write_tensor(w, l, "ffn_down.weight", WRITE_FFN, WRITE_WIDTH, 0);
        if (gemma) {
            write_tensor(w, l, "attn_q_norm.weight", WRITE_HEAD, 0, 1);
            write_tensor(w, l, "attn_k_norm.weight", WRITE_HEAD, 0, 1);
            write_tensor(w, l, "post_attention_norm.weight", WRITE_WIDTH, 0, 1);
            write_tensor(w, l, "post_ffw_norm.weight", WRITE_WIDTH, 0, 1);
        }
    }
}

/* Facts that all have; the caller adds others, then tensors. */
static inline model_writer write_begin(const char *architecture, int layers)
{
    struct ggml_init_params memory = {64u << 20, NULL, false};
    model_writer w = {gguf_init_empty(), ggml_init(memory), {7}, architecture, ""};
    gguf_set_val_str(w.gguf, "general.architecture", architecture);
    gguf_set_val_u32(w.gguf, write_key(&w, "context_length"), WRITE_CONTEXT);
    gguf_set_val_u32(w.gguf, write_key(&w, "embedding_length"), WRITE_WIDTH);
    gguf_set_val_u32(w.gguf, write_key(&w, "block_count"), (uint32_t)layers);
    gguf_set_val_u32(w.gguf, write_key(&w, "feed_forward_length"), WRITE_FFN);
    gguf_set_val_f32(w.gguf, write_key(&w, "attention.layer_norm_rms_epsilon"), 1e-5f);
    gguf_set_val_f32(w.gguf, write_key(&w, "attention.layer_norm_epsilon"), 1e-5f);
    gguf_set_val_f32(w.gguf, write_key(&w, "rope.freq_base"), 10000.0f);
    write_vocabulary(&w);
    return w;
}

static inline const char *write_end(model_writer *w, const char *name)
{
    static char path[4][512];
    static int next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s.gguf", pc_test_folder(), name);
    CHECK(gguf_write_to_file(w->gguf, out, false));
    gguf_free(w->gguf);
    ggml_free(w->tensors);
    return out;
}

/* Llama, and what has its tensors: heads of 32, two of K and V. */
static inline void write_llama(model_writer *w, int layers, int gemma)
{
    gguf_set_val_u32(w->gguf, write_key(w, "attention.head_count"), 4);
    gguf_set_val_u32(w->gguf, write_key(w, "attention.head_count_kv"), 2);
    gguf_set_val_u32(w->gguf, write_key(w, "attention.key_length"), WRITE_HEAD);
    gguf_set_val_u32(w->gguf, write_key(w, "attention.value_length"), WRITE_HEAD);
    write_tensor(w, -1, "token_embd.weight", WRITE_WIDTH, WRITE_VOCAB, 0);
    write_tensor(w, -1, "output_norm.weight", WRITE_WIDTH, 0, 1);
    write_layers(w, layers, gemma);
}

/* architecture: "llama", or another one with its tensors, or "gemma3" with a window; chat: the
 * template, or NULL. */
static inline const char *write_model(const char *name, const char *architecture, int layers,
                                      uint32_t window, const char *chat)
{
    model_writer w = write_begin(architecture, layers);
    if (window)
        gguf_set_val_u32(w.gguf, write_key(&w, "attention.sliding_window"), window);
    if (chat)
        gguf_set_val_str(w.gguf, "tokenizer.chat_template", chat);
    write_llama(&w, layers, window > 0);
    return write_end(&w, name);
}

/* Q, K and V as wide as the model. */
static inline void write_whole(model_writer *w, int layers)
{
    write_tensor(w, -1, "token_embd.weight", WRITE_WIDTH, WRITE_VOCAB, 0);
    write_tensor(w, -1, "output.weight", WRITE_WIDTH, WRITE_VOCAB, 0);
    write_tensor(w, -1, "output_norm.weight", WRITE_WIDTH, 0, 1);
    for (int l = 0; l < layers; l++) {
        write_tensor(w, l, "attn_norm.weight", WRITE_WIDTH, 0, 1);
        write_tensor(w, l, "attn_q.weight", WRITE_WIDTH, WRITE_WIDTH, 0);
        write_tensor(w, l, "attn_k.weight", WRITE_WIDTH, WRITE_WIDTH, 0);
        write_tensor(w, l, "attn_v.weight", WRITE_WIDTH, WRITE_WIDTH, 0);
        write_tensor(w, l, "attn_output.weight", WRITE_WIDTH, WRITE_WIDTH, 0);
        write_tensor(w, l, "ffn_norm.weight", WRITE_WIDTH, 0, 1);
        write_tensor(w, l, "ffn_gate.weight", WRITE_WIDTH, WRITE_FFN, 0);
        write_tensor(w, l, "ffn_up.weight", WRITE_WIDTH, WRITE_FFN, 0);
        write_tensor(w, l, "ffn_down.weight", WRITE_FFN, WRITE_WIDTH, 0);
    }
}

/* A weight and a bias. */
static inline void write_pair(model_writer *w, int layer, const char *name, int64_t width,
                              int64_t height)
{
    char part[64];
    snprintf(part, sizeof part, "%s.weight", name);
    write_tensor(w, layer, part, width, height, height ? 0 : 1);
    snprintf(part, sizeof part, "%s.bias", name);
    write_tensor(w, layer, part, height ? height : width, 0, 0);
}

/* "gpt2" and "starcoder", which have learned positions, or "bloom", which has ALiBi: two heads of
 * 32, one matrix for Q, K and V. */
static inline const char *write_gpt(const char *architecture)
{
    model_writer w = write_begin(architecture, 2);
    gguf_set_val_u32(w.gguf, write_key(&w, "attention.head_count"), 2);
    write_tensor(&w, -1, "token_embd.weight", WRITE_WIDTH, WRITE_VOCAB, 0);
    write_pair(&w, -1, "output_norm", WRITE_WIDTH, 0);
    if (strcmp(architecture, "bloom"))
        write_tensor(&w, -1, "position_embd.weight", WRITE_WIDTH, WRITE_CONTEXT, 0);
    else
        write_pair(&w, -1, "token_embd_norm", WRITE_WIDTH, 0);
    for (int l = 0; l < 2; l++) {
        write_pair(&w, l, "attn_norm", WRITE_WIDTH, 0);
        write_pair(&w, l, "attn_qkv", WRITE_WIDTH, 3 * WRITE_WIDTH);
        write_pair(&w, l, "attn_output", WRITE_WIDTH, WRITE_WIDTH);
        write_pair(&w, l, "ffn_norm", WRITE_WIDTH, 0);
        write_pair(&w, l, "ffn_down", WRITE_FFN, WRITE_WIDTH);
        write_pair(&w, l, "ffn_up", WRITE_WIDTH, WRITE_FFN);
    }
    return write_end(&w, architecture);
}

#endif
