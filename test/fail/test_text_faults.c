/* Catches: tokenizer files that are damaged in any way and load all the same,
 * crash, or are refused without file and cause; and allocations whose failure leaks or leaves half
 * a tokenizer. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gguf_bytes.h"
#include "model/gguf.h"

static const char *write_file(const char *name, const void *data, size_t size)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", pc_test_folder(), name);
    remove(path);
    pc_test_write(path, data, size);
    return path;
}

/* ------------------------------------------------------------------ readers */

typedef pc_status (*read_fn)(pc__tokenizer **out, const pc_allocator *mem, const char *path);

static pc_status read_llama2c(pc__tokenizer **out, const pc_allocator *mem, const char *path)
{
    return pc__tokenizer_from_llama2c(out, mem, path, 8);
}

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

/* A form of file: a good one of it, and what reads it. */
typedef struct form {
    const char *name; /* of the file */
    read_fn read;
    size_t size;
    uint8_t data[8192];
} form;

/* Refused, nothing left behind, and the text has the file's name and the cause. */
static void refused(const form *f, const void *data, size_t size, pc_status want, const char *cause)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    pc__tokenizer *t = (pc__tokenizer *)(uintptr_t)8;
    pc_status status = f->read(&t, &mem, write_file(f->name, data, size));
    if (want)
        CHECK_STATUS(status, want);
    else
        CHECK(status == PC_ERR_FORMAT || status == PC_ERR_UNSUPPORTED);
    CHECK(!t && !memory.live_blocks);
    CHECK_ERROR_HAS(f->name);
    CHECK_ERROR_HAS(cause);
    if (status >= 0)
        pc__tokenizer_free(t);
}

static void truncated(const form *f)
{
    for (size_t size = 0; size < f->size; size++)
        refused(f, f->data, size, 0, f->name);
}

static void not_there(const form *f)
{
    pc__tokenizer *t = (pc__tokenizer *)(uintptr_t)8;
    char path[256];
    snprintf(path, sizeof path, "%s/nobody", pc_test_folder());
    CHECK_STATUS(f->read(&t, &pc__libc_allocator, path), PC_ERR_NOT_FOUND);
    CHECK(!t);
    CHECK_ERROR_HAS("nobody: No such file");
    CHECK_STATUS(f->read(&t, &pc__libc_allocator, pc_test_folder()), PC_ERR_IO);
    CHECK(!t);
    CHECK_ERROR_HAS("not a regular file");
}

/* Encodes and decodes with each allocation failing in turn. */
static void use(const pc__tokenizer *t, pc_test_memory *memory)
{
    static const char text[] = "ab a<s> \xc3\xa9\n the the the <x>12";
    const uint64_t flags = PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS;
    int32_t ids[256];
    char back[512];
    size_t count = 0, size = 0;
    int64_t live = memory->live_blocks;
    uint64_t start, used = 1;
    for (uint64_t at = 1; at <= used; at++) {
        start = memory->calls;
        memory->fail_at = start + at;
        pc_status status = pc__tokenize(t, text, sizeof text - 1, flags, ids, 256, &count);
        used = memory->calls - start;
        if (at > used)
            CHECK_OK(status);
        else
            CHECK(status == PC_ERR_NOMEM && count == 0);
        used += status < 0; /* one call more than that failed */
        CHECK_INT(memory->live_blocks, live);
    }
    used = 1;
    for (uint64_t at = 1; at <= used; at++) {
        start = memory->calls;
        memory->fail_at = start + at;
        pc_status status = pc__detokenize(t, ids, count, PC_TOKENIZE_SPECIAL, back, sizeof back,
                                          &size);
        used = memory->calls - start + (status < 0);
        CHECK(status == PC_OK || (status == PC_ERR_NOMEM && size == 0));
        CHECK_INT(memory->live_blocks, live);
    }
    CHECK(size > 0);
    memory->fail_at = 0;
}

/* Loads with each allocation failing in turn. PCRE2's compiler to machine code may do without. */
static void no_memory(const form *f)
{
    const char *path = write_file(f->name, f->data, f->size);
    for (uint64_t at = 1, more = 1; more; at++) {
        pc_test_memory memory = {.fail_at = at};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc__tokenizer *t = (pc__tokenizer *)(uintptr_t)8;
        pc_status status = f->read(&t, &mem, path);
        more = memory.calls >= at;
        if (!more)
            CHECK_OK(status);
        if (status >= 0)
            use(t, &memory);
        else
            CHECK(status == PC_ERR_NOMEM && !t);
        pc__tokenizer_free(status < 0 ? NULL : t);
        CHECK_INT(memory.live_blocks, 0);
    }
}

/* ---------------------------------------------------------- tokenizer.json */

static const char json_head[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true},"
    "{\"id\":10,\"content\":\"<x>\",\"rstrip\":true}],";
static const char json_parts[] =
    "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\" ?[a-z]+\"},\"behavior\":\"Isolated\"},"
    "{\"type\":\"ByteLevel\",\"use_regex\":false}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{}}]},";
static const char json_model[] =
    "\"model\":{\"type\":\"BPE\",\"unk_token\":null,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"t\":3,"
    "\"h\":4,\"e\":5,\"th\":6,\"the\":7,\"\\u0120\":8},\"merges\":[\"a b\",\"t h\",[\"th\",\"e\"]]}}";

static form json_form(const char *head, const char *parts, const char *model)
{
    form f = {.name = "tokenizer.json", .read = pc__tokenizer_from_json};
    f.size = (size_t)snprintf((char *)f.data, sizeof f.data, "%s%s%s", head, parts, model);
    return f;
}

static void json_fault(const char *head, const char *parts, const char *model, pc_status want,
                       const char *cause)
{
    const form f = json_form(head ? head : json_head, parts ? parts : json_parts,
                             model ? model : json_model);
    refused(&f, f.data, f.size, want, cause);
}

/* The vocabulary and the merges of a model that is otherwise good. */
static void vocabulary_fault(const char *vocab, const char *merges, const char *cause)
{
    char model[2048];
    snprintf(model, sizeof model, "\"model\":{\"type\":\"BPE\",\"vocab\":%s,\"merges\":%s}}", vocab,
             merges);
    json_fault("{", "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},", model, PC_ERR_FORMAT, cause);
}

static void json_vocabularies(void)
{
    vocabulary_fault("{}", "[]", "no tokens");
    vocabulary_fault("[\"a\"]", "[]", "model.vocab is not an object");
    vocabulary_fault("5", "[]", "model.vocab");
    vocabulary_fault("{\"a\":-1}", "[]", "no tokens");
    vocabulary_fault("{\"a\":0,\"b\":-1}", "[]", "token id -1");
    vocabulary_fault("{\"a\":0,\"b\":\"1\"}", "[]", "token id");
    vocabulary_fault("{\"a\":0,\"b\":1.5}", "[]", "token id");
    vocabulary_fault("{\"a\":16000000}", "[]", "far beyond");
    vocabulary_fault("{\"a\":4294967296}", "[]", "far beyond");
    vocabulary_fault("{\"a\":0,\"b\":0}", "[]", "given to 'a' and to 'b'");
    vocabulary_fault("{\"a\":0,\"a\":1}", "[]", "duplicate");
    vocabulary_fault("{\"a\":0}", "5", "merges is not a list");
    vocabulary_fault("{\"a\":0}", "\"a a\"", "merges is not a list");
    vocabulary_fault("{\"a\":0}", "null", "merges is not a list");
    vocabulary_fault("{\"a\":0}", "[5]", "merge 0");
    vocabulary_fault("{\"a\":0}", "[[\"a\"]]", "merge 0");
    vocabulary_fault("{\"a\":0}", "[[\"a\",\"a\",\"a\"]]", "merge 0");
    vocabulary_fault("{\"a\":0}", "[[\"a\",1]]", "merge 0");
    vocabulary_fault("{\"a\":0}", "[\"\"]", "merge 0");
    vocabulary_fault("{\"a\":0}", "[\"aa\"]", "merge 0");
    vocabulary_fault("{\"a\":0}", "[\"a \"]", "merge 0");
    vocabulary_fault("{\"a\":0,\"b\":1}", "[\"a b\"]", "lacks"); /* the joined token */
    vocabulary_fault("{\"a\":0,\"ab\":1}", "[\"a b\"]", "lacks");
    vocabulary_fault("{\"b\":0,\"ab\":1}", "[\"a b\"]", "\"a b\"");
    vocabulary_fault("{\"\xff\":0}", "[]", "decode byte 0xff");
    vocabulary_fault("{\"\\ud800\":0}", "[]", "invalid Unicode");
}

static void json_added(void)
{
    static const struct {
        const char *head, *cause;
    } faults[] = {
        {"{\"added_tokens\":5,", "added_tokens is not a list"},
        {"{\"added_tokens\":[{\"content\":\"x\"}],", "added token 0 has no id"},
        {"{\"added_tokens\":[{\"id\":\"9\",\"content\":\"x\"}],", "added token 0"},
        {"{\"added_tokens\":[{\"id\":9}],", "no content"},
        {"{\"added_tokens\":[{\"id\":9,\"content\":\"\"}],", "no content"},
        {"{\"added_tokens\":[{\"id\":-1,\"content\":\"<s>\"}],", "token id -1"},
        {"{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\"},{\"id\":9,\"content\":\"<t>\"}],",
         "'<t>'"},
        {"{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\"}],", "'<s>'"},
        {"{\"added_tokens\":[{\"id\":99999999,\"content\":\"<s>\"}],", "far beyond"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        json_fault(faults[i].head, NULL, NULL, PC_ERR_FORMAT, faults[i].cause);
}

static void json_pipeline(void)
{
    static const struct {
        pc_status want;
        const char *parts, *cause;
    } faults[] = {
        {PC_ERR_FORMAT, "\"normalizer\":\"NFC\",", "normalizer is not an object"},
        {PC_ERR_UNSUPPORTED, "\"normalizer\":{\"type\":\"NFKD\"},", "'NFKD'"},
        {PC_ERR_UNSUPPORTED, "\"normalizer\":{},", "normalizer of type ''"},
        {PC_ERR_FORMAT, "\"normalizer\":{\"type\":\"Sequence\"},", "normalizers"},
        {PC_ERR_FORMAT, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[1]},",
         "normalizer"},
        {PC_ERR_FORMAT, "\"pre_tokenizer\":[],", "pre_tokenizer is not an object"},
        {PC_ERR_UNSUPPORTED, "\"pre_tokenizer\":{\"type\":\"Whitespace\"},", "'Whitespace'"},
        {PC_ERR_FORMAT, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":{}},",
         "pretokenizers"},
        {PC_ERR_UNSUPPORTED,
         "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true},",
         "add_prefix_space"},
        {PC_ERR_UNSUPPORTED,
         "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},"
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"}]},",
         "expression, character 2"},
        {PC_ERR_UNSUPPORTED,
         "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Removed\"},",
         "'Split'"},
        {PC_ERR_UNSUPPORTED, "", "neither ByteLevel nor U+2581"},
        {PC_ERR_FORMAT,
         "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<nobody>\"}}]},",
         "<nobody>"},
        {PC_ERR_FORMAT, "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"post_processor\":7,",
         "post_processor"},
        {PC_ERR_UNSUPPORTED,
         "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"post_processor\":{\"type\":\"BertProcessing\"},",
         "'BertProcessing'"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        json_fault(NULL, faults[i].parts, NULL, faults[i].want, faults[i].cause);
    json_fault(NULL, NULL, "\"model\":5}", PC_ERR_FORMAT, "no model");
    json_fault(NULL, NULL, "\"version\":\"1.0\"}", PC_ERR_FORMAT, "no model");
    json_fault(NULL, NULL, "\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", PC_ERR_UNSUPPORTED,
               "'Unigram'");
    json_fault(
        NULL, NULL,
        "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"a\":0},\"merges\":[]}}",
        PC_ERR_FORMAT, "<unk>");
    json_fault("[1,", "2", "]", PC_ERR_FORMAT, "no model");
}

/* Of the two files beside it. */
static void json_neighbours(void)
{
    const form f = json_form(json_head, json_parts, json_model);
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    pc__tokenizer *t = NULL;
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json"};
    for (size_t i = 0; i < 2; i++) {
        char path[256];
        write_file(names[i], "{\"bos_token\":", 13);
        CHECK_STATUS(f.read(&t, &mem, write_file(f.name, f.data, f.size)), PC_ERR_FORMAT);
        CHECK(!t && !memory.live_blocks);
        CHECK_ERROR_HAS(names[i]);
        snprintf(path, sizeof path, "%s/%s", pc_test_folder(), names[i]);
        remove(path);
    }
}

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
    } kinds[] = {{1, 1, PC_ERR_UNSUPPORTED, "kind 1"},
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
    } faults[] = {{4, 1, "removes blanks"}, {5, 0, "keeps blanks"}, {9, 0, "removes blanks"}};
    wire w;
    for (size_t i = 0; i < 3; i++) {
        wire normal = {.size = 0};
        if (faults[i].number != 4 &&
            faults[i].number != 9) /* 9: nothing is said, and that means 1 */
            number(&normal, 4, 0);
        number(&normal, faults[i].number, faults[i].value);
        w = (wire){.size = 0};
        pieces(&w);
        wire trainer = {.size = 0};
        number(&trainer, 3, 2);
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
    model_fault(&w, PC_ERR_UNSUPPORTED, "replaces characters");
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
    refused(&f, f.data, f.size + 1, PC_ERR_FORMAT, "1 bytes behind the last of 8");
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
    gguf_fault("gpt2", "gpt-2", 0, NULL, PC_ERR_FORMAT, "0 tokens");
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
    static const char *const kinds[] = {"llama", "gpt2", "bert"};
    for (size_t i = 0; i < 3; i++) {
        const form f = gguf_form(kinds[i], "gpt-2", odd, 6, NULL);
        pc__tokenizer *t = NULL;
        int32_t ids[16];
        size_t count = 0;
        if (!CHECK_OK(f.read(&t, &pc__libc_allocator, write_file(f.name, f.data, f.size))))
            continue;
        CHECK_OK(pc__tokenize(t, "a\xff\xff\xe4\xb8 a", 7, 0, ids, 16, &count));
        for (size_t j = 0; j < count; j++)
            CHECK(ids[j] >= 0 && ids[j] < 6);
        pc__tokenizer_free(t);
    }
}

/* -------------------------------------------------------------- neutral form */

static void vocab_fault(pc__vocab v, const char *cause)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    pc__tokenizer *t = (pc__tokenizer *)(uintptr_t)8;
    v.where = "vocabulary";
    CHECK_STATUS(pc__tokenizer_from_vocab(&t, &mem, &v), PC_ERR_FORMAT);
    CHECK(!t && !memory.live_blocks);
    CHECK_ERROR_HAS("vocabulary");
    CHECK_ERROR_HAS(cause);
}

static void vocab_faults(void)
{
    const pc__text tokens[2] = {{"a", 1}, {"b", 1}};
    const float infinite[2] = {0.0f, 1e38f * 10.0f};
    const int32_t below[2] = {1, -1}, beyond[2] = {7, 1};
    const pc__vocab good = {.kind = PC__VOCAB_SPM,
                            .count = 2,
                            .tokens = tokens,
                            .bos = -1,
                            .eos = -1,
                            .unk = 0,
                            .pad = -1,
                            .sep = -1,
                            .cls = -1};
    int32_t *ids[6];
    pc__vocab v = good;
    v.count = 0;
    vocab_fault(v, "0 tokens");
    v.count = ((size_t)1 << 24) + 1;
    vocab_fault(v, "16777217 tokens");
    v = good;
    v.scores = infinite;
    vocab_fault(v, "token 1: its score");
    v = good;
    v.types = below;
    vocab_fault(v, "token 1: type -1");
    v.types = beyond;
    vocab_fault(v, "token 0: type 7");
    for (size_t i = 0; i < 6; i++) {
        v = good;
        ids[0] = &v.bos, ids[1] = &v.eos, ids[2] = &v.unk;
        ids[3] = &v.pad, ids[4] = &v.sep, ids[5] = &v.cls;
        *ids[i] = 2;
        vocab_fault(v, "id 2 lies outside of the 2 tokens");
        *ids[i] = -2;
        vocab_fault(v, "id -2");
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
    CHECK_STATUS(pc__detokenize(t, ids, 2, 0, text, 4, &count), PC_ERR_INVALID);
    CHECK_ERROR_HAS("token 1: id 10 lies outside of the 10 tokens");
    CHECK_INT(count, 0);
    CHECK_STATUS(pc__detokenize(t, ids + 2, 1, 0, text, 4, &count), PC_ERR_INVALID);
    CHECK_ERROR_HAS("id -1");
    CHECK_STATUS(pc__tokenize(t, "ababab", 6, 0, ids, 2, &count), PC_ERR_LIMIT);
    CHECK_INT(count, 3);
    CHECK(ids[0] == 2 && ids[1] == 2); /* what fits */
    CHECK_ERROR_HAS("3 tokens, there is room for 2");
    CHECK_STATUS(pc__detokenize(t, (const int32_t[]){2, 2, 2}, 3, 0, text, 4, &count),
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
                          gguf_form("bert", NULL, few, FEW, NULL)};
    const size_t n = sizeof forms / sizeof *forms;
    pc__id ids[sizeof forms / sizeof *forms], again = digest_of(&forms[0]);
    for (size_t i = 0; i < n; i++)
        ids[i] = digest_of(&forms[i]);
    CHECK(pc__id_equal(&ids[0], &again));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(!pc__id_equal(&ids[i], &ids[j]));
}

/* An expression that tries every way to cut a text is stopped. */
static void endless_expression(void)
{
    static const char parts[] =
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
        "{\"Regex\":\"(a+)+$|((a|aa)+)+b\"},\"behavior\":\"Isolated\"},"
        "{\"type\":\"ByteLevel\",\"use_regex\":false}]},";
    const form f = json_form(json_head, parts, json_model);
    char text[4001];
    pc__tokenizer *t = NULL;
    size_t count = 9;
    clock_t start;
    if (!CHECK_OK(f.read(&t, &pc__libc_allocator, write_file(f.name, f.data, f.size))))
        return;
    memset(text, 'a', sizeof text);
    text[4000] = 'h';
    start = clock();
    CHECK_STATUS(pc__tokenize(t, text, sizeof text, 0, NULL, 0, &count), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("pre-tokenizer");
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 20.0);
    CHECK_INT(count, 0);
    pc__tokenizer_free(t);
}

int main(void)
{
    static form forms[6];
    forms[0] = json_form(json_head, json_parts, json_model);
    forms[1] = good_model();
    forms[2] = good_llama2c();
    forms[3] = gguf_form("gpt2", "llama-bpe", few, FEW, "a b");
    forms[4] = gguf_form("bert", NULL, few, FEW, NULL);
    forms[5] =
        good_tiktoken(); /* whole lines less are another good file: not among the truncated */
    for (size_t i = 0; i < 6; i++) {
        not_there(&forms[i]);
        if (i < 5)
            truncated(&forms[i]);
        no_memory(&forms[i]);
    }
    json_vocabularies();
    json_added();
    json_pipeline();
    json_neighbours();
    model_faults();
    normalisers();
    tiktoken_faults();
    llama2c_faults();
    gguf_faults();
    odd_bytes();
    vocab_faults();
    calls();
    identity();
    endless_expression();
    return pc_test_end();
}
