/* Catches: a llama2.c file, of either version, that does not compute what the folder with the same
 * weights must; and faults in the readers and the graph that random weights may hide. These need
 * small trained models of the test data: llama2.c files, a Hugging Face folder with its tokenizer,
 * and a GPT-2 whose inner stages others have published. */
#include <jansson.h>

#include "golden_lanes.h"
#include "model/load/safetensors.h"

enum { MAX_IDS = 512 };

/* Writes the rows of a matrix; heads: those of Q or K, whose rows i and i + dim / 2 of each head
 * become neighbours. 0: as they are. */
static void put_rows(FILE *file, const pc__weights *from, const char *name, size_t heads)
{
    size_t count;
    float *values = golden_floats(from, name, &count);
    const pc__tensor *tensor = pc__weights_find(from, name);
    if (!CHECK(values != NULL))
        return;
    size_t rows = tensor->rank > 1 ? (size_t)tensor->shape[0] : 1, width = count / rows;
    for (size_t r = 0; r < rows; r++) {
        size_t dim = heads ? rows / heads : 1, in = r % dim,
               source = heads ? r - in + in / 2 + in % 2 * (dim / 2) : r;
        fwrite(values + source * width, sizeof *values, width, file);
    }
    free(values);
}

/* One part of all layers, or one that there is once. */
static void put_part(FILE *file, const pc__weights *from, const char *part, const pc__arch *arch)
{
    char name[96];
    size_t heads = strstr(part, "q_proj")   ? (size_t)arch->heads
                   : strstr(part, "k_proj") ? (size_t)arch->kv_heads
                                            : 0;
    if (pc__weights_find(from, part))
        put_rows(file, from, part, 0);
    for (int32_t l = 0; !pc__weights_find(from, part) && l < arch->layers; l++) {
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", (int)l, part);
        put_rows(file, from, name, heads);
    }
}

static void write_llama2c(const char *path, const pc__weights *from, const pc__arch *arch,
                          int version)
{
    static const char embedding[] = "model.embed_tokens.weight", final[] = "model.norm.weight",
                      head[] = "lm_head.weight", before[] = "input_layernorm",
                      between[] = "post_attention_layernorm", q[] = "self_attn.q_proj",
                      k[] = "self_attn.k_proj", v[] = "self_attn.v_proj", o[] = "self_attn.o_proj",
                      gate[] = "mlp.gate_proj", down[] = "mlp.down_proj", up[] = "mlp.up_proj";
    static const char *const orders[2][12] = {
        {embedding, before, q, k, v, o, between, gate, down, up, final, head},
        {before, between, final, embedding, q, k, v, o, gate, down, up, head}};
    int32_t numbers[] = {arch->hidden, arch->ffn,      arch->layers,
                         arch->heads,  arch->kv_heads, version ? arch->vocab : -arch->vocab,
                         128};
    FILE *file = fopen(path, "wb");
    if (!CHECK(file != NULL))
        return;
    if (version)
        fwrite("24ka\1\0\0", 1, 8, file);
    fwrite(numbers, sizeof numbers, 1, file);
    while (version && ftell(file) < 256) /* the head has its own matrix */
        fputc(0, file);
    for (size_t i = 0; i < 12; i++) {
        for (int32_t t = 0; !version && i == 11 && t < 128 * arch->head_dim; t++)
            fwrite(&(float){0}, sizeof(float), 1, file); /* tables that nobody reads */
        put_part(file, from, orders[version][i], arch);
    }
    CHECK(!fclose(file));
}

/* The folder llama_gqa as a file of llama2.c. */
static void converted(pc_context *context, int version)
{
    pc__weights *golden = NULL, *weights = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model *folder = NULL, *model = NULL;
    char path[4096];
    size_t count, n;
    options.compute = PC_DTYPE_F32;
    const char *at = pc_test_data("golden/llama_gqa");
    CHECK_OK(pc_model_load(&folder, context, at, &options));
    snprintf(path, sizeof path, "%s/model.safetensors", at);
    CHECK_OK(pc__safetensors_open(&weights, &context->mem, path));
    snprintf(path, sizeof path, "%s/golden.safetensors", at);
    CHECK_OK(pc__safetensors_open(&golden, &context->mem, path));
    snprintf(path, sizeof path, "%s/llama2c-%d.bin", pc_test_folder(), version);
    write_llama2c(path, weights, &folder->native->arch, version);
    float *ids = golden_floats(golden, "plain/ids", &count);
    float *want = golden_floats(golden, "plain/logits", &n), *got = malloc(n * sizeof *got);
    int32_t tokens[MAX_IDS];
    int64_t positions[MAX_IDS];
    for (size_t i = 0; i < count && i < MAX_IDS; i++) {
        tokens[i] = (int32_t)ids[i];
        positions[i] = (int64_t)i;
    }
    lane l = {.tokens = tokens, .positions = positions, .count = count};
    if (CHECK_OK(pc_model_load(&model, context, path, &options))
        && CHECK_OK(run_lanes(model, &l, 1, PC_VISIBLE_BY_POSITION, 0, got, NULL)))
        near_all("logits of a llama2.c file", got, want, n, 2e-4, 1, NULL);
    end_lanes(&l, 1);
    free(ids);
    free(want);
    free(got);
    pc_model_free(model);
    pc_model_free(folder);
    pc__weights_free(weights);
    pc__weights_free(golden);
}

static json_t *load_json(const char *path)
{
    const char *at = pc_test_data(path);
    json_t *json = at ? json_load_file(at, 0, NULL) : NULL;
    CHECK(json != NULL);
    return json;
}

static size_t ids_of(const json_t *json, const char *key, int32_t *ids)
{
    json_t *list = json_object_get(json, key);
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n && i < MAX_IDS; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return n < MAX_IDS ? n : MAX_IDS;
}

static float *numbers_of(const json_t *json, const char *key, size_t *count)
{
    json_t *list = json_object_get(json, key);
    float *out;
    *count = json_array_size(list);
    out = malloc((*count + 1) * sizeof *out);
    for (size_t i = 0; i < *count; i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
    return out;
}

static void near_numbers(const json_t *json, const char *key, const float *got, double limit)
{
    size_t n;
    float *want = numbers_of(json, key, &n);
    if (CHECK(n > 0))
        near_all(key, got, want, n, limit, 0, NULL);
    free(want);
}

static void tokenizer(const pc_model *model, const json_t *reference, const int32_t *ids,
                      size_t count)
{
    const char *prompt = json_string_value(json_object_get(reference, "prompt"));
    const char *text = json_string_value(json_object_get(reference, "greedy_text"));
    int32_t got[64], greedy[MAX_IDS];
    char written[8192];
    size_t n, size;
    CHECK_OK(pc_tokenize(model, prompt, strlen(prompt), PC_TOKENIZE_BOS, got, 64, &n));
    CHECK_INT(n, count);
    CHECK(!memcmp(got, ids, count * sizeof *ids));
    n = ids_of(reference, "greedy_ids", greedy);
    if (CHECK_OK(pc_detokenize(model, greedy, n, 0, written, sizeof written, &size))) {
        size_t same = strcspn(
            text, "<"); /* the reference writes newlines and special tokens out, <0x0A> */
        CHECK(same > 100 && size >= same && !strncmp(written, text, same));
    }
}

static void story(pc_context *context, const char *path, const char *reference_path)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model *model = NULL;
    json_t *reference = load_json(reference_path);
    int32_t ids[MAX_IDS], greedy[MAX_IDS];
    int64_t positions[MAX_IDS];
    size_t count = ids_of(reference, "prompt_ids", ids),
           greedy_count = ids_of(reference, "greedy_ids", greedy), vocab, equal;
    traced t = {0};
    options.compute = PC_DTYPE_F32;
    for (size_t i = 0; i < MAX_IDS; i++)
        positions[i] = (int64_t)i;
    if (!CHECK_OK(pc_model_load(&model, context, pc_test_data(path), &options)))
        return;
    vocab = (size_t)model->info.vocab;
    tokenizer(model, reference, ids, count);
    float *logits = malloc(count * vocab * sizeof *logits);
    lane l = {.tokens = ids, .positions = positions, .count = count};
    CHECK_OK(run_lanes(model, &l, 1, PC_VISIBLE_BY_POSITION, 0, logits, &t));
    near_numbers(reference, "logits_after_prompt", logits + (count - 1) * vocab, 1e-3);
    size_t dim = (size_t)model->info.head_dim, heads = (size_t)model->info.kv_heads,
           last = (size_t)model->info.layers - 1;
    float *row = calloc(heads * dim, sizeof *row);
    for (size_t h = 0; h < heads; h++)
        memcpy(row + h * dim, t.k[0][0] + h * count * dim, dim * sizeof *row);
    near_numbers(reference, "kv_layer0_pos0_k", row, 1e-4);
    for (size_t h = 0; h < heads; h++)
        memcpy(row + h * dim, t.k[0][last] + (h * count + count - 1) * dim, dim * sizeof *row);
    near_numbers(reference, "kv_last_layer_last_pos_k", row, 1e-4);
    for (size_t h = 0; h < heads; h++)
        memcpy(row + h * dim, t.v[0][last] + (h * count + count - 1) * dim, dim * sizeof *row);
    near_numbers(reference, "kv_last_layer_last_pos_v", row, 1e-4);
    int32_t token = largest(logits + (count - 1) * vocab, vocab);
    for (equal = count; equal < greedy_count && token == greedy[equal]; equal++) {
        l.tokens = &token;
        l.positions = &positions[equal];
        l.count = 1;
        if (!CHECK_OK(run_lanes(model, &l, 1, PC_VISIBLE_BY_POSITION, 0, logits, NULL)))
            break;
        token = largest(logits, vocab);
    }
    CHECK_INT(equal, greedy_count);
    forget(&t);
    free(row);
    free(logits);
    end_lanes(&l, 1);
    pc_model_free(model);
    json_decref(reference);
}

static size_t decode64(const char *text, uint8_t *out)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, have = 0;
    size_t n = 0;
    for (; *text && *text != '='; text++) {
        const char *at = strchr(alphabet, *text);
        if (!at)
            continue;
        bits = bits << 6 | (uint32_t)(at - alphabet);
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[n++] = (uint8_t)(bits >> have);
        }
    }
    return n;
}

static float *stage(const json_t *all, const char *name, size_t *count)
{
    const char *text = json_string_value(json_object_get(json_object_get(all, name), "data"));
    float *out = malloc(text ? strlen(text) + 16 : 16);
    *count = text ? decode64(text, (uint8_t *)out) / sizeof *out : 0;
    CHECK(*count > 0);
    return out;
}

/* Hugging Face's GPT-2 stores its Conv1D matrices as [in][out]; the published ones are [out][in].
 */
static int is_conv(const char *name)
{
    return strstr(name, "c_attn.weight") || strstr(name, "c_proj.weight")
           || strstr(name, "c_fc.weight");
}

static void transpose(float *data, size_t rows, size_t cols)
{
    float *copy = malloc(rows * cols * sizeof *copy);
    memcpy(copy, data, rows * cols * sizeof *copy);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            data[c * rows + r] = copy[r * cols + c];
    free(copy);
}

static void write_gpt2(const json_t *source, const char *to)
{
    json_t *header = json_object(), *item;
    uint8_t *body = malloc(1 << 20);
    size_t used = 0;
    const char *name;
    char path[4096];
    json_object_foreach((json_t *)(uintptr_t)source, name, item)
    {
        json_t *shape = json_object_get(item, "shape");
        size_t n, at = used;
        if (!shape || strstr(name, ".attn.bias") != NULL)
            continue;
        float *data = stage(source, name, &n);
        size_t rows = (size_t)json_integer_value(json_array_get(shape, 0));
        size_t cols = (size_t)json_integer_value(json_array_get(shape, 1));
        json_t *dims = json_deep_copy(shape);
        if (is_conv(name)) {
            transpose(data, rows, cols);
            json_array_set_new(dims, 0, json_integer((json_int_t)cols));
            json_array_set_new(dims, 1, json_integer((json_int_t)rows));
        }
        memcpy(body + used, data, n * sizeof *data);
        used += n * sizeof *data;
        free(data);
        json_object_set_new(header, name,
                            json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape", dims,
                                      "data_offsets", (json_int_t)at, (json_int_t)used));
    }
    char *text = json_dumps(header, JSON_COMPACT);
    uint64_t size = strlen(text);
    uint8_t *file = malloc(8 + size + used);
    memcpy(file, &size, 8);
    memcpy(file + 8, text, size);
    memcpy(file + 8 + size, body, used);
    snprintf(path, sizeof path, "%s/model.safetensors", to);
    pc_test_write(path, file, 8 + size + used);
    snprintf(path, sizeof path, "%s/config.json", to);
    static const char config[] =
        "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"n_layer\": 3, "
        "\"n_head\": 3, \"n_embd\": 48,"
        " \"vocab_size\": 3, \"n_positions\": 11, \"activation_function\": \"gelu_new\", "
        "\"layer_norm_epsilon\": 1e-05,"
        " \"tie_word_embeddings\": false}";
    pc_test_write(path, config, sizeof config - 1);
    free(text);
    free(body);
    free(file);
    json_decref(header);
}

/* The stage `name` [batch]... against one traced block per lane. */
static void near_stage(const json_t *partials, const char *name, float *const *got, size_t lanes,
                       double limit)
{
    size_t n;
    float *want = stage(partials, name, &n);
    for (size_t b = 0; b < lanes; b++)
        if (CHECK(got[b] != NULL))
            near_all(name, got[b], want + b * (n / lanes), n / lanes, limit, 0, NULL);
    free(want);
}

static void gpt_nano(pc_context *context)
{
    enum { LANES = 3, ROWS = 11 };
    json_t *weights = load_json("data/gpt-nano-sort/gpt-nano-sort-model.json");
    json_t *partials = load_json("data/gpt-nano-sort/gpt-nano-sort-t0-partials.json");
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model *model = NULL;
    lane lanes[LANES] = {{.count = 0}};
    int32_t ids[LANES * ROWS];
    int64_t positions[ROWS];
    float logits[LANES * ROWS * 3], *rows[LANES];
    traced t = {0};
    size_t n;
    float *idx = stage(partials, "idx", &n);
    options.compute = PC_DTYPE_F32;
    write_gpt2(weights, pc_test_folder());
    for (size_t i = 0; i < LANES * ROWS; i++)
        ids[i] = (int32_t)idx[i];
    for (size_t i = 0; i < ROWS; i++)
        positions[i] = (int64_t)i;
    for (size_t b = 0; b < LANES; b++) {
        lanes[b].tokens = ids + b * ROWS;
        lanes[b].positions = positions;
        lanes[b].count = ROWS;
        rows[b] = logits + b * ROWS * 3;
    }
    if (CHECK_OK(pc_model_load(&model, context, pc_test_folder(), &options))
        && CHECK_OK(run_lanes(model, lanes, LANES, PC_VISIBLE_BY_POSITION, 0, logits, &t))) {
        float *all[6][LANES];
        for (size_t b = 0; b < LANES; b++) {
            all[0][b] = t.k[b][0];
            all[1][b] = t.v[b][0];
            all[2][b] = t.probs[b][0];
            all[3][b] = t.hidden[b][0];
            all[4][b] = t.hidden[b][1];
            all[5][b] = t.hidden[b][3];
        }
        near_stage(partials, "k", all[0], LANES, 1e-4);
        near_stage(partials, "v", all[1], LANES, 1e-4);
        near_stage(partials, "attSm", all[2], LANES, 1e-4);
        near_stage(partials, "x", all[3], LANES, 1e-4);
        near_stage(partials, "block0", all[4], LANES, 1e-4);
        near_stage(partials, "block2", all[5], LANES, 1e-4);
        near_stage(partials, "ln_f", t.final, LANES, 1e-4);
        near_stage(partials, "lm_head", rows, LANES, 1e-3);
    }
    forget(&t);
    end_lanes(lanes, LANES);
    free(idx);
    pc_model_free(model);
    json_decref(weights);
    json_decref(partials);
}

int main(void)
{
    pc_context *context;
    if (!CHECK_OK(pc_context_new(&context, NULL)))
        return pc_test_end();
    for (int version = 0; version < 2; version++)
        converted(context, version);
    if (!pc_test_data("data/stories260k")) {
        printf("without trained models: data/stories260k is not there\n");
        pc_context_free(context);
        return pc_test_end();
    }
    story(context, "data/stories260k/checkpoint_legacy.bin", "data/stories260k/reference.json");
    story(context, "data/stories260k/checkpoint_v1.bin", "data/stories260k/reference.json");
    story(context, "data/tinystories656k", "data/tinystories656k/reference.json");
    gpt_nano(context);
    pc_context_free(context);
    return pc_test_end();
}
