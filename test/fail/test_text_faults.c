/* Catches: a damaged tokenizer.json that loads, crashes, or is refused without file and cause;
 * failed allocations that leak or leave half a tokenizer; expressions that never end. */
#include <stdlib.h>
#include <time.h>

#include "text_forms.h"

/* ---------------------------------------------------------- tokenizer.json */

static const char json_head[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true},"
    "{\"id\":10,\"content\":\"<x>\",\"rstrip\":true}],";
static const char json_parts[] =
    "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\" ?[a-z]+\"},\"behavior\":\"Isolated\"},"
    "{\"type\":\"ByteLevel\",\"use_regex\":false}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
    "\"id\":\"<s>\"}},{\"Sequence\":{}}]},";
static const char json_model[] =
    "\"model\":{\"type\":\"BPE\",\"unk_token\":null,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"t\":3,"
    "\"h\":4,\"e\":5,\"th\":6,\"the\":7,\"\\u0120\":8},\"merges\":[\"a b\",\"t h\",[\"th\","
    "\"e\"]]}}";

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
        {PC_ERR_UNSUPPORTED, "\"normalizer\":{\"type\":\"NFX\"},", "'NFX'"},
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
         "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":"
         "\"Nowhere\"},",
         "'Split'"},
        {PC_ERR_UNSUPPORTED, "", "neither ByteLevel nor U+2581"},
        {PC_ERR_FORMAT,
         "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
         "\"id\":\"<nobody>\"}}]},",
         "<nobody>"},
        {PC_ERR_FORMAT, "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"post_processor\":7,",
         "post_processor"},
        {PC_ERR_FORMAT,
         "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"post_processor\":{\"type\":"
         "\"BertProcessing\"},",
         "'cls' is no token"},
        {PC_ERR_FORMAT,
         "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"post_processor\":{\"type\":"
         "\"RobertaProcessing\",\"cls\":[\"<s>\",9],\"sep\":[\"<nobody>\",3]},",
         "'sep' is no token"},
        {PC_ERR_UNSUPPORTED,
         "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"post_processor\":{\"type\":"
         "\"XProcessing\"},",
         "'XProcessing'"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        json_fault(NULL, faults[i].parts, NULL, faults[i].want, faults[i].cause);
    json_fault(NULL, NULL, "\"model\":5}", PC_ERR_FORMAT, "no model");
    json_fault(NULL, NULL, "\"version\":\"1.0\"}", PC_ERR_FORMAT, "no model");
    json_fault(NULL, NULL, "\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", PC_ERR_UNSUPPORTED,
               "'WordLevel'");
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

/* An expression that tries all divisions of a text is stopped. */
static void endless_expression(void)
{
    static const char parts[] =
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
        "\"pattern\":"
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
    CHECK_STATUS(pc__text_to_tokens(t, text, sizeof text, 0, NULL, 0, &count), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("pre-tokenizer");
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 20.0);
    CHECK_INT(count, 0);
    pc__tokenizer_free(t);
}

int main(void)
{
    static form f;
    f = json_form(json_head, json_parts, json_model);
    not_there(&f);
    truncated(&f);
    no_memory(&f);
    json_vocabularies();
    json_added();
    json_pipeline();
    json_neighbours();
    vocab_faults();
    endless_expression();
    return pc_test_end();
}
