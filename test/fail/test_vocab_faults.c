/* Catches: damaged vocabularies of SentencePiece, tiktoken, llama2.c and GGUF that load, crash, or
 * are refused without file and cause; failed allocations that leak; equal digests of different
 * vocabularies. */
#include <stdlib.h>
#include <string.h>

#include "gguf_bytes.h"
#include "model/load/gguf.h"
#include "text_forms.h"

/* ------------------------------------------------------ tokenizer.model etc. */

typedef struct wire {
    uint8_t data[4096];
    size_t size;
} wire;

static void varint(wire *w, uint64_t value)
{
    for (; value > 127; value >>= 7)
        w->data[w->size++] = (uint8_t)(value | 128);
    w->data[w->size++] = (uint8_t)value;
}

static void blob(wire *w, unsigned number, const void *data, size_t size)
{
    varint(w, number << 3 | 2);
    varint(w, size);
    memcpy(w->data + w->size, data, size);
    w->size += size;
}

static void number(wire *w, unsigned field, uint64_t value)
{
    varint(w, field << 3);
    varint(w, value);
}

static void piece(wire *w, const char *text, float score, uint64_t type)
{
    wire p = {.size = 0};
    blob(&p, 1, text, strlen(text));
    varint(&p, 2 << 3 | 5);
    memcpy(p.data + p.size, &score, 4);
    p.size += 4;
    number(&p, 3, type);
    blob(w, 1, p.data, p.size);
}

static void settings(wire *w, uint64_t kind, uint64_t bos)
{
    wire trainer = {.size = 0}, normal = {.size = 0};
    number(&trainer, 3, kind);
    number(&trainer, 41, bos);
    number(&trainer, 43, (uint64_t)-1);
    blob(w, 2, trainer.data, trainer.size);
    number(&normal, 3, 1);
    number(&normal, 4, 0);
    blob(w, 3, normal.data, normal.size);
}

static void pieces(wire *w)
{
    static const struct {
        const char *text;
        uint64_t type;
    } all[] = {{"<unk>", 2}, {"<s>", 3}, {"</s>", 3},   {"\xe2\x96\x81", 1},
               {"a", 1},     {"ab", 1},  {"<0x0A>", 6}, {"<x>", 4}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        piece(w, all[i].text, -(float)i, all[i].type);
}

static form model_form(const wire *w)
{
    form f = {.name = "tokenizer.model", .read = pc__tokenizer_from_sentencepiece};
    f.size = w->size;
    memcpy(f.data, w->data, w->size);
    return f;
}

static form good_model(void)
{
    wire w = {.size = 0};
    pieces(&w);
    settings(&w, 2, 1);
    return model_form(&w);
}

/* A Unigram model whose map of characters makes "A" an "a", and several blanks one. */
static form good_unigram(void)
{
    static const uint8_t map[] = {12, 0, 0, 0, 0, 0, 1, 0, 0x41, 0x0d, 0, 0, 0, 0, 0, 0x80, 'a', 0};
    wire w = {.size = 0}, trainer = {.size = 0}, normal = {.size = 0};
    pieces(&w);
    number(&trainer, 3, 1);
    blob(&w, 2, trainer.data, trainer.size);
    blob(&normal, 2, map, sizeof map);
    blob(&w, 3, normal.data, normal.size);
    return model_form(&w);
}

static void model_fault(const wire *w, pc_status want, const char *cause)
{
    const form f = model_form(w);
    refused(&f, f.data, f.size, want, cause);
}

static void model_faults(void)
{
    static const struct {
        uint64_t kind, bos;
        pc_status want;
        const char *cause;
    } kinds[] = {{3, 1, PC_ERR_UNSUPPORTED, "kind 3"},
                 {2, 8, PC_ERR_FORMAT, "id 8"},
                 {2, (uint64_t)-2, PC_ERR_FORMAT, "id -2"},
                 {2, UINT64_C(0x100000001), PC_ERR_FORMAT, "id 4294967297"}};
    float nan = 0.0f;
    wire w;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        w.size = 0;
        pieces(&w);
        settings(&w, kinds[i].kind, kinds[i].bos);
        model_fault(&w, kinds[i].want, kinds[i].cause);
    }
    w.size = 0;
    blob(&w, 1, "", 0); /* an empty piece, and no ids 1 and 2 */
    settings(&w, 2, 1);
    model_fault(&w, PC_ERR_FORMAT, "special token id");
    w.size = 0;
    pieces(&w);
    piece(&w, "b", 0, 9);
    settings(&w, 2, 1);
    model_fault(&w, PC_ERR_FORMAT, "token 8: type");
    w.size = 0;
    nan = nan / nan;
    pieces(&w);
    piece(&w, "b", nan, 1);
    settings(&w, 2, 1);
    model_fault(&w, PC_ERR_FORMAT, "token 8: its score");
    w.size = 0;
    number(&w, 1, 0); /* a piece that is a number */
    w.data[0] = 0x0a;
    w.data[1] = 0x7f; /* longer than the file */
    model_fault(&w, PC_ERR_FORMAT, "near byte");
    w.size = 0;
    pieces(&w);
    number(&w, 2, 5); /* settings that are a number */
    model_fault(&w, PC_ERR_FORMAT, "damaged");
    w.size = 0;
    pieces(&w);
    model_fault(&w, PC_ERR_FORMAT, "trainer");
    wire trainer = {.size = 0};
    number(&trainer, 3, 2);
    blob(&w, 2, trainer.data, trainer.size);
    model_fault(&w, PC_ERR_FORMAT, "normalizer");
    w.size = 0;
    wire p = {.size = 0};
    blob(&p, 2, "abcd", 4); /* a score that is text */
    pieces(&w);
    blob(&w, 1, p.data, p.size);
    settings(&w, 2, 1);
    model_fault(&w, PC_ERR_FORMAT, "piece 8");
}

/* What a normalizer would do to the text and we do not. */
static void normalisers(void)
{
    static const struct {
        unsigned number;
        uint64_t value;
        const char *cause;
    } faults[] = {{5, 0, "keeps blanks"}, {24, 1, "blanks after words"}};
    wire w;
    for (size_t i = 0; i < 2; i++) {
        wire normal = {.size = 0};
        if (faults[i].number == 5)
            number(&normal, 5, faults[i].value);
        w = (wire){.size = 0};
        pieces(&w);
        wire trainer = {.size = 0};
        number(&trainer, 3, 2);
        if (faults[i].number == 24)
            number(&trainer, 24, faults[i].value);
        blob(&w, 2, trainer.data, trainer.size);
        blob(&w, 3, normal.data, normal.size);
        model_fault(&w, PC_ERR_UNSUPPORTED, faults[i].cause);
    }
    wire normal = {.size = 0};
    blob(&normal, 2, "map", 3);
    number(&normal, 4, 0);
    w = (wire){.size = 0};
    pieces(&w);
    settings(&w, 2, 1);
    blob(&w, 3, normal.data, normal.size);
    model_fault(&w, PC_ERR_FORMAT, "precompiled_charsmap has 3 bytes");
}

/* A line for every byte; the form's own line breaks. */
static form good_tiktoken(void)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    form f = {.name = "tokenizer.model", .read = pc__tokenizer_from_sentencepiece};
    for (unsigned b = 0; b < 256; b++)
        f.size += (size_t)snprintf((char *)f.data + f.size, sizeof f.data - f.size, "%c%c== %u\n",
                                   digits[b >> 2], digits[(b & 3) << 4], b);
    return f;
}

static void tiktoken_faults(void)
{
    static const struct {
        const char *line, *cause;
    } faults[] = {
        {"YWI= 257\n", ":257: "},
        {"YWI= 255\n", "rank 256"},
        {"YWI= -256\n", "rank 256"},
        {"YWI= +256\n", "rank"},
        {"YWI= 0256x\n", "rank"},
        {"YWI=\n256\n", "rank"},
        {"YWI= \n", "rank"},
        {"YW*= 256\n", "base64"},
        {"YWI 256\n", "base64"},
        {" 256\n", "base64"},
        {"YWI= 18446744073709551872\n", "rank"},
    };
    const form good = good_tiktoken();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        form f = good;
        size_t n = strlen(faults[i].line);
        memcpy(f.data + f.size, faults[i].line, n);
        refused(&f, f.data, f.size + n, PC_ERR_FORMAT, faults[i].cause);
    }
    refused(&good, good.data, 700, PC_ERR_FORMAT, "tokenizer.model");
    refused(&good, "AA== 0\n", 7, PC_ERR_FORMAT, "byte 0x01 has no token");
}

static pc_status read_llama2c(pc__tokenizer **out, const pc_allocator *mem, const char *path)
{
    return pc__tokenizer_from_llama2c(out, mem, path, 8);
}

static form good_llama2c(void)
{
    static const char *const all[8] = {"<unk>", "\n<s>\n", "\n</s>\n", "<0x0A>",
                                       " ",     "a",       " a",       "ab"};
    form f = {.name = "tokenizer.bin", .read = read_llama2c, .size = 4};
    for (int i = 0; i < 8; i++) {
        float score = -(float)i;
        int32_t size = (int32_t)strlen(all[i]);
        memcpy(f.data + f.size, &score, 4);
        memcpy(f.data + f.size + 4, &size, 4);
        memcpy(f.data + f.size + 8, all[i], (size_t)size);
        f.size += 8 + (size_t)size;
    }
    return f;
}

static void llama2c_faults(void)
{
    form f = good_llama2c();
    int32_t size = -1;
    float score = 1e30f;
    pc__tokenizer *t;
    refused(&f, f.data, f.size + 1, PC_ERR_FORMAT, "1 bytes follow the last of 8");
    memcpy(f.data + 8, &size, 4);
    refused(&f, f.data, f.size, PC_ERR_FORMAT, "token 0");
    size = INT32_MAX;
    memcpy(f.data + 8, &size, 4);
    refused(&f, f.data, f.size, PC_ERR_FORMAT, "beyond the end");
    f = good_llama2c();
    score = score * score;
    memcpy(f.data + 4, &score, 4);
    refused(&f, f.data, f.size, PC_ERR_FORMAT, "token 0: its score");
    f = good_llama2c();
    write_file(f.name, f.data, f.size);
    for (size_t count = 0; count < 12; count++)
        if (count != 8) {
            CHECK_STATUS(pc__tokenizer_from_llama2c(&t, &pc__libc_allocator,
                                                    write_file(f.name, f.data, f.size), count),
                         PC_ERR_FORMAT);
            CHECK(!t);
            CHECK_ERROR_HAS(f.name);
        }
    CHECK_STATUS(pc__tokenizer_from_llama2c(&t, &pc__libc_allocator,
                                            write_file(f.name, f.data, f.size), SIZE_MAX),
                 PC_ERR_FORMAT);
}

/* ---------------------------------------------------------------------- GGUF */

static pc_status read_gguf(pc__tokenizer **out, const pc_allocator *mem, const char *path)
{
    pc__gguf *gguf;
    pc_status status = pc__gguf_open(&gguf, mem, path);
    *out = NULL;
    if (status >= 0)
        status = pc__gguf_tokenizer(out, mem, gguf);
    pc__gguf_free(gguf);
    return status;
}

static form gguf_form(const char *kind, const char *pre, const char *const *tokens, size_t count,
                      const char *merge)
{
    static gguf_bytes g;
    form f = {.name = "vocabulary.gguf", .read = read_gguf};
    gguf_start(&g, 3);
    gguf_text(&g, "tokenizer.ggml.model", kind);
    if (pre)
        gguf_text(&g, "tokenizer.ggml.pre", pre);
    gguf_array(&g, "tokenizer.ggml.tokens", 8, count);
    for (size_t i = 0; i < count; i++)
        put_text(&g, tokens[i]);
    gguf_array(&g, "tokenizer.ggml.token_type", 5, count);
    for (size_t i = 0; i < count; i++)
        put_u32(&g, tokens[i][0] == '<' ? 3 : 1);
    if (merge) {
        gguf_array(&g, "tokenizer.ggml.merges", 8, 1);
        put_text(&g, merge);
    }
    gguf_end(&g);
    f.size = g.size;
    memcpy(f.data, g.data, g.size);
    return f;
}

static const char *const few[] = {"a", "b", "ab", "\xc4\xa0", "t", "h", "e", "<s>", "1", "2"};
enum { FEW = sizeof few / sizeof *few };

static void gguf_fault(const char *kind, const char *pre, size_t count, const char *merge,
                       pc_status want, const char *cause)
{
    const form f = gguf_form(kind, pre, few, count, merge);
    refused(&f, f.data, f.size, want, cause);
}

static void gguf_faults(void)
{
    static char longer[1100];
    const char *const one[] = {longer};
    gguf_fault("gpt2", "gpt-2", 0, NULL, PC_ERR_FORMAT, "0 is not a number of tokens");
    gguf_fault("gpt2", "nobody", FEW, NULL, PC_ERR_UNSUPPORTED, "'nobody'");
    gguf_fault("gpt2", "", FEW, NULL, PC_ERR_UNSUPPORTED, "pre-tokenizer ''");
    gguf_fault("rwkv", NULL, FEW, NULL, PC_ERR_UNSUPPORTED, "'rwkv'");
    gguf_fault("gpt2", "gpt-2", FEW, "a x", PC_ERR_FORMAT, "merge 0 (\"a x\")");
    gguf_fault("gpt2", "gpt-2", FEW, "b a", PC_ERR_FORMAT, "merge 0");
    gguf_fault("gpt2", "gpt-2", FEW, "ab", PC_ERR_FORMAT, "merge 0 has no two sides");
    gguf_fault("gpt2", "gpt-2", FEW, "", PC_ERR_FORMAT, "merge 0 has no two sides");
    memset(longer, '<', sizeof longer - 1);
    const form f = gguf_form("gpt2", "gpt-2", one, 1, NULL);
    refused(&f, f.data, f.size, PC_ERR_LIMIT, "special token of 1099 bytes");
}

/* Bytes that are no UTF-8 are tokens like others. */
static void odd_bytes(void)
{
    static const char *const odd[] = {"\xff", "\xc3", "\xe4\xb8", "a", "\xff\xff", "<s>"};
    static const char *const kinds[] = {"llama", "gpt2", "bert", "t5"};
    for (size_t i = 0; i < 4; i++) {
        const form f = gguf_form(kinds[i], "gpt-2", odd, 6, NULL);
        pc__tokenizer *t = NULL;
        int32_t ids[16];
        size_t count = 0;
        if (!CHECK_OK(f.read(&t, &pc__libc_allocator, write_file(f.name, f.data, f.size))))
            continue;
        CHECK_OK(pc__text_to_tokens(t, "a\xff\xff\xe4\xb8 a", 7, 0, ids, 16, &count));
        for (size_t j = 0; j < count; j++)
            CHECK(ids[j] >= 0 && ids[j] < 6);
        pc__tokenizer_free(t);
    }
}

/* ------------------------------------------------------------------ encoding */

static void calls(void)
{
    const form f = gguf_form("gpt2", "gpt-2", few, FEW, "a b");
    pc__tokenizer *t = NULL;
    int32_t ids[4] = {0, FEW, -1, 1};
    char text[4];
    size_t count = 9;
    if (!CHECK_OK(f.read(&t, &pc__libc_allocator, write_file(f.name, f.data, f.size))))
        return;
    CHECK_STATUS(pc__tokens_to_text(t, ids, 2, 0, text, 4, &count), PC_ERR_INVALID);
    CHECK_ERROR_HAS("token 1: id 10 lies outside of the 10 tokens");
    CHECK_INT(count, 0);
    CHECK_STATUS(pc__tokens_to_text(t, ids + 2, 1, 0, text, 4, &count), PC_ERR_INVALID);
    CHECK_ERROR_HAS("id -1");
    CHECK_STATUS(pc__text_to_tokens(t, "ababab", 6, 0, ids, 2, &count), PC_ERR_LIMIT);
    CHECK_INT(count, 3);
    CHECK(ids[0] == 2 && ids[1] == 2); /* what fits */
    CHECK_ERROR_HAS("3 tokens, there is room for 2");
    CHECK_STATUS(pc__tokens_to_text(t, (const int32_t[]){2, 2, 2}, 3, 0, text, 4, &count),
                 PC_ERR_LIMIT);
    CHECK_INT(count, 6);
    CHECK(!memcmp(text, "abab", 4));
    pc__tokenizer_free(t);
}

static pc__id digest_of(const form *f)
{
    pc__tokenizer *t = NULL;
    pc__id id = {{0}};
    if (CHECK_OK(f->read(&t, &pc__libc_allocator, write_file(f->name, f->data, f->size))))
        id = pc__tokenizer_digest(t);
    pc__tokenizer_free(t);
    return id;
}

/* The digest tells apart what changes ids, and nothing else. */
static void identity(void)
{
    const char *const other[] = {"a", "b", "ab", "\xc4\xa0", "t", "h", "x", "<s>", "1", "2"};
    const form forms[] = {gguf_form("gpt2", "gpt-2", few, FEW, "a b"),
                          gguf_form("gpt2", "llama-bpe", few, FEW, "a b"),
                          gguf_form("gpt2", "qwen2", few, FEW, "a b"),
                          gguf_form("gpt2", "gpt-2", few, FEW, NULL),
                          gguf_form("gpt2", "gpt-2", other, FEW, "a b"),
                          gguf_form("llama", NULL, few, FEW, NULL),
                          gguf_form("bert", NULL, few, FEW, NULL),
                          gguf_form("t5", NULL, few, FEW, NULL)};
    const size_t n = sizeof forms / sizeof *forms;
    pc__id ids[sizeof forms / sizeof *forms], again = digest_of(&forms[0]);
    for (size_t i = 0; i < n; i++)
        ids[i] = digest_of(&forms[i]);
    CHECK(pc__id_equal(&ids[0], &again));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(!pc__id_equal(&ids[i], &ids[j]));
}

int main(void)
{
    static form forms[7];
    forms[0] = good_model();
    forms[1] = good_llama2c();
    forms[2] = gguf_form("gpt2", "llama-bpe", few, FEW, "a b");
    forms[3] = gguf_form("bert", NULL, few, FEW, NULL);
    forms[4] = good_tiktoken(); /* whole lines less are another file, which has its own test */
    forms[5] = good_unigram();
    forms[6] = gguf_form("t5", NULL, few, FEW, NULL);
    for (size_t i = 0; i < 7; i++) {
        not_there(&forms[i]);
        if (i != 4)
            truncated(&forms[i]);
        no_memory(&forms[i]);
    }
    model_faults();
    normalisers();
    tiktoken_faults();
    llama2c_faults();
    gguf_faults();
    odd_bytes();
    calls();
    identity();
    return pc_test_end();
}
