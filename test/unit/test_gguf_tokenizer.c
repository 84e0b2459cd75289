/* Catches: vocabulary keys of a GGUF file that are read wrongly or not checked: kinds, ids outside
 * the vocabulary, arrays of another length or type; leaks when memory runs out. */
#include "base/mem.h"
#include "gguf_bytes.h"
#include "model/load/gguf.h"

static const char *const pieces[] = {"<unk>",
                                     "<s>",
                                     "</s>",
                                     "\xe2\x96\x81",
                                     "a",
                                     "b",
                                     ("\xe2\x96\x81"
                                      "a"),
                                     "ab"};
enum { PIECES = sizeof pieces / sizeof *pieces };

typedef void (*more_fn)(gguf_bytes *g);

static void tokens(gguf_bytes *g)
{
    gguf_array(g, "tokenizer.ggml.tokens", 8, PIECES);
    for (int i = 0; i < PIECES; i++)
        put_text(g, pieces[i]);
}

static void scores(gguf_bytes *g, size_t count)
{
    gguf_array(g, "tokenizer.ggml.scores", 6, count);
    for (size_t i = 0; i < count; i++) {
        float score = -(float)i;
        put(g, &score, 4);
    }
}

static void types(gguf_bytes *g, uint32_t last)
{
    gguf_array(g, "tokenizer.ggml.token_type", 5, PIECES);
    for (uint32_t i = 0; i < PIECES; i++)
        put_u32(g, i == 0 ? 2 : i < 3 ? 3 : i + 1 == PIECES ? last : 1);
}

static pc_status parse(pc__tokenizer **out, const pc_allocator *mem, const char *kind, more_fn more)
{
    static gguf_bytes g;
    pc__gguf *gguf;
    pc_status status;
    *out = NULL;
    gguf_start(&g, 3);
    if (kind)
        gguf_text(&g, "tokenizer.ggml.model", kind);
    if (more)
        more(&g);
    gguf_end(&g);
    status = pc__gguf_open(&gguf, mem, gguf_file(&g));
    if (status >= 0)
        status = pc__gguf_tokenizer(out, mem, gguf);
    pc__gguf_free(gguf);
    return status;
}

static void good(gguf_bytes *g)
{
    tokens(g);
    scores(g, PIECES);
    types(g, 1);
    gguf_u32(g, "tokenizer.ggml.bos_token_id", 1);
    gguf_u32(g, "tokenizer.ggml.eos_token_id", 2);
    gguf_u32(g, "tokenizer.ggml.unknown_token_id", 0);
    gguf_u32(g, "tokenizer.ggml.padding_token_id", UINT32_MAX); /* "none" in some files */
    gguf_text(g, "tokenizer.chat_template", "{{ messages }}");
}

static void one_blank(gguf_bytes *g)
{
    good(g);
    gguf_key(g, "tokenizer.ggml.remove_extra_whitespaces", 7);
    put(g, "\1", 1);
}

static void text_as_charsmap(gguf_bytes *g)
{
    good(g);
    gguf_text(g, "tokenizer.ggml.precompiled_charsmap", "map");
}

static void short_charsmap(gguf_bytes *g)
{
    good(g);
    gguf_array(g, "tokenizer.ggml.precompiled_charsmap", 0, 2);
    put(g, "ab", 2);
}

static void reads(void)
{
    pc__tokenizer *t;
    int32_t ids[8];
    size_t count;
    if (!CHECK_OK(parse(&t, &pc__libc_allocator, "llama", good)))
        return;
    CHECK_INT(pc__tokenizer_count(t), PIECES);
    pc__special_ids special = pc__tokenizer_ids(t);
    CHECK(special.bos == 1 && special.eos == 2 && special.unk == 0 && special.pad == -1);
    CHECK_STR(pc__tokenizer_chat_template(t), "{{ messages }}");
    CHECK(pc__token_is_special(t, 1) && !pc__token_is_special(t, 4));
    if (CHECK_OK(pc__text_to_tokens(t, "ab", 2, 0, ids, 8, &count))
        && CHECK_INT(count, 2)) /* " a" scores above "ab" */
        CHECK(ids[0] == 6 && ids[1] == 5);
    pc__tokenizer_free(t);
}

/* The same pieces as a Unigram model: the best sum, not the best pairs; EOS at the end, no BOS. */
static void unigram(void)
{
    pc__tokenizer *t;
    int32_t ids[8];
    size_t count;
    if (!CHECK_OK(parse(&t, &pc__libc_allocator, "t5", good)))
        return;
    if (CHECK_OK(pc__text_to_tokens(t, "ab", 2, PC_TOKENIZE_BOS, ids, 8, &count))
        && CHECK_INT(count, 3))
        CHECK(ids[0] == 3 && ids[1] == 7 && ids[2] == 2);
    if (CHECK_OK(pc__text_to_tokens(t, "  b", 3, 0, ids, 8, &count)))
        CHECK_INT(count, 4); /* blanks stay by default */
    pc__tokenizer_free(t);
    if (!CHECK_OK(parse(&t, &pc__libc_allocator, "t5", one_blank)))
        return;
    if (CHECK_OK(pc__text_to_tokens(t, "  b", 3, 0, ids, 8, &count)))
        CHECK_INT(count, 2);
    pc__tokenizer_free(t);
}

static void refused(const char *kind, more_fn more, pc_status want, const char *text)
{
    pc__tokenizer *t;
    CHECK_STATUS(parse(&t, &pc__libc_allocator, kind, more), want);
    CHECK_ERROR_HAS(text);
    CHECK_ERROR_HAS("model.gguf");
    CHECK(t == NULL);
}

static void few_scores(gguf_bytes *g)
{
    tokens(g);
    scores(g, PIECES - 1);
}

static void texts_as_scores(gguf_bytes *g)
{
    tokens(g);
    gguf_array(g, "tokenizer.ggml.scores", 8, PIECES);
    for (int i = 0; i < PIECES; i++)
        put_text(g, "1");
}

static void odd_type(gguf_bytes *g)
{
    tokens(g);
    types(g, 7);
}

static void numbers(gguf_bytes *g)
{
    gguf_array(g, "tokenizer.ggml.tokens", 4, 1);
    put_u32(g, 5);
}

static void far_id(gguf_bytes *g)
{
    tokens(g);
    gguf_u32(g, "tokenizer.ggml.eos_token_id", PIECES);
}

static void text_id(gguf_bytes *g)
{
    tokens(g);
    gguf_text(g, "tokenizer.ggml.bos_token_id", "1");
}

static void without_memory(void)
{
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__tokenizer *t;
        pc_status status = parse(&t, &mem, "llama", good);
        pc__tokenizer_free(t);
        CHECK_INT(memory.live_blocks, 0);
        if (status == PC_OK)
            break;
        CHECK_STATUS(status, PC_ERR_NOMEM);
    }
}

/* Numbers of tokens of real vocabularies. */
static void real(void)
{
    static const struct {
        const char *name;
        size_t count;
    } known[] = {{"llama-spm", 32000}, {"gpt-2", 50257}, {"bert-bge", 30522},
                 {"falcon", 65024},    {"phi-3", 32064}, {"mpt", 50432}};
    char name[96];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        pc__gguf *gguf;
        pc__tokenizer *t;
        snprintf(name, sizeof name, "data/ggml-vocab/ggml-vocab-%s.gguf", known[i].name);
        const char *path = pc_test_data(name);
        if (!path || !CHECK_OK(pc__gguf_open(&gguf, &pc__libc_allocator, path)))
            continue;
        if (CHECK_OK(pc__gguf_tokenizer(&t, &pc__libc_allocator, gguf)))
            CHECK_INT(pc__tokenizer_count(t), known[i].count);
        pc__tokenizer_free(t);
        pc__gguf_free(gguf);
    }
}

int main(void)
{
    reads();
    unigram();
    refused(NULL, tokens, PC_ERR_NOT_FOUND, "tokenizer.ggml.model");
    refused("none", tokens, PC_ERR_NOT_FOUND, "'none'");
    refused("rwkv", tokens, PC_ERR_UNSUPPORTED, "'rwkv'");
    refused("t5", text_as_charsmap, PC_ERR_FORMAT, "precompiled_charsmap");
    refused("t5", short_charsmap, PC_ERR_FORMAT, "precompiled_charsmap has 2 bytes");
    refused("llama", NULL, PC_ERR_FORMAT, "tokenizer.ggml.tokens: 0 is not a number of tokens");
    refused("llama", numbers, PC_ERR_FORMAT, "not an array of strings");
    refused("llama", few_scores, PC_ERR_FORMAT, "7 values for 8 tokens");
    refused("llama", texts_as_scores, PC_ERR_FORMAT, "not a number");
    refused("llama", odd_type, PC_ERR_FORMAT, "value 7");
    refused("llama", far_id, PC_ERR_FORMAT, "token 8 is not among the 8");
    refused("llama", text_id, PC_ERR_FORMAT, "not an integer");
    without_memory();
    real();
    return pc_test_end();
}
