/* What a context of llama.cpp is: whether it can be used, what its states are like, and the
 * identity of these. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { LEAST_IDS = 8, MOVED_TO = 33 };

/* ----------------------------------------------------------------- check */

static const char *kind_fault(const struct llama_model *w, const struct llama_context *c)
{
    enum llama_rope_type rope = llama_model_rope_type(w);
    if (llama_model_is_recurrent(w) || llama_model_is_hybrid(w))
        return "a recurrent or hybrid model: its state is no K and V of single tokens";
    if (llama_model_is_diffusion(w))
        return "a diffusion model: its tokens see those behind them";
    if (llama_model_has_encoder(w) || !llama_model_has_decoder(w))
        return "a model with an encoder: promptcache needs a decoder alone";
    if (!llama_get_memory(c))
        return "a context without memory for K and V";
    if (!llama_get_causal_attn(c))
        return "attention is not causal: its tokens see those behind them";
    if (rope == LLAMA_ROPE_TYPE_MROPE || rope == LLAMA_ROPE_TYPE_IMROPE
        || rope == LLAMA_ROPE_TYPE_VISION)
        return "positions of several dimensions (M-RoPE): its states cannot be moved";
    return NULL;
}

static const char *params_fault(const struct llama_model *w, const struct llama_context *c,
                                const struct llama_context_params *p)
{
    if (p->n_seq_max > 1 && llama_n_ctx_seq(c) < llama_n_ctx(c))
        return "kv_unified is off: sequences cannot share cells";
    if (llama_model_n_swa(w) > 0 && !p->swa_full)
        return "swa_full is off: llama.cpp drops what has left a sliding window, and a segment "
               "would lose its beginning";
    if (p->embeddings)
        return "embeddings is on: set it to false (pc_embed turns it on when it needs it)";
    if (p->ctx_type != LLAMA_CONTEXT_TYPE_DEFAULT || p->ctx_other)
        return "a context beside another one (ctx_type, ctx_other)";
    return NULL;
}

static pc_status check_version(int any_version)
{
    const char *built = pc_llama_built_with(), *runs = pc_llama_runs_with();
    if (any_version || !*built || !strcmp(built, runs))
        return PC_OK;
    return host_fail(PC_ERR_MISMATCH,
                     "the adapter was built with llama.cpp %s, and %s runs: build it again (or "
                     "PC_LLAMA_ANY_VERSION)",
                     built, runs);
}

pc_status context_check(const struct llama_model *weights, struct llama_context *memory,
                        const struct llama_context_params *params, int any_version)
{
    const char *fault;
    pc_status status;
    if (!weights || !memory || !params)
        return host_fail(PC_ERR_INVALID, "llama.cpp's model, context or its params is NULL");
    if ((status = check_version(any_version)) < 0)
        return status;
    if (host_exists(memory))
        return host_fail(PC_ERR_STATE, "the context has another pc_model already: one each");
    if (llama_get_model(memory) != weights)
        return host_fail(PC_ERR_MISMATCH, "the context is of another llama_model");
    if ((fault = kind_fault(weights, memory)))
        return host_fail(PC_ERR_UNSUPPORTED, "%s", fault);
    if (llama_n_seq_max(memory) != params->n_seq_max)
        return host_fail(PC_ERR_MISMATCH, "the context has n_seq_max %u, its params say %u",
                         llama_n_seq_max(memory), params->n_seq_max);
    if ((fault = params_fault(weights, memory, params)))
        return host_fail(PC_ERR_UNSUPPORTED, "%s (pc_llama_params sets what is needed)", fault);
    if (params->n_seq_max < LEAST_IDS)
        return host_fail(PC_ERR_UNSUPPORTED,
                         "n_seq_max is %u: requests and segments need sequence ids, at least %d "
                         "(pc_llama_params)",
                         params->n_seq_max, LEAST_IDS);
    for (uint32_t i = 0; i < params->n_seq_max; i++)
        if (llama_memory_seq_pos_max(llama_get_memory(memory), (llama_seq_id)i) >= 0)
            return host_fail(PC_ERR_STATE,
                             "the context's memory has tokens already, of sequence "
                             "%u: give it empty (llama_memory_clear)",
                             i);
    return PC_OK;
}

/* ----------------------------------------------------------------- learn */

static const char *meta(const host *h, const char *key, char *out, size_t size)
{
    return llama_model_meta_val_str(h->weights, key, out, size) < 0 ? NULL : out;
}

static int one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(name, *list))
            return 1;
    return 0;
}

enum { BAICHUAN_ALIBI_LAYERS = 40 };

/* llama.h does not tell ALiBi from learned positions, and says RoPE of two that have none. */
static void learn_positions(host *h, const char *architecture)
{
    static const char *const alibi[] = {"bloom", "mpt", "refact", "jais", NULL};
    static const char *const learned[] = {"starcoder", NULL};
    /* borders of chunks, or scales of queries, are absolute */
    static const char *const absolute[] = {"llama4", "mistral3", "mistral4", NULL};
    int baichuan = !strcmp(architecture, "baichuan")
                   && llama_model_n_layer(h->weights) == BAICHUAN_ALIBI_LAYERS;
    int rope = llama_model_rope_type(h->weights) != LLAMA_ROPE_TYPE_NONE && !baichuan
               && !one_of(architecture, learned);
    int biased = baichuan || (!rope && one_of(architecture, alibi));
    h->info.position_scheme = rope     ? PC_POSITION_ROPE
                              : biased ? PC_POSITION_ALIBI
                                       : PC_POSITION_LEARNED;
    h->info.relocatable = (rope || biased) && llama_memory_can_shift(h->cells)
                          && !one_of(architecture, absolute);
    h->labels_matter = h->window > 0 || biased;
}

static int32_t meta_token(const host *h, const char *key)
{
    char text[32];
    return meta(h, key, text, sizeof text) ? (int32_t)atoi(text) : -1;
}

static void learn_facts(host *h)
{
    const struct llama_model *w = h->weights;
    pc_model_info *i = &h->info;
    char architecture[64] = "";
    meta(h, "general.architecture", architecture, sizeof architecture);
    snprintf(i->architecture, sizeof i->architecture, "llama.cpp:%.21s", architecture);
    i->heads = llama_model_n_head(w);
    i->kv_heads = llama_model_n_head_kv(w);
    i->hidden = llama_model_n_embd(w);
    i->vocab = llama_vocab_n_tokens(h->vocab);
    i->context_length = llama_model_n_ctx_train(w);
    i->token_bos = llama_vocab_bos(h->vocab);
    i->token_eos = llama_vocab_eos(h->vocab);
    i->token_pad = llama_vocab_pad(h->vocab);
    i->token_unk = meta_token(h, "tokenizer.ggml.unknown_token_id");
    i->weight_bytes = llama_model_size(w);
    learn_positions(h, architecture);
}

static uint64_t key_values(const host *h)
{
    enum ggml_type type = (enum ggml_type)h->form.type_k;
    return h->form.row_k / ggml_type_size(type) * (uint64_t)ggml_blck_size(type);
}

/* llama.cpp mixes the values of a quantised head before it rounds them, unless this is set. */
static int mixing_is_off(void)
{
    const char *set = getenv("LLAMA_ATTN_ROT_DISABLE");
    return set && atoi(set);
}

/* Whether llama.cpp can rotate K of this type. Where it cannot, it does not fail: the process ends.
 * ggml rotates no bf16. Quantised K must be mixed, in heads of equal size that are rotated whole.
 */
static int can_rotate(const host *h)
{
    enum { MIXED = 64 };
    enum ggml_type type = (enum ggml_type)h->form.type_k;
    char name[64] = "", key[128], text[32];
    uint64_t head = h->info.kv_heads > 0 ? key_values(h) / (uint64_t)h->info.kv_heads : 0;
    if (llama_model_rope_type(h->weights) == LLAMA_ROPE_TYPE_NONE)
        return 1; /* nothing is rotated */
    if (!ggml_is_quantized(type))
        return type != GGML_TYPE_BF16;
    meta(h, "general.architecture", name, sizeof name);
    snprintf(key, sizeof key, "%s.attention.kv_lora_rank", name);
    if (mixing_is_off() || !head || head % MIXED || meta(h, key, text, sizeof text))
        return 0;
    snprintf(key, sizeof key, "%s.rope.dimension_count", name);
    return !meta(h, key, text, sizeof text) || strtoul(text, NULL, 10) == head;
}

static void learn_layers(host *h)
{
    enum ggml_type type = (enum ggml_type)h->form.type_k;
    h->info.layers = (int32_t)h->form.layers;
    h->info.kv_bytes_per_token = h->form.token_bytes;
    if (h->info.kv_heads > 0)
        h->info.head_dim = (int32_t)(key_values(h) / (uint64_t)h->info.kv_heads);
    h->info.compute = type == GGML_TYPE_F32    ? PC_DTYPE_F32
                      : type == GGML_TYPE_F16  ? PC_DTYPE_F16
                      : type == GGML_TYPE_BF16 ? PC_DTYPE_BF16
                                               : PC_DTYPE_DEFAULT;
}

static pc_status probe_decode(host *h, llama_seq_id id, llama_pos position)
{
    struct llama_batch *b = &h->batch;
    int result;
    b->n_tokens = 1;
    b->token[0] = h->info.token_bos >= 0 ? h->info.token_bos : 0;
    b->pos[0] = position;
    b->n_seq_id[0] = 1;
    b->seq_id[0][0] = id;
    b->logits[0] = 1;
    result = llama_decode(h->memory, *b);
    if (result || !llama_get_logits_ith(h->memory, 0))
        return host_fail(PC_ERR_INTERNAL,
                         "llama_decode of one token at position %d gave %d, logits %s", position,
                         result, result ? "none" : "or not");
    return PC_OK;
}

static pc_status check_form(const host *h)
{
    const struct llama_context_params *p = &h->params;
    const state_form *f = &h->form;
    if (f->type_k != (int)p->type_k || (f->type_v >= 0 && f->type_v != (int)p->type_v))
        return host_fail(PC_ERR_MISMATCH,
                         "the context keeps K and V as %s and %s, its params say %s and %s",
                         ggml_type_name((enum ggml_type)f->type_k),
                         f->type_v < 0 ? "nothing" : ggml_type_name((enum ggml_type)f->type_v),
                         ggml_type_name(p->type_k), ggml_type_name(p->type_v));
    return PC_OK;
}

/* Whether llama.cpp moves K as it should. It rotates all layers, also those of a model without RoPE
 * in some of them; and with YaRN, it scales K once more. A token that sees nothing else has the
 * same activations everywhere, so its K that was moved must be the one computed there. `size`
 * bytes of it at position 0 are in h->bytes, and `source` holds it. */
static pc_status probe_move(host *h, size_t size)
{
    llama_pos to = h->info.context_length > 2 * MOVED_TO ? MOVED_TO : h->info.context_length / 2;
    size_t moved_size, own_size = 0;
    uint8_t *copy = NULL;
    pc_status status = state_put(h, h->target, h->bytes, size);
    if (status < 0)
        return status;
    llama_memory_seq_add(h->cells, h->target, -1, -1, to);
    llama_memory_seq_rm(h->cells, h->source, -1, -1);
    if ((status = probe_decode(h, h->target, to + 1)) < 0)
        return status;
    llama_memory_seq_rm(h->cells, h->target, to + 1, -1);
    if ((status = state_take(h, h->target, &moved_size)) < 0)
        return status;
    if (!(copy = malloc(moved_size)))
        return PC_ERR_NOMEM;
    memcpy(copy, h->bytes, moved_size);
    if ((status = probe_decode(h, h->source, to)) >= 0)
        status = state_take(h, h->source, &own_size);
    if (status >= 0 && (own_size != moved_size || !state_same_keys(copy, h->bytes, own_size)))
        h->info.relocatable = 0;
    free(copy);
    return status;
}

/* A few tokens. One stands behind a gap: that shows that states can be taken, renamed and put
 * back. */
static pc_status probe(host *h)
{
    enum { LABEL = 4 };
    size_t size;
    pc_status status = probe_decode(h, h->source, 0);
    if (status >= 0)
        status = state_take(h, h->source, &size);
    if (status >= 0 && state_read(h, h->bytes, size, 1, &h->form, NULL) < 0)
        status = host_fail(PC_ERR_UNSUPPORTED,
                           "a model whose memory llama.cpp writes in a form that the adapter does "
                           "not know");
    if (status >= 0)
        status = check_form(h);
    if (status >= 0 && !h->labels_matter) {
        state_label(h->bytes, LABEL);
        status = state_put(h, h->target, h->bytes, size);
        if (status >= 0 && llama_memory_seq_pos_max(h->cells, h->target) != LABEL)
            status = host_fail(PC_ERR_UNSUPPORTED, "llama.cpp's memory does not take positions");
        if (status >= 0)
            status = probe_decode(h, h->target, LABEL + 1);
        llama_memory_seq_rm(h->cells, h->target, -1, -1);
        if (status >= 0)
            status = state_take(h, h->source, &size);
    }
    h->info.relocatable = h->info.relocatable && can_rotate(h);
    if (status >= 0 && h->info.relocatable)
        status = probe_move(h, size);
    llama_memory_seq_rm(h->cells, h->source, -1, -1);
    llama_memory_seq_rm(h->cells, h->target, -1, -1);
    return status;
}

/* ---------------------------------------------------------------- digest */

/* 256 bits by four lanes of multiplication and folding. It keeps settings of one user apart; nobody
 * who makes collisions on purpose chooses them. */
static void digest_add(uint64_t lanes[4], const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        for (int l = 0; l < 4; l++) {
            lanes[l] = (lanes[l] ^ bytes[i]) * (0x9e3779b97f4a7c15u + 2 * (uint64_t)l);
            lanes[l] ^= lanes[l] >> 29;
        }
}

/* LongRoPE: the length of the context chooses the factors. */
static int long_factors(const host *h)
{
    char key[128], architecture[64] = "", text[32];
    meta(h, "general.architecture", architecture, sizeof architecture);
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", architecture);
    return meta(h, key, text, sizeof text) && llama_n_ctx_seq(h->memory) > strtoul(text, NULL, 10);
}

static void learn_identity(host *h, const uint8_t weights[32], const void *identity, size_t size)
{
    const struct llama_context_params *p = &h->params;
    uint64_t lanes[4] = {1, 2, 3, 4};
    char text[640];
    int length = snprintf(
        text, sizeof text,
        "llama.cpp %s; K %d V %d turned %d; rope %d %.9g %.9g %d; yarn %.9g %.9g %.9g %.9g %u; "
        "attention %d; identity %zu:",
        pc_llama_runs_with(), h->form.type_k, h->form.type_v, h->form.transposed,
        (int)p->rope_scaling_type, (double)p->rope_freq_base, (double)p->rope_freq_scale,
        long_factors(h), (double)p->yarn_ext_factor, (double)p->yarn_attn_factor,
        (double)p->yarn_beta_fast, (double)p->yarn_beta_slow, p->yarn_orig_ctx,
        (int)p->attention_type, size);
    digest_add(lanes, weights, 32);
    digest_add(lanes, text, (size_t)length);
    digest_add(lanes, identity, size);
    if (mixing_is_off())
        digest_add(lanes, "not mixed", 9);
    digest_add(lanes, "\0\0\0\0\0\0\0", 8);
    memcpy(h->info.fingerprint, lanes, 32);
    for (int i = 0; i < 32; i++)
        h->info.fingerprint[i] ^= weights[i];
}

pc_status context_learn(host *h, const uint8_t fingerprint[32], const void *identity,
                        size_t identity_size)
{
    pc_status status;
    learn_facts(h);
    if ((status = probe(h)) < 0)
        return status;
    learn_layers(h);
    learn_identity(h, fingerprint, identity, identity_size);
    return PC_OK;
}
