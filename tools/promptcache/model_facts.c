/* Gathers the facts of a model and prints them as JSON. */
#include "model_facts.h"

#include <string.h>

/* Plain English, for tokens a kilobyte. */
static const char sample[] =
    "The harbour office opens at seven. Boats that arrive earlier wait outside the wall until a "
    "pilot comes on board. Each captain shows the papers of the ship, a list of the crew and what "
    "the ship carries, and pays the fee for the days that it will stay. Goods are weighed on the "
    "quay; whoever sells them needs the stamp of the scales. In winter, when the river freezes, "
    "two tugs keep a channel open, and only ships with a strong hull may use it. At night the "
    "lamps on the outer wall burn from dusk to dawn, red on the left and green on the right. If a "
    "storm is near, the keeper hoists a black ball at the mast, and nobody leaves before it comes "
    "down again. The office sends its books to the town every month: how many ships came, what "
    "they carried, how long they stayed and what they paid. These numbers decide which quay is "
    "repaired first, how many pilots are hired, and whether the fee changes in the next year.";

const char *kv_format_name(size_t format)
{
    static const char *const names[KV_FORMATS] = {"f32", "bf16", "f16", "int8"};
    return names[format];
}

uint64_t kv_token_bytes(const model_facts *facts, size_t format)
{
    return facts->file_info.kv_bytes[PC_DTYPE_F32 + format];
}

const char *position_name(uint32_t scheme)
{
    static const char *const names[] = {"none", "rope", "alibi", "learned"};
    return names[scheme < 4 ? scheme : 0];
}

const char *file_kind_name(uint32_t kind)
{
    static const char *const names[] = {"?", "gguf", "folder", "llama2c"};
    return names[kind < 4 ? kind : 0];
}

const char *compute_name(const model_facts *facts)
{
    return facts->model.compute == PC_DTYPE_BF16  ? "bf16"
           : facts->model.compute == PC_DTYPE_F16 ? "f16"
                                                  : "f32";
}

const char *becomes_name(const model_facts *facts, const pc_model_file_type *type)
{
    return type->kept ? "as stored" : compute_name(facts);
}

int64_t longest_context(const model_facts *facts, size_t format)
{
    uint64_t bytes = kv_token_bytes(facts, format), weights = facts->model.weight_bytes;
    int64_t most = facts->model.context_length;
    if (!facts->free_memory || !bytes)
        return -1;
    if (facts->free_memory < weights)
        return 0;
    int64_t fits = (int64_t)((facts->free_memory - weights) / bytes);
    return most && most < fits ? most : fits;
}

static double tokens_of_a_kilobyte(const pc_model *model)
{
    size_t count = 0;
    if (pc_tokenize(model, sample, sizeof sample - 1, 0, NULL, 0, &count) < 0)
        return 0;
    return (double)count * 1024 / (double)(sizeof sample - 1);
}

int open_facts(model_facts *facts, pc_context *context, const char *path,
               const pc_model_options *options)
{
    *facts = (model_facts){.path = path,
                           .file_info = PC_MODEL_FILE_INFO_INIT,
                           .model = PC_MODEL_INFO_INIT,
                           .costs = PC_COSTS_INIT};
    if (pc_model_file_open(&facts->file, context, path, options) < 0)
        return model_error(path,
                           "give a GGUF file, a Hugging Face folder or a llama2.c checkpoint");
    const pc_model *model = pc_model_file_model(facts->file);
    if (pc_model_file_get_info(facts->file, &facts->file_info) < 0
        || pc_model_get_info(model, &facts->model) < 0 || pc_costs_get(context, &facts->costs) < 0)
        return input_error("info", NULL);
    facts->kv = (options->kv ? options->kv : facts->model.compute) - PC_DTYPE_F32;
    if (facts->kv >= KV_FORMATS) /* a refused model has no format to compute in */
        facts->kv = 0;
    if (!strcmp(facts->file_info.backend, "cpu"))
        facts->free_memory = machine_free_memory();
    facts->text_tokens = tokens_of_a_kilobyte(model);
    return -1;
}

void close_facts(model_facts *facts)
{
    pc_model_file_free(facts->file);
}

/* ---------------------------------------------------------------------- JSON */

static json_t *text_or_null(const char *text)
{
    return *text ? json_text(text, strlen(text)) : json_null();
}

static json_t *size_or_null(int64_t value)
{
    return value > 0 ? json_integer(value) : json_null();
}

/* "tokens" and "layers" of a window or of chunks. */
static json_t *span_json(int32_t tokens, int32_t layers)
{
    return tokens ? json_pack("{s:i,s:i}", "tokens", (int)tokens, "layers", (int)layers)
                  : json_null();
}

static json_t *rope_json(const pc_model_file_info *info)
{
    if (!*info->rope_scaling)
        return json_null();
    return json_pack("{s:f,s:o,s:i,s:s,s:o,s:o,s:i}", "theta", info->rope_theta, "window_theta",
                     info->window_theta > 0 ? json_number(info->window_theta) : json_null(), "dims",
                     (int)info->rope_dims, "scaling", info->rope_scaling, "factor",
                     info->rope_factor > 0 ? json_number(info->rope_factor) : json_null(),
                     "original_length",
                     info->rope_length > 0 ? json_number(info->rope_length) : json_null(),
                     "layers_without", (int)info->plain_layers);
}

static void add_shape(json_t *to, const model_facts *facts)
{
    const pc_model_info *m = &facts->model;
    const pc_model_file_info *f = &facts->file_info;
    json_object_set_new(to, "parameters", json_integer((json_int_t)f->parameters));
    json_object_set_new(to, "layers", size_or_null(m->layers));
    json_object_set_new(to, "hidden", size_or_null(m->hidden));
    json_object_set_new(to, "heads", size_or_null(m->heads));
    json_object_set_new(to, "kv_heads", size_or_null(m->kv_heads));
    json_object_set_new(to, "head_dim", size_or_null(m->head_dim));
    json_object_set_new(to, "value_dim", size_or_null(f->value_dim));
    json_object_set_new(to, "vocab", size_or_null(m->vocab));
    json_object_set_new(to, "context_length", size_or_null(m->context_length));
    json_object_set_new(to, "positions", json_string(position_name(m->position_scheme)));
    json_object_set_new(to, "rope", rope_json(f));
    json_object_set_new(to, "window", span_json(f->window, f->window_layers));
    json_object_set_new(to, "chunk", span_json(f->chunk, f->chunk_layers));
    json_object_set_new(to, "latent",
                        f->latent ? json_pack("{s:i,s:i}", "width", (int)f->latent, "rotated",
                                              (int)f->latent_rotated)
                                  : json_null());
    json_object_set_new(to, "query_norms", json_boolean(f->query_norms));
    json_object_set_new(to, "sinks", json_boolean(f->sinks));
    json_object_set_new(to, "experts",
                        m->experts
                            ? json_pack("{s:i,s:i,s:i}", "count", (int)m->experts, "used",
                                        (int)m->experts_used, "layers", (int)f->expert_layers)
                            : json_null());
    json_object_set_new(to, "encoder", json_boolean(m->bidirectional));
}

static void add_text(json_t *to, const model_facts *facts)
{
    const pc_model_file_info *f = &facts->file_info;
    json_object_set_new(
        to, "tokenizer",
        *f->tokenizer ? json_pack("{s:s,s:i}", "kind", f->tokenizer, "tokens", (int)f->vocabulary)
                      : json_null());
    json_object_set_new(to, "chat",
                        json_pack("{s:o,s:b,s:o}", "template", text_or_null(f->chat), "system",
                                  (int)f->system_role, "note", text_or_null(f->chat_reason)));
}

static json_t *formats_json(const model_facts *facts)
{
    json_t *list = json_array();
    pc_model_file_type type = PC_MODEL_FILE_TYPE_INIT;
    for (size_t i = 0; pc_model_file_get_type(facts->file, i, &type) == PC_OK; i++)
        json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:I,s:s}", "format", type.name,
                                              "tensors", (json_int_t)type.tensors, "parameters",
                                              (json_int_t)type.parameters, "bytes",
                                              (json_int_t)type.bytes, "becomes",
                                              becomes_name(facts, &type)));
    return list;
}

/* {"f32": bytes, …} of so many tokens; null if the bytes of a token are not known. */
static json_t *kv_json(const model_facts *facts, double tokens)
{
    json_t *object;
    if (!kv_token_bytes(facts, 0) || tokens <= 0)
        return json_null();
    object = json_object();
    for (size_t i = 0; i < KV_FORMATS; i++)
        json_object_set_new(object, kv_format_name(i),
                            json_integer((json_int_t)((double)kv_token_bytes(facts, i) * tokens)));
    return object;
}

static json_t *longest_json(const model_facts *facts)
{
    json_t *object;
    if (longest_context(facts, 0) < 0)
        return json_null();
    object = json_object();
    for (size_t i = 0; i < KV_FORMATS; i++)
        json_object_set_new(object, kv_format_name(i), json_integer(longest_context(facts, i)));
    return object;
}

static void add_memory(json_t *to, const model_facts *facts)
{
    const pc_model_file_info *f = &facts->file_info;
    int known = f->refusal == PC_OK;
    json_object_set_new(to, "compute", known ? json_string(compute_name(facts)) : json_null());
    json_object_set_new(to, "kv", known ? json_string(kv_format_name(facts->kv)) : json_null());
    json_object_set_new(to, "backend", json_string(f->backend));
    json_object_set_new(to, "kernels", json_string(facts->costs.kernels));
    json_object_set_new(to, "cpu", text_or_null(facts->costs.cpu));
    json_object_set_new(to, "weight_bytes", size_or_null((int64_t)facts->model.weight_bytes));
    json_object_set_new(to, "weight_bytes_as_stored",
                        known ? json_integer((json_int_t)f->quantised_bytes) : json_null());
    json_object_set_new(to, "kv_bytes_token", kv_json(facts, 1));
    json_object_set_new(to, "kv_bytes_1000_tokens", kv_json(facts, 1000));
    json_object_set_new(to, "tokens_kilobyte",
                        facts->text_tokens > 0 ? json_number(facts->text_tokens) : json_null());
    json_object_set_new(to, "kv_bytes_kilobyte", kv_json(facts, facts->text_tokens));
    json_object_set_new(to, "free_memory", size_or_null((int64_t)facts->free_memory));
    json_object_set_new(to, "longest_context", longest_json(facts));
}

json_t *facts_json(const model_facts *facts)
{
    const pc_model_file_info *f = &facts->file_info;
    json_t *object = json_pack(
        "{s:o,s:b,s:o,s:s,s:o,s:o}", "model", json_text(facts->path, strlen(facts->path)), "loads",
        f->refusal == PC_OK, "reason", text_or_null(f->reason), "kind", file_kind_name(f->kind),
        "architecture", text_or_null(facts->model.architecture), "family", text_or_null(f->family));
    add_shape(object, facts);
    add_text(object, facts);
    json_object_set_new(object, "modules_move", json_boolean(facts->model.relocatable));
    json_object_set_new(object, "modules_fixed_because", text_or_null(f->fixed));
    json_object_set_new(object, "file_bytes", json_integer((json_int_t)f->file_bytes));
    json_object_set_new(object, "tensors", json_integer((json_int_t)f->tensors));
    json_object_set_new(object, "formats", formats_json(facts));
    add_memory(object, facts);
    return object;
}
