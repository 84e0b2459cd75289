/* Checkpoints of llama2.c: fp32 matrices of a Llama, little-endian, one role of all layers after
 * the other, rotated in interleaved pairs.
 *
 * Version 0: seven int32 (dim, hidden_dim, layers, heads, kv_heads, vocabulary, length; a negative
 * vocabulary: the head has its own matrix), then embedding, attention norms, q, k, v, o, MLP
 * norms, w1, w2, w3, final norm, two tables of length * head_dim / 2 (cos and sin, not
 * used), head.
 *
 * Version 1: "24ka", int32 1, the seven numbers, a byte (1: the head is the embedding),
 * zeros up to byte 256; then attention norms, MLP norms, final norm, embedding, q, k, v, o, w1, w2,
 * w3, head. */
#include <stdio.h>
#include <string.h>

#include "model/load/arch.h"
#include "model/load/llama2c.h"
#include "model/load/weights_internal.h"

enum { HEADER_1 = 256, MAGIC_1 = 0x616b3432 };

typedef struct checkpoint_reader {
    pc__weights *weights;
    const char *path;
    const uint8_t *data;
    size_t size, at;
    const pc__arch *arch;
} checkpoint_reader;

static int32_t int_at(const uint8_t *data, size_t index)
{
    int32_t value;
    memcpy(&value, data + index * sizeof value, sizeof value);
    return value;
}

/* Adds a matrix; rows 0: a vector. */
static pc_status add_tensor(checkpoint_reader *c, const char *name, int32_t rows, int32_t cols)
{
    pc__tensor tensor = {.type = PC__T_F32,
                         .rank = rows ? 2 : 1,
                         .shape = {(uint64_t)(rows ? rows : cols), (uint64_t)(rows ? cols : 0)},
                         .data = c->data + c->at};
    if (!pc__tensor_size(&tensor, &tensor.bytes) || tensor.bytes > c->size - c->at)
        return pc__fail(PC_ERR_FORMAT, "%s: byte %zu: the file ends within tensor '%s'", c->path,
                        c->at, name);
    c->at += (size_t)tensor.bytes;
    return pc__weights_add(c->weights, &tensor, name, strlen(name));
}

static pc_status skip_tables(checkpoint_reader *c)
{
    uint64_t bytes = (uint64_t)c->arch->context_length * (uint64_t)c->arch->head_dim
                     * sizeof(float);
    if (bytes > c->size - c->at)
        return pc__fail(PC_ERR_FORMAT,
                        "%s: byte %zu: the file ends within the tables of cos and sin", c->path,
                        c->at);
    c->at += (size_t)bytes;
    return PC_OK;
}

enum { NORM1, Q, K, V, O, NORM2, W1, W2, W3, EMBEDDING, FINAL_NORM, HEAD, TABLES, PARTS };
/* The order of the parts in each version; 1 has no tables. */
static const uint8_t orders[2][PARTS] = {
    {EMBEDDING, NORM1, Q, K, V, O, NORM2, W1, W2, W3, FINAL_NORM, TABLES, HEAD},
    {NORM1, NORM2, FINAL_NORM, EMBEDDING, Q, K, V, O, W1, W2, W3, HEAD, TABLES}};

static pc_status read_parts(checkpoint_reader *c, int version)
{
    const pc__arch *arch = c->arch;
    int32_t width = arch->hidden, queries = arch->heads * arch->head_dim,
            keys = arch->kv_heads * arch->head_dim;
    const struct {
        const char *name;
        int32_t rows, cols;
    } parts[] = {[NORM1] = {"input_layernorm", 0, width},
                 [Q] = {"self_attn.q_proj", queries, width},
                 [K] = {"self_attn.k_proj", keys, width},
                 [V] = {"self_attn.v_proj", keys, width},
                 [O] = {"self_attn.o_proj", width, queries},
                 [NORM2] = {"post_attention_layernorm", 0, width},
                 [W1] = {"mlp.gate_proj", arch->ffn, width},
                 [W2] = {"mlp.down_proj", width, arch->ffn},
                 [W3] = {"mlp.up_proj", arch->ffn, width},
                 [EMBEDDING] = {"model.embed_tokens.weight", arch->vocab, width},
                 [FINAL_NORM] = {"model.norm.weight", 0, width},
                 [HEAD] = {"lm_head.weight", arch->vocab, width}};
    for (int i = 0; i < PARTS - version; i++) {
        int part = orders[version][i];
        if (part == TABLES)
            PC__TRY_RETURN(skip_tables(c));
        else if (part >= EMBEDDING && !(part == HEAD && arch->tied))
            PC__TRY_RETURN(add_tensor(c, parts[part].name, parts[part].rows, parts[part].cols));
        for (int32_t layer = 0; part < EMBEDDING && layer < arch->layers; layer++) {
            char full[96];
            snprintf(full, sizeof full, "model.layers.%d.%s.weight", layer, parts[part].name);
            PC__TRY_RETURN(add_tensor(c, full, parts[part].rows, parts[part].cols));
        }
    }
    return PC_OK;
}

/* Any file that begins otherwise may have got here. */
static pc_status refuse_sizes(const char *path, const uint8_t *numbers)
{
    return pc__fail(
        PC_ERR_FORMAT,
        "%s: neither a GGUF file nor a checkpoint of llama2.c (width %d, %d layers, %d heads, "
        "vocabulary %d, length %d)",
        path, int_at(numbers, 0), int_at(numbers, 2), int_at(numbers, 3), int_at(numbers, 5),
        int_at(numbers, 6));
}

/* Reads the seven numbers of the header. */
static pc_status read_llama2c_sizes(const uint8_t *numbers, int tied, const char *path,
                                    pc__arch *arch)
{
    *arch = (pc__arch){.name = "llama",
                       .gated = 1,
                       .final_norm = 1,
                       .causal = 1,
                       .norm = PC__NORM_RMS,
                       .norm_eps = 1e-5f,
                       .activation = PC__ACT_SILU,
                       .position_scheme = PC_POSITION_ROPE,
                       .token_bos = 1,
                       .token_eos = 2,
                       .token_unk = 0,
                       .token_pad = -1};
    const struct {
        pc__count kind;
        int32_t *to;
    } sizes[7] = {{PC__COUNT_WIDTH, &arch->hidden},
                  {PC__COUNT_WIDTH, &arch->ffn},
                  {PC__COUNT_LAYERS, &arch->layers},
                  {PC__COUNT_HEADS, &arch->heads},
                  {PC__COUNT_HEADS, &arch->kv_heads},
                  {PC__COUNT_VOCABULARY, &arch->vocab},
                  {PC__COUNT_POSITIONS, &arch->context_length}};
    for (size_t i = 0; i < 7; i++) {
        int64_t value = int_at(numbers, i);
        if (sizes[i].to == &arch->vocab && value < 0) /* its sign says something else */
            value = -value;
        if (!pc__count_has(sizes[i].kind, value))
            return refuse_sizes(path, numbers);
        *sizes[i].to = (int32_t)value;
    }
    if (arch->hidden % arch->heads)
        return refuse_sizes(path, numbers);
    arch->embedding_dim = arch->hidden;
    arch->tied = tied;
    arch->head_dim = arch->v_dim = arch->hidden / arch->heads;
    arch->rope = (pc__rope_config){.theta = 10000.0,
                                   .dims = arch->head_dim,
                                   .interleaved = 1,
                                   .max_length = arch->context_length};
    return pc__arch_check(arch, path);
}

static pc_status read_file(checkpoint_reader *c, pc__arch *arch)
{
    if (c->size < 7 * sizeof(int32_t))
        return pc__fail(PC_ERR_FORMAT,
                        "%s: neither a GGUF file nor a checkpoint of llama2.c (%zu bytes)", c->path,
                        c->size);
    int version_1 = int_at(c->data, 0) == MAGIC_1;
    if (version_1 && int_at(c->data, 1) != 1)
        return pc__fail(
            PC_ERR_UNSUPPORTED,
            "%s: byte 4: version %d of llama2.c's checkpoints is not supported (0 and 1 are)",
            c->path, int_at(c->data, 1));
    if (version_1 && c->size < HEADER_1)
        return pc__fail(PC_ERR_FORMAT, "%s: byte %zu: the file ends within its header", c->path,
                        c->size);
    PC__TRY_RETURN(version_1 ? read_llama2c_sizes(c->data + 8, c->data[36] != 0, c->path, arch)
                             : read_llama2c_sizes(c->data, int_at(c->data, 5) > 0, c->path, arch));
    c->at = version_1 ? HEADER_1 : 7 * sizeof(int32_t);
    PC__TRY_RETURN(read_parts(c, version_1));
    if (c->at != c->size)
        return pc__fail(PC_ERR_FORMAT, "%s: byte %zu: %zu bytes too many", c->path, c->at,
                        c->size - c->at);
    return PC_OK;
}

pc_status pc__llama2c_open(pc__weights **out, pc__arch *arch, const pc_allocator *mem,
                           const char *path)
{
    checkpoint_reader c = {.path = path, .arch = arch};
    pc__file file;
    pc_status status;
    *out = NULL;
    memset(arch, 0, sizeof *arch);
    PC__TRY(pc__weights_new(&c.weights, mem, path), done);
    PC__TRY(pc__weights_map(c.weights, path, &file), done);
    c.data = file.data;
    c.size = file.size;
    PC__TRY(read_file(&c, arch), done);
    PC__TRY(pc__weights_seal(c.weights), done);
    *out = c.weights;
    c.weights = NULL;
done:
    pc__weights_free(c.weights);
    if (status < 0)
        pc__arch_clear(mem, arch);
    return status;
}
