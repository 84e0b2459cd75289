/* Name and sizes of a model whose reader has refused it, or that has none: by the keys that most
 * families use. What is not found stays 0. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "model/load/load_internal.h"
#include "text/json_file.h"

enum { MAX_CONFIG = 16 << 20 };

static void set_size(int32_t *to, pc__count kind, int64_t value)
{
    if (!*to && pc__count_has(kind, value))
        *to = (int32_t)value;
}

static void outline_gguf(const pc__gguf *gguf, pc__arch *out)
{
    const struct {
        const char *key;
        int32_t *to;
        pc__count kind;
    } sizes[] = {{"block_count", &out->layers, PC__COUNT_LAYERS},
                 {"embedding_length", &out->hidden, PC__COUNT_WIDTH},
                 {"attention.head_count", &out->heads, PC__COUNT_HEADS},
                 {"attention.head_count_kv", &out->kv_heads, PC__COUNT_HEADS},
                 {"attention.key_length", &out->head_dim, PC__COUNT_HEAD_DIM},
                 {"context_length", &out->context_length, PC__COUNT_POSITIONS},
                 {"vocab_size", &out->vocab, PC__COUNT_VOCABULARY}};
    const char *name = "";
    char key[128];
    pc__gguf_string(gguf, "general.architecture", &name);
    snprintf(out->name, sizeof out->name, "%s", name);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t value = 0;
        snprintf(key, sizeof key, "%s.%s", name, sizes[i].key);
        if (pc__gguf_i64(gguf, key, &value))
            set_size(sizes[i].to, sizes[i].kind, value);
    }
}

static void outline_object(json_t *config, pc__arch *out)
{
    const struct {
        const char *keys[5];
        int32_t *to;
        pc__count kind;
    } sizes[] = {
        {{"num_hidden_layers", "n_layer", "n_layers", "num_layers"},
         &out->layers,
         PC__COUNT_LAYERS},
        {{"hidden_size", "d_model", "n_embd", "dim"}, &out->hidden, PC__COUNT_WIDTH},
        {{"num_attention_heads", "n_head", "n_heads", "num_heads"}, &out->heads, PC__COUNT_HEADS},
        {{"num_key_value_heads", "num_kv_heads", "multi_query_group_num"},
         &out->kv_heads,
         PC__COUNT_HEADS},
        {{"head_dim", "kv_channels"}, &out->head_dim, PC__COUNT_HEAD_DIM},
        {{"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"},
         &out->context_length,
         PC__COUNT_POSITIONS},
        {{"vocab_size", "padded_vocab_size"}, &out->vocab, PC__COUNT_VOCABULARY}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < 5 && sizes[i].keys[k]; k++)
            set_size(sizes[i].to, sizes[i].kind,
                     json_integer_value(json_object_get(config, sizes[i].keys[k])));
}

static pc_status outline_config(const pc__opened_model *o, pc__arch *out)
{
    json_t *config;
    pc_status status = pc__json_in_folder(&config, o->mem, o->path, "config.json", MAX_CONFIG, 0);
    if (status < 0)
        return status == PC_ERR_NOMEM ? status : PC_OK;
    const char *name = json_string_value(json_object_get(config, "model_type"));
    snprintf(out->name, sizeof out->name, "%s", name ? name : "");
    outline_object(config, out);
    outline_object(json_object_get(config, "text_config"), out); /* of models with pictures */
    json_decref(config);
    return PC_OK;
}

pc_status pc__outline_model(const pc__opened_model *o, pc__arch *out)
{
    pc_status status = PC_OK;
    memset(out, 0, sizeof *out);
    if (o->gguf)
        outline_gguf(o->gguf, out);
    else
        status = outline_config(o, out);
    out->causal = 1;
    out->token_bos = out->token_eos = out->token_unk = out->token_pad = -1;
    return status;
}
