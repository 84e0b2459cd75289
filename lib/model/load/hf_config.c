/* config.json to pc__arch: one function an architecture, with the keys and defaults of its class in
 * transformers. Keys that do not change a forward pass (dropout, initialisation, caching) are
 * ignored. */
#include <string.h>

#include "base/file.h"
#include "model/load/families.h"
#include "model/load/hf_internal.h"
#include "text/json_file.h"

enum { MAX_CONFIG = 16 << 20 };

/* ------------------------------------------------------------------ keys */

json_t *pc__config_find(const pc__config *config, const char *key)
{
    json_t *value = json_object_get(config->object, key);
    return json_is_null(value) ? NULL : value;
}

/* As much of a value's JSON as an error text may show. */
typedef struct value_text {
    char text[120];
    size_t size;
} value_text;

/* Takes what fits; ends the dump once that is all. */
static int add_part(const char *part, size_t size, void *user)
{
    value_text *to = user;
    size_t room = sizeof to->text - to->size, n = size < room ? size : room;
    memcpy(to->text + to->size, part, n);
    to->size += n;
    return n < size ? -1 : 0;
}

/* The value as JSON, cut short; "": there is none. */
static const char *show_value(json_t *value, pc__quoted *out)
{
    value_text json = {.size = 0};
    if (value) /* a dump that ends early is cut */
        json_dump_callback(value, add_part, &json, JSON_ENCODE_ANY | JSON_COMPACT);
    return pc__quote(json.text, json.size, out);
}

static pc_status wrong_value(const pc__config *config, const char *key, const char *want)
{
    pc__quoted room;
    const char *text = show_value(json_object_get(config->object, key), &room);
    return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is %s, expected %s", config->where, key,
                    *text ? text : "missing", want);
}

pc_status pc__config_refuse(const pc__config *config, const char *key)
{
    pc__quoted room;
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': %s is not implemented for model_type '%s'",
                    config->where, key, show_value(json_object_get(config->object, key), &room),
                    config->model);
}

pc_status pc__config_size(const pc__config *config, const char *key, pc__count kind, int32_t *out)
{
    char words[PC__COUNT_WORDS];
    int64_t number;
    if (!pc__json_integer(json_object_get(config->object, key), 1, pc__count_most(kind), &number))
        return wrong_value(config, key, pc__count_words(kind, words));
    *out = (int32_t)number;
    return PC_OK;
}

pc_status pc__config_maybe(const pc__config *config, const char *key, pc__count kind, int32_t *out)
{
    json_t *value = pc__config_find(config, key);
    int64_t none;
    if (value && !pc__json_integer(value, 0, 0, &none))
        return pc__config_size(config, key, kind, out);
    if (value)
        *out = 0;
    return PC_OK;
}

pc_status pc__config_flag(const pc__config *config, const char *key, int32_t *out)
{
    json_t *value = json_object_get(config->object, key);
    if (value && !json_is_null(value) && !json_is_boolean(value))
        return wrong_value(config, key, "true or false");
    if (value)
        *out = json_is_true(value);
    return PC_OK;
}

pc_status pc__config_number(const pc__config *config, const char *key, double *out)
{
    json_t *value = pc__config_find(config, key);
    if (value && (!json_is_number(value) || !pc__factor_has(json_number_value(value))))
        return wrong_value(config, key, PC__FACTOR_WORDS);
    if (value)
        *out = json_number_value(value);
    return PC_OK;
}

pc_status pc__config_only(const pc__config *config, const char *key, int want)
{
    int32_t value = want;
    pc_status status = pc__config_flag(config, key, &value);
    return status < 0 || value == want ? status : pc__config_refuse(config, key);
}

pc_status pc__config_only_text(const pc__config *config, const char *key, const char *want)
{
    const char *text = json_string_value(pc__config_find(config, key));
    return !pc__config_find(config, key) || (text && !strcmp(text, want))
               ? PC_OK
               : pc__config_refuse(config, key);
}

pc_status pc__config_none(const pc__config *config, const char *key)
{
    return pc__config_find(config, key) ? pc__config_refuse(config, key) : PC_OK;
}

pc_status pc__config_activation(const pc__config *config, const char *key, pc__activation fallback,
                                pc__activation *out)
{
    static const struct {
        const char *name;
        pc__activation activation;
    } known[] = {{"silu", PC__ACT_SILU},
                 {"swish", PC__ACT_SILU},
                 {"gelu", PC__ACT_GELU},
                 {"gelu_new", PC__ACT_GELU_TANH},
                 {"relu", PC__ACT_RELU},
                 {"gelu_pytorch_tanh", PC__ACT_GELU_TANH},
                 {"gelu_fast", PC__ACT_GELU_TANH},
                 {"tanh", PC__ACT_TANH},
                 {"relu2", PC__ACT_RELU_SQUARED},
                 {"gelu_python", PC__ACT_GELU},
                 {"gelu_accurate", PC__ACT_GELU_TANH},
                 {"gelu_python_tanh", PC__ACT_GELU_TANH}};
    const char *name = json_string_value(pc__config_find(config, key));
    *out = fallback;
    if (!pc__config_find(config, key))
        return PC_OK;
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++) {
        if (!strcmp(name, known[i].name)) {
            *out = known[i].activation;
            return PC_OK;
        }
    }
    return pc__config_refuse(config, key);
}

pc_status pc__config_eps(const pc__config *config, const char *key, double fallback, pc__arch *arch)
{
    pc_status status = pc__config_number(config, key, &fallback);
    arch->norm_eps = (float)fallback;
    return status;
}

pc_status pc__config_head_dim(const pc__config *config, pc__arch *arch)
{
    pc_status status = pc__config_maybe(config, "head_dim", PC__COUNT_HEAD_DIM, &arch->head_dim);
    if (status < 0 || arch->head_dim > 0)
        return status;
    if (arch->hidden % arch->heads)
        return pc__fail(PC_ERR_FORMAT, "%s: the width %d is not a multiple of %d heads",
                        config->where, arch->hidden, arch->heads);
    arch->head_dim = arch->hidden / arch->heads;
    return PC_OK;
}

pc_status pc__config_sizes(const pc__config *config, const char *mlp, const char *context,
                           pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_size(config, "hidden_size", PC__COUNT_WIDTH, &arch->hidden));
    PC__TRY_RETURN(pc__config_size(config, "num_hidden_layers", PC__COUNT_LAYERS, &arch->layers));
    PC__TRY_RETURN(pc__config_size(config, "num_attention_heads", PC__COUNT_HEADS, &arch->heads));
    if (mlp)
        PC__TRY_RETURN(pc__config_size(config, mlp, PC__COUNT_WIDTH, &arch->ffn));
    if (context)
        PC__TRY_RETURN(
            pc__config_size(config, context, PC__COUNT_POSITIONS, &arch->context_length));
    return pc__config_head_dim(config, arch);
}

/* ------------------------------------------------------------------ the configuration */

/* Reads an id, or the first of a list of ids. */
static void read_token(const pc__config *config, const char *key, int32_t *out)
{
    json_t *value = pc__config_find(config, key);
    int64_t id;
    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (pc__json_integer(value, 0, INT32_MAX, &id))
        *out = (int32_t)id;
}

static const struct {
    const char *model_type;
    pc__config_reader *read;
} readers[] = {{"llama", pc__read_llama},
               {"mistral", pc__read_mistral},
               {"qwen2", pc__read_qwen2},
               {"falcon", pc__read_falcon},
               {"mpt", pc__read_mpt},
               {"bloom", pc__read_bloom},
               {"gpt2", pc__read_gpt2},
               {"phi", pc__read_phi},
               {"phi3", pc__read_phi3},
               {"opt", pc__read_opt},
               {"mixtral", pc__read_mixtral},
               {"qwen2_moe", pc__read_qwen2_moe},
               {"qwen3", pc__read_qwen3},
               {"qwen3_moe", pc__read_qwen3_moe},
               {"gemma", pc__read_gemma},
               {"gemma2", pc__read_gemma2},
               {"gemma3_text", pc__read_gemma3},
               {"gpt_neox", pc__read_gpt_neox},
               {"llama4_text", pc__read_llama4},
               {"gpt_oss", pc__read_gpt_oss},
               {"olmo2", pc__read_olmo2},
               {"granite", pc__read_granite},
               {"cohere", pc__read_cohere},
               {"cohere2", pc__read_cohere2},
               {"starcoder2", pc__read_starcoder2},
               {"stablelm", pc__read_stablelm},
               {"glm", pc__read_glm},
               {"glm4", pc__read_glm4},
               {"nemotron", pc__read_nemotron},
               {"smollm3", pc__read_smollm3},
               {"ministral", pc__read_ministral},
               {"ministral3", pc__read_ministral3},
               {"deepseek", pc__read_deepseek},
               {"deepseek_v2", pc__read_deepseek_v2},
               {"deepseek_v3", pc__read_deepseek_v3},
               {"bert", pc__read_bert},
               {"roberta", pc__read_roberta},
               {"xlm-roberta", pc__read_roberta},
               {"camembert", pc__read_roberta},
               {"deberta", pc__read_deberta},
               {"deberta-v2", pc__read_deberta_v2}};

static pc__config_reader *reader_of(const char *model_type)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (!strcmp(readers[i].model_type, model_type))
            return readers[i].read;
    return NULL;
}

static const char *reader_name(size_t index)
{
    return index < sizeof readers / sizeof *readers ? readers[index].model_type : NULL;
}

/* Refuses weights that are quantised by the methods of Python's libraries, but for the experts of
 * gpt-oss. */
static pc_status check_quantisation(const pc__config *config)
{
    json_t *how = pc__config_find(config, "quantization_config");
    const char *method = json_string_value(json_object_get(how, "quant_method"));
    if (method && !strcmp(method, "mxfp4") && !strcmp(config->model, "gpt_oss"))
        return PC_OK; /* pc__weights_join_scales */
    if (how)
        return pc__quantised_refuse(config->where, method);
    return pc__config_find(config, "quantization") ? pc__quantised_refuse(config->where, "MLX")
                                                   : PC_OK;
}

static void read_tokens(const pc__config *config, pc__arch *arch)
{
    read_token(config, "bos_token_id", &arch->token_bos);
    read_token(config, "eos_token_id", &arch->token_eos);
    read_token(config, "unk_token_id", &arch->token_unk);
    read_token(config, "pad_token_id", &arch->token_pad);
}

/* Models with images, whose text part can be computed alone: its configuration is in text_config,
 * often without the keys that have the values of the first model of its kind. */
static const struct {
    const char *model_type, *text_defaults;
} image_models[] = {
    {"gemma3", "{\"model_type\":\"gemma3_text\",\"vocab_size\":262208,\"hidden_size\":2304,"
               "\"intermediate_size\":9216,\"num_hidden_layers\":26,\"num_attention_heads\":8,"
               "\"num_key_value_heads\":4,\"max_position_embeddings\":131072}"},
    {"llama4", "{\"model_type\":\"llama4_text\",\"vocab_size\":202048,\"hidden_size\":5120,"
               "\"intermediate_size\":8192,\"intermediate_size_mlp\":16384,"
               "\"num_hidden_layers\":48,\"num_attention_heads\":40,\"num_key_value_heads\":8,"
               "\"max_position_embeddings\":131072}"},
    {"mistral3", "{\"model_type\":\"mistral\",\"vocab_size\":32000,\"hidden_size\":4096,"
                 "\"intermediate_size\":14336,\"num_hidden_layers\":32,"
                 "\"num_attention_heads\":32,\"num_key_value_heads\":8,"
                 "\"max_position_embeddings\":131072}"},
};

/* Adds the keys of a JSON text that the object does not have. */
static pc_status add_missing(json_t *object, const char *text)
{
    json_t *missing = json_loads(text, 0, NULL);
    int updated = missing && !json_object_update_missing(object, missing);
    json_decref(missing);
    return updated ? PC_OK : PC_ERR_NOMEM;
}

pc_status pc__config_usual_rope(const pc__config *config, const char *parameters)
{
    if (pc__config_find(config, "rope_parameters") || pc__config_find(config, "rope_scaling"))
        return PC_OK;
    json_object_del(config->object, "rope_parameters"); /* it may be null */
    return add_missing(config->object, parameters);
}

/* Replaces the configuration of a model with images by that of its text part. */
static pc_status choose_text_part(pc__config *config, pc__arch *arch)
{
    json_t *text = pc__config_find(config, "text_config");
    const char *defaults = NULL;
    for (size_t i = 0; i < sizeof image_models / sizeof *image_models; i++)
        if (!strcmp(image_models[i].model_type, config->model))
            defaults = image_models[i].text_defaults;
    if (!defaults || !json_is_object(text))
        return PC_OK;
    PC__TRY_RETURN(add_missing(text, defaults));
    read_tokens(config, arch);
    PC__TRY_RETURN(check_quantisation(config));
    /* older files say it in text_config, newer ones here, often by its default: true */
    arch->tied_by_file = 1;
    PC__TRY_RETURN(pc__config_flag(config, "tie_word_embeddings", &arch->tied_by_file));
    config->object = text;
    config->model = json_string_value(json_object_get(text, "model_type"));
    return config->model
               ? PC_OK
               : pc__fail(PC_ERR_FORMAT, "%s: key 'model_type' of text_config is not text",
                          config->where);
}

static pc_status read_object(pc__config *config, pc__arch *arch)
{
    arch->token_bos = arch->token_eos = arch->token_unk = arch->token_pad = -1;
    PC__TRY_RETURN(choose_text_part(config, arch));
    pc__config_reader *read = reader_of(config->model);
    if (!read)
        return pc__family_refuse(config->where, "model_type", config->model, reader_name);
    strcpy(arch->name, config->model); /* a short name: reader_of knows it */
    arch->causal = 1;
    read_tokens(config, arch);
    PC__TRY_RETURN(check_quantisation(config));
    PC__TRY_RETURN(pc__config_only(config, "is_encoder_decoder", 0));
    PC__TRY_RETURN(pc__config_only(config, "add_cross_attention", 0));
    PC__TRY_RETURN(pc__config_size(config, "vocab_size", PC__COUNT_VOCABULARY, &arch->vocab));
    PC__TRY_RETURN(read(config, arch));
    if (!arch->latent.rank)
        arch->v_dim = arch->head_dim;
    if (!arch->embedding_dim)
        arch->embedding_dim = arch->hidden;
    return pc__arch_check(arch, config->where);
}

/* A configuration without model_type. */
static pc_status refuse_nameless(const pc__config *config)
{
    const char *part = json_string_value(pc__config_find(config, "_class_name"));
    if (part)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: a part of an image generator (diffusers, '%.64s'), not a language "
                        "model",
                        config->where, part);
    return pc__fail(PC_ERR_FORMAT, "%s: key 'model_type' is missing", config->where);
}

pc_status pc__arch_from_json(pc__arch *out, const pc_allocator *mem, const char *text, size_t size,
                             const char *where)
{
    pc__config config = {.where = where, .mem = mem};
    json_t *all;
    pc_status status;
    memset(out, 0, sizeof *out);
    PC__TRY_RETURN(pc__json_parse(&all, text, size, 0, where));
    config.object = all;
    config.model = json_string_value(json_object_get(config.object, "model_type"));
    if (config.model)
        status = read_object(&config, out);
    else
        status = refuse_nameless(&config);
    if (status < 0)
        pc__arch_clear(mem, out);
    json_decref(all);
    return status;
}

pc_status pc__arch_from_config(pc__arch *out, const pc_allocator *mem, const char *path)
{
    char *text;
    size_t size;
    pc_status status = pc__file_read(mem, path, MAX_CONFIG, &text, &size);
    memset(out, 0, sizeof *out);
    if (status >= 0)
        status = pc__arch_from_json(out, mem, text, size, path);
    pc__free(mem, text);
    return status;
}
