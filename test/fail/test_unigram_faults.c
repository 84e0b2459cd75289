/* Catches: a damaged tokenizer.json of a Unigram model that loads, crashes, or is refused without
 * file and cause; failed allocations that leak; normalisers that make a text grow without limit;
 * equal digests of different models. */
#include <stdlib.h>

#include "text_forms.h"

static const char head[] = "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true},{"
                           "\"id\":9,\"content\":\"<x>\",\"rstrip\":true}],";
#define MAP "DAAAAAAAAQBBDQAAAAAAgGEA" /* "A" becomes "a" */
static const char parts[] =
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\",\"strip_left\":"
    "true,\"strip_right\":false},{\"type\":\"NFKC\"},"
    "{\"type\":\"Lowercase\"},{\"type\":\"StripAccents\"},{\"type\":\"Nmt\"},{\"type\":"
    "\"Precompiled\",\"precompiled_charsmap\":\"" MAP "\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"``\"},\"content\":\"b\"},{\"type\":"
    "\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"},"
    "{\"type\":\"Prepend\",\"prepend\":\"a\"}]},\"pre_tokenizer\":{\"type\":\"Sequence\","
    "\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},"
    "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"always\",\"split\":"
    "true}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<"
    "s>\"}},{\"Sequence\":{}}]},";
static const char model[] =
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":[[\"<unk>\",0],["
    "\"<s>\",0.0],[\"\\u2581\",-1.5],"
    "[\"a\",-2.25],[\"ab\",-3],[\"\\u2581the\",-3.1],[\"<0x31>\",-9],[\"t\",-4],[\"h\",-5]]}}";

static void fault(const char *p, const char *m, pc_status want, const char *cause)
{
    const form f = json_form(head, p ? p : parts, m ? m : model);
    refused(&f, f.data, f.size, want, cause);
}

static void models(void)
{
    static const struct {
        const char *rest, *cause;
    } faults[] = {
        {"\"vocab\":{\"a\":0}}}", "model.vocab is not a list"},
        {"\"vocab\":[\"a\"]}}", "entry 0 is no piece with a score"},
        {"\"vocab\":[[\"a\",-1],[\"<s>\",0],[\"b\"]]}}", "entry 2"},
        {"\"vocab\":[[\"a\",-1],[\"<s>\",0],[\"b\",\"-1\"]]}}", "entry 2"},
        {"\"vocab\":[[\"a\",-1],[\"<s>\",0],[5,-1]]}}", "entry 2"},
        {"\"vocab\":[[\"a\",-1],[\"<s>\",0],[\"b\",-1,0]]}}", "entry 2"},
        {"\"vocab\":[[\"a\",-1],[\"b\",0]]}}", "given to 'b' and to '<s>'"},
        {"\"unk_id\":2,\"vocab\":[[\"a\",-1],[\"<s>\",0]]}}", "unk_id"},
        {"\"unk_id\":-1,\"vocab\":[[\"a\",-1],[\"<s>\",0]]}}", "unk_id"},
        {"\"unk_id\":\"a\",\"vocab\":[[\"a\",-1],[\"<s>\",0]]}}", "unk_id"},
        {"\"vocab\":[[\"a\",-1e999],[\"<s>\",0]]}}", "real number overflow"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char text[256];
        snprintf(text, sizeof text, "\"model\":{\"type\":\"Unigram\",%s", faults[i].rest);
        fault(NULL, text, PC_ERR_FORMAT, faults[i].cause);
    }
}

#define NORMAL(text) "\"normalizer\":" text ","
#define PRE(text) "\"pre_tokenizer\":" text ","

static void pipelines(void)
{
    static const struct {
        pc_status want;
        const char *parts, *cause;
    } faults[] = {
        {PC_ERR_FORMAT, NORMAL("\"NFC\""), "normalizer is not an object"},
        {PC_ERR_UNSUPPORTED, NORMAL("{\"type\":\"ByteLevel\"}"), "'ByteLevel'"},
        {PC_ERR_UNSUPPORTED, NORMAL("{}"), "type ''"},
        {PC_ERR_FORMAT, NORMAL("{\"type\":\"Sequence\",\"normalizers\":{}}"),
         "normalizers of a sequence"},
        {PC_ERR_FORMAT, NORMAL("{\"type\":\"Sequence\",\"normalizers\":[1]}"),
         "normalizer is not an object"},
        {PC_ERR_UNSUPPORTED,
         NORMAL("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"a\"}"),
         "'Replace'"},
        {PC_ERR_UNSUPPORTED, NORMAL("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}"),
         "'Replace'"},
        {PC_ERR_UNSUPPORTED,
         NORMAL("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a\"},\"content\":\"a\"}"),
         "expression, character 2"},
        {PC_ERR_FORMAT,
         NORMAL("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\\u0000b\"},\"content\":\"a\"}"),
         "NUL"},
        {PC_ERR_UNSUPPORTED, NORMAL("{\"type\":\"Prepend\"}"), "'Prepend'"},
        {PC_ERR_UNSUPPORTED, NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":5}"),
         "'Precompiled'"},
        {PC_ERR_FORMAT, NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"????\"}"),
         "base64"},
        {PC_ERR_FORMAT, NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}"),
         "precompiled_charsmap has 3 bytes"},
        {PC_ERR_FORMAT, NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////2EA\"}"),
         "its trie claims 4294967295"},
        {PC_ERR_UNSUPPORTED, PRE("{\"type\":\"ByteLevel\"}"), "'ByteLevel'"},
        {PC_ERR_UNSUPPORTED, PRE("{\"type\":\"Metaspace\",\"replacement\":\"_\"}"), "'Metaspace'"},
        {PC_ERR_UNSUPPORTED, PRE("{\"type\":\"Metaspace\",\"prepend_scheme\":\"last\"}"),
         "'Metaspace'"},
        {PC_ERR_UNSUPPORTED,
         PRE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Metaspace\"},{\"type\":"
             "\"WhitespaceSplit\"}]}"),
         "'WhitespaceSplit'"},
        {PC_ERR_FORMAT, PRE("[]"), "pre_tokenizer is not an object"},
        {PC_ERR_FORMAT,
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
         "\"id\":\"<nobody>\"}}]},",
         "<nobody>"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        fault(faults[i].parts, NULL, faults[i].want, faults[i].cause);
}

/* Each step makes ten letters of one. */
static void growth(void)
{
    static const char step[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaa\"}";
    char all[2048] = "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[";
    pc__tokenizer *t = NULL;
    size_t count = 9;
    for (int i = 0; i < 12; i++) {
        strcat(all, i ? "," : "");
        strcat(all, step);
    }
    strcat(all, "]},");
    const form f = json_form(head, all, model);
    if (!CHECK_OK(f.read(&t, &pc__libc_allocator, write_file(f.name, f.data, f.size))))
        return;
    CHECK_STATUS(pc__text_to_tokens(t, "aaaa", 4, 0, NULL, 0, &count), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("has grown");
    CHECK_INT(count, 0);
    pc__tokenizer_free(t);
}

static pc__id digest_of(const char *p, const char *m)
{
    const form f = json_form(head, p, m);
    pc__tokenizer *t = NULL;
    pc__id id = {{0}};
    if (CHECK_OK(f.read(&t, &pc__libc_allocator, write_file(f.name, f.data, f.size))))
        id = pc__tokenizer_digest(t);
    pc__tokenizer_free(t);
    return id;
}

static void identity(void)
{
    /* the last two: scores that differ by less than fp32 tells */
    static const char *const forms[][2] = {
        {parts, model},
        {"", model},
        {NORMAL("{\"type\":\"NFC\"}"), model},
        {NORMAL("{\"type\":\"NFD\"}"), model},
        {NORMAL("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"b\"}"), model},
        {NORMAL("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"c\"}"), model},
        {PRE("{\"type\":\"Metaspace\"}"), model},
        {PRE("{\"type\":\"Metaspace\",\"split\":false}"), model},
        {PRE("{\"type\":\"Metaspace\",\"prepend_scheme\":\"first\"}"), model},
        {PRE("{\"type\":\"WhitespaceSplit\"}"), model},
        {"", "\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1],[\"<s>\",0]]}}"},
        {"",
         "\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1.000000000000001],[\"<s>\",0]]}}"}};
    enum { COUNT = sizeof forms / sizeof *forms };
    pc__id ids[COUNT], again = digest_of(parts, model);
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = digest_of(forms[i][0], forms[i][1]);
    CHECK(pc__id_equal(&ids[0], &again));
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(!pc__id_equal(&ids[i], &ids[j]));
}

int main(void)
{
    static form f;
    f = json_form(head, parts, model);
    not_there(&f);
    truncated(&f);
    no_memory(&f);
    models();
    pipelines();
    growth();
    identity();
    return pc_test_end();
}
