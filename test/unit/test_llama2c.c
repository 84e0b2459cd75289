/* Catches: matrices of a llama2.c checkpoint read from the wrong place (both versions, head tied or
 * not), unchecked headers, a file too short or too long, leaks when memory runs out. */
#include "base/mem.h"
#include "model/load/llama2c.h"
#include "model/load/tensor_names.h"
#include "testing.h"

#include <stdlib.h>
#include <string.h>

/* 2 layers, width 8, 4 heads (2 of K/V) of 2, MLP 6, vocabulary 5, length 3. Float i of the data is
 * i. */
enum { DIM = 8, FFN = 6, LAYERS = 2, HEADS = 4, KV = 2, VOCAB = 5, LENGTH = 3 };
static const int32_t sizes[7] = {DIM, FFN, LAYERS, HEADS, KV, VOCAB, LENGTH};
enum {
    MATRICES = VOCAB * DIM + LAYERS * (2 * DIM + 2 * DIM * DIM + 2 * DIM * 4 + 3 * DIM * FFN) + DIM
};

typedef struct checkpoint {
    uint8_t data[8192];
    size_t size;
} checkpoint;

static void compose(checkpoint *c, int version, int tied)
{
    size_t floats = (size_t)(MATRICES + (version ? 0 : LENGTH * 2) + (tied ? 0 : VOCAB * DIM));
    int32_t header[7];
    memset(c, 0, sizeof *c);
    memcpy(header, sizes, sizeof header);
    if (version) {
        memcpy(c->data, "24ka\1\0\0\0", 8);
        memcpy(c->data + 8, header, sizeof header);
        c->data[36] = (uint8_t)tied;
        c->size = 256;
    } else {
        header[5] = tied ? VOCAB : -VOCAB;
        memcpy(c->data, header, sizeof header);
        c->size = sizeof header;
    }
    for (size_t i = 0; i < floats; i++, c->size += 4) {
        float value = (float)i;
        memcpy(c->data + c->size, &value, 4);
    }
}

static pc_status open_it(const checkpoint *c, const pc_allocator *mem, pc__weights **weights,
                         pc__arch *arch)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/model.bin", pc_test_folder());
    remove(path);
    pc_test_write(path, c->data, c->size);
    return pc__llama2c_open(weights, arch, mem, path);
}

static float first_of(const pc__weights *w, const char *name)
{
    const pc__tensor *tensor = pc__weights_find(w, name);
    float value = -1;
    if (CHECK(tensor != NULL))
        pc__tensor_floats(tensor, 0, 1, &value);
    return value;
}

/* Offsets of the second layer's matrices, in floats. */
static void places(int version, int tied)
{
    enum { QO = DIM * DIM, KEYS = DIM * 4, MLP = DIM * FFN };
    static checkpoint c;
    pc__weights *w;
    pc__arch a;
    pc__tensor_names n;
    float norms = version ? 0 : VOCAB * DIM; /* attention norms */
    float embedding = version ? 2 * LAYERS * DIM + DIM : 0;
    float q = version ? embedding + VOCAB * DIM : norms + LAYERS * DIM;
    float mlp = q + LAYERS * (2 * QO + 2 * KEYS) + (version ? 0 : LAYERS * DIM);
    compose(&c, version, tied);
    if (!CHECK_OK(open_it(&c, &pc__libc_allocator, &w, &a)))
        return;
    CHECK(a.hidden == DIM && a.ffn == FFN && a.layers == LAYERS && a.heads == HEADS
          && a.kv_heads == KV && a.head_dim == 2);
    CHECK(a.vocab == VOCAB && a.context_length == LENGTH && a.tied == tied && a.rope.interleaved
          && a.rope.dims == 2);
    CHECK(a.norm_eps == 1e-5f && a.gated && a.rope.theta == 10000);
    CHECK(first_of(w, "model.embed_tokens.weight") == embedding);
    CHECK(first_of(w, "model.layers.1.input_layernorm.weight") == norms + (float)DIM);
    CHECK(first_of(w, "model.layers.1.self_attn.q_proj.weight") == q + (float)QO);
    CHECK(first_of(w, "model.layers.1.self_attn.k_proj.weight") == q + (float)(2 * QO + KEYS));
    CHECK(first_of(w, "model.layers.1.self_attn.v_proj.weight") == q + 2 * QO + 3 * KEYS);
    CHECK(first_of(w, "model.layers.1.self_attn.o_proj.weight") == q + 3 * QO + 4 * KEYS);
    CHECK(first_of(w, "model.layers.1.mlp.gate_proj.weight") == mlp + (float)MLP);
    CHECK(first_of(w, "model.layers.1.mlp.down_proj.weight") == mlp + 3 * MLP);
    CHECK(first_of(w, "model.layers.1.mlp.up_proj.weight") == mlp + 5 * MLP);
    CHECK(first_of(w, "model.norm.weight") == (version ? 2 * LAYERS * DIM : mlp + 6 * MLP));
    CHECK(first_of(w, "model.layers.0.post_attention_layernorm.weight")
          == (version ? LAYERS * DIM : mlp - LAYERS * DIM));
    if (!tied)
        CHECK(first_of(w, "lm_head.weight") == (version ? MATRICES : MATRICES + 2 * LENGTH));
    CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF)); /* every tensor has a role */
    pc__weights_free(w);
}

static pc_status try_it(const checkpoint *c)
{
    static const pc__arch zero;
    pc__weights *w;
    pc__arch a;
    pc_status status = open_it(c, &pc__libc_allocator, &w, &a);
    CHECK((status < 0) == (w == NULL));
    if (status < 0)
        CHECK(!memcmp(&a, &zero, sizeof zero));
    pc__weights_free(w);
    return status;
}

static void cut_off(int version)
{
    static checkpoint c;
    size_t whole;
    compose(&c, version, 0);
    whole = c.size;
    for (c.size = 0; c.size < whole; c.size += c.size < 300 ? 1 : 31)
        CHECK_STATUS(try_it(&c), PC_ERR_FORMAT);
    c.size = whole + 4;
    CHECK_STATUS(try_it(&c), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("4 bytes too many");
    CHECK_ERROR_HAS("model.bin");
}

static void headers(int version)
{
    static const int32_t bad[] = {0, -1, INT32_MAX, INT32_MIN, 1 << 30};
    static checkpoint c;
    for (size_t field = 0; field < 7; field++) {
        for (size_t b = 0; b < 5; b++) {
            compose(&c, version, 1);
            memcpy(c.data + (version ? 8 : 0) + field * 4, &bad[b], 4);
            if (version && field == 6 && bad[b] > 0)
                CHECK_OK(try_it(&c)); /* the length alone reads no bytes */
            else
                CHECK_STATUS(try_it(&c), PC_ERR_FORMAT);
        }
    }
}

static void without_memory(void)
{
    static checkpoint c;
    compose(&c, 1, 1);
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__weights *w;
        pc__arch a;
        pc_status status = open_it(&c, &mem, &w, &a);
        pc__weights_free(w);
        CHECK_INT(memory.live_blocks, 0);
        if (status == PC_OK)
            break;
        CHECK_STATUS(status, PC_ERR_NOMEM);
    }
}

/* The same trained model in both versions has the same matrices. */
static void trained(void)
{
    const char *old = pc_test_data("data/stories260k/checkpoint_legacy.bin");
    const char *newer = pc_test_data("data/stories260k/checkpoint_v1.bin");
    pc__weights *w[2] = {NULL, NULL};
    pc__arch a[2];
    if (!old || !newer)
        return;
    if (CHECK_OK(pc__llama2c_open(&w[0], &a[0], &pc__libc_allocator, old))
        && CHECK_OK(pc__llama2c_open(&w[1], &a[1], &pc__libc_allocator, newer))) {
        CHECK(!memcmp(&a[0], &a[1], sizeof *a) && a[0].hidden == 64 && a[0].layers == 5
              && a[0].vocab == 512);
        CHECK_INT(pc__weights_count(w[0]), pc__weights_count(w[1]));
        for (size_t i = 0; i < pc__weights_count(w[0]); i++) {
            const pc__tensor *x = pc__weights_at(w[0], i), *y = pc__weights_at(w[1], i);
            CHECK(!strcmp(x->name, y->name) && x->bytes == y->bytes
                  && !memcmp(x->data, y->data, x->bytes));
        }
    }
    pc__weights_free(w[0]);
    pc__weights_free(w[1]);
}

int main(void)
{
    static checkpoint c;
    for (int version = 0; version < 2; version++) {
        places(version, 1);
        places(version, 0);
        cut_off(version);
        headers(version);
    }
    compose(&c, 1, 1);
    c.data[4] = 2; /* the quantised version */
    CHECK_STATUS(try_it(&c), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("version 2");
    without_memory();
    trained();
    return pc_test_end();
}
