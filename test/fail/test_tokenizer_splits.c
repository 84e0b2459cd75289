/* Catches: pre-tokenizers, expressions and templates of tokenizer.json that mean something else to
 * us than to `tokenizers` and load all the same; refusals that do not name the cause; leaks when
 * memory runs out. What is read right: test_tokenizer_families. */
#include <stdio.h>

#include "text_forms.h"

#define ADDED                                                                                   \
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true},{\"id\":1,\"content\":" \
    "\"</s>\",\"special\":true},{\"id\":2,\"content\":\"<x>\",\"special\":false}],"
#define BPE(more)                                                                            \
    "\"model\":{\"type\":\"BPE\"," more "\"vocab\":{\"<s>\":0,\"</s>\":1,\"<x>\":2,\"a\":3," \
    "\"b\":4,\"ab\":5,\"\\u0120\":6,\"1\":7,\"2\":8},\"merges\":[\"a b\"]}}"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define SPLIT(regex, more) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\"" more "}"
#define PRE(parts) "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" parts "]},"
#define METASPACE "{\"type\":\"Metaspace\",\"prepend_scheme\":\"first\",\"split\":true}"
#define SINGLE(parts) "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" parts "]},"
#define TOKEN(text) "{\"SpecialToken\":{\"id\":\"" text "\"}}"
#define TEXT "{\"Sequence\":{\"id\":\"A\"}}"

static void fault(const char *parts, const char *model, pc_status want, const char *cause)
{
    const form f = json_form(ADDED, parts, model);
    refused(&f, f.data, f.size, want, cause);
}

static void expressions(void)
{
    static const struct {
        const char *parts, *cause;
    } faults[] = {
        {PRE(SPLIT("[a&&b]", "") "," BYTES), "byte 2: this form of &&"},
        {PRE(SPLIT("[^a&&[^b]]", "") "," BYTES), "this form of &&"},
        {PRE(SPLIT("[a&&[b]]", "") "," BYTES), "only supported before [^...]"},
        {PRE(SPLIT("[a&&[^b]c]", "") "," BYTES), "at the end of a class"},
        {PRE(SPLIT("[a[^b]]", "") "," BYTES), "a negated class in a class"},
        {PRE(SPLIT("[\\\\W]", "") "," BYTES), "\\W and \\H in a class"},
        {PRE(SPLIT("a\\\\Bb", "") "," BYTES), "\\B"},
        {PRE(SPLIT("(?m:.)", "") "," BYTES), "(?m)"},
        {PRE(SPLIT("a{1,2}+", "") "," BYTES), "{n,m}+"},
        {PRE(SPLIT("[ab", "") "," BYTES), "a class is not closed"},
        {PRE(SPLIT("[]", "") "," BYTES), "an empty class"},
        {PRE(SPLIT("a\\\\", "") "," BYTES), "ends with a backslash"},
        {PRE(SPLIT("\\\\p{L", "") "," BYTES), "a property is not closed"},
        {PRE(SPLIT("\\\\p{Nowhere}", "") "," BYTES), "PCRE2 error"},
        {PRE(SPLIT("(", "") "," BYTES), "PCRE2 error"},
        {PRE(SPLIT("[[[[[[[[[[[[a]]]]]]]]]]]]", "") "," BYTES), "nested too deeply"},
        {PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Sideways\"}"),
         "'Split'"},
        {PRE("{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\"}"), "'Split'"},
        {PRE("{\"type\":\"UnicodeScripts\"}"), "'UnicodeScripts'"},
        {PRE("{\"type\":\"BertPreTokenizer\"}"), "'BertPreTokenizer'"},
        {PRE("{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"), "add_prefix_space"},
        {PRE(BYTES ",{\"type\":\"Digits\",\"individual_digits\":true}"), "after ByteLevel"},
        {PRE(SPLIT("a", "") "," METASPACE), "Metaspace after another"},
        {PRE(METASPACE "," METASPACE), "Metaspace after another"},
        {PRE(METASPACE "," BYTES), "both ByteLevel and U+2581"},
        {PRE(""), "neither ByteLevel nor U+2581"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        fault(faults[i].parts, BPE(""), PC_ERR_UNSUPPORTED, faults[i].cause);
    fault(PRE(SPLIT("a\\u0000", "") "," BYTES), BPE(""), PC_ERR_FORMAT, "contains a NUL");
    fault(PRE(SPLIT("a", "") "," SPLIT("a", "") "," SPLIT("a", "") "," SPLIT("a", "") "," SPLIT(
              "a", "") "," SPLIT("a", "") "," SPLIT("a", "") "," SPLIT("a", "") "," SPLIT("a", "")),
          BPE(""), PC_ERR_UNSUPPORTED, "more than 8 pre-tokenizers");
}

static void models(void)
{
    fault(PRE(BYTES), BPE("\"end_of_word_suffix\":\"</w>\","), PC_ERR_UNSUPPORTED,
          "end_of_word_suffix '</w>'");
    fault(PRE(BYTES), BPE("\"continuing_subword_prefix\":\"##\","), PC_ERR_UNSUPPORTED,
          "continuing_subword_prefix '##'");
    fault(PRE(BYTES), BPE("\"dropout\":0.1,"), PC_ERR_UNSUPPORTED, "dropout");
}

static void templates(void)
{
    static const struct {
        const char *parts, *cause;
        pc_status want;
    } faults[] = {
        {SINGLE(TOKEN("<y>") "," TEXT), "'<y>' is no token", PC_ERR_FORMAT},
        {SINGLE(TOKEN("<s>") "," TOKEN("<s>") "," TOKEN("<s>") "," TOKEN("<s>") "," TOKEN("<s>")),
         "more than 4 special tokens before", PC_ERR_UNSUPPORTED},
        {SINGLE(TEXT "," TOKEN("</s>") "," TOKEN("</s>")), "more than 1 special tokens after",
         PC_ERR_UNSUPPORTED},
        {"\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"Odd\"}]},", "'Odd'",
         PC_ERR_UNSUPPORTED},
    };
    char parts[2048];
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        snprintf(parts, sizeof parts, "%s%s", PRE(BYTES), faults[i].parts);
        fault(parts, BPE(""), faults[i].want, faults[i].cause);
    }
}

/* The tokens around a text, with a tokenizer_config.json beside the file. */
static void ends(const char *post, const char *config, const int32_t *want, size_t wanted)
{
    const form f = json_form(ADDED PRE(BYTES), post, BPE(""));
    char path[256];
    pc__tokenizer *t;
    int32_t got[8];
    size_t count;
    snprintf(path, sizeof path, "%s/tokenizer_config.json", pc_test_folder());
    pc_test_write(path, config, strlen(config));
    if (CHECK_OK(f.read(&t, &pc__libc_allocator, write_file(f.name, f.data, f.size)))) {
        CHECK_OK(pc__text_to_tokens(t, "ab", 2, PC_TOKENIZE_BOS, got, 8, &count));
        CHECK_INT(count, wanted);
        CHECK(count == wanted && !memcmp(got, want, count * sizeof *got));
    }
    pc__tokenizer_free(t);
    remove(path);
}

#define ENDS(post, config, ...)                                  \
    do {                                                         \
        static const int32_t want_[] = {__VA_ARGS__};            \
        ends(post, config, want_, sizeof want_ / sizeof *want_); \
    } while (0)

static void settings(void)
{
    const char *const both = SINGLE(TOKEN("<s>") "," TEXT "," TOKEN("</s>"));
    ENDS("", "{}", 5);
    ENDS(both, "{}", 0, 5, 1);
    ENDS(SINGLE(TOKEN("<x>") "," TOKEN("<s>") "," TEXT), "{}", 2, 0, 5);
    /* the template's tokens stay where the configuration has others */
    ENDS(both, "{\"bos_token\":\"<x>\",\"eos_token\":\"<x>\"}", 0, 5, 1);
    /* only some classes make their own template */
    ENDS(
        "",
        "{\"bos_token\":\"<s>\",\"add_bos_token\":true,\"tokenizer_class\":\"LlamaTokenizerFast\"}",
        0, 5);
    ENDS(both,
         "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_bos_token\":false,"
         "\"add_eos_token\":false,\"tokenizer_class\":\"GemmaTokenizer\"}",
         5);
    ENDS("",
         "{\"bos_token\":\"<s>\",\"add_bos_token\":true,"
         "\"tokenizer_class\":\"PreTrainedTokenizerFast\"}",
         5);
}

int main(void)
{
    static form good;
    expressions();
    models();
    templates();
    settings();
    good = json_form(
        ADDED,
        PRE("{\"type\":\"Split\",\"pattern\":{\"String\":\".\"},\"behavior\":"
            "\"MergedWithNext\"}," SPLIT("[a-c&&[^\\\\s]]+\\\\b", ",\"invert\":true") "," BYTES)
            SINGLE(TOKEN("<x>") "," TOKEN("<s>") "," TEXT "," TOKEN("</s>")),
        BPE(""));
    no_memory(&good);
    good = json_form(ADDED, PRE(METASPACE), BPE(""));
    no_memory(&good);
    return pc_test_end();
}
