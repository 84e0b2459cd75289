/* Catches: a WordPiece tokenizer.json that is not cleaned, split or completed by BERT's rules;
 * forms of BOS and EOS that are confused; a folder whose chat template is not found. */
#include <stdio.h>
#include <string.h>

#include "testing.h"
#include "text/tokenizer.h"

#define HEAD                                                                                      \
    "{\"added_tokens\":[{\"id\":0,\"content\":\"[PAD]\",\"special\":true},{\"id\":1,\"content\":" \
    "\"[UNK]\",\"special\":true},"                                                                \
    "{\"id\":2,\"content\":\"[CLS]\",\"special\":true},{\"id\":3,\"content\":\"[SEP]\","          \
    "\"special\":true}],"
#define MODEL                                                                                     \
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\",\"unk_"  \
    "token\":\"[UNK]\","                                                                          \
    "\"continuing_subword_prefix\":\"##\",\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]" \
    "\":3,\"cafe\":4,\"##s\":5,\"play\":6,"                                                       \
    "\"##ing\":7,\",\":8,\"\\u5317\":9,\"Caf\\u00e9\":10,\"a\":11}}}"
#define NORMALIZER(lower)                                                                       \
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":" \
    "true,\"strip_accents\":null,\"lowercase\":" lower "},"
#define TEMPLATE                                                                                 \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":" \
    "\"[CLS]\"}},{\"Sequence\":{\"id\":\"A\"}},"                                                 \
    "{\"SpecialToken\":{\"id\":\"[SEP]\"}}]},"
#define ENDS(type) \
    "\"post_processor\":{\"type\":\"" type "\",\"sep\":[\"[SEP]\",3],\"cls\":[\"[CLS]\",2]},"

static pc_context *context;

static void check(const char *json, const char *text, uint64_t flags, const int32_t *want,
                  size_t wanted)
{
    char path[4096];
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc__tokenizer *t = NULL;
    int32_t got[32];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/tokenizer.json", pc_test_folder());
    pc_test_write(path, json, strlen(json));
    if (CHECK_OK(pc__tokenizer_from_json(&t, &mem, path))
        && CHECK_OK(pc__text_to_tokens(t, text, strlen(text), flags, got, 32, &count))) {
        CHECK_INT(count, wanted);
        CHECK(count == wanted && !memcmp(got, want, count * sizeof *got));
    }
    pc__tokenizer_free(t);
    CHECK_INT(memory.live_blocks, 0);
}

#define CASE(json, text, flags, ...)                                   \
    do {                                                               \
        static const int32_t want_[] = {__VA_ARGS__};                  \
        check(json, text, flags, want_, sizeof want_ / sizeof *want_); \
    } while (0)

static const char *in_folder(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", pc_test_folder(), name);
    return path;
}

/* The chat template of the folder as it is now; NULL: none. */
static void template_is(const char *want)
{
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc__tokenizer *t = NULL;
    if (CHECK_OK(pc__tokenizer_from_folder(&t, &mem, pc_test_folder()))) {
        const char *got = pc__tokenizer_chat_template(t);
        CHECK(!want == !got);
        if (want && got)
            CHECK_STR(got, want);
    }
    pc__tokenizer_free(t);
    CHECK_INT(memory.live_blocks, 0);
}

static void write_template(const char *name, const char *text)
{
    remove(in_folder(name));
    if (text)
        pc_test_write(in_folder(name), text, strlen(text));
}

/* Where folders keep their chat template: a file comes first, of several named ones the default
 * counts. */
static void templates(void)
{
    static const char json[] = HEAD NORMALIZER("true") MODEL;
    pc__tokenizer *t = NULL;
    write_template("tokenizer.json", json);
    template_is(NULL);
    write_template("chat_template.json", "{\"chat_template\": \"of its own\"}");
    template_is("of its own");
    write_template("tokenizer_config.json",
                   "{\"model_max_length\": 1000000000000000019884624838656}");
    template_is("of its own");
    write_template("tokenizer_config.json",
                   "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"}, "
                   "{\"name\": \"default\", \"template\": \"plain\"}]}");
    template_is("plain");
    write_template("tokenizer_config.json",
                   "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"}]}");
    template_is("of its own");
    write_template("tokenizer_config.json", "{\"chat_template\": \"{{ 'text' }}\"}");
    template_is("{{ 'text' }}");
    write_template("chat_template.jinja", "{{ 'file' }}\n");
    template_is("{{ 'file' }}\n");
    write_template("chat_template.jinja", NULL);
    write_template("tokenizer_config.json", NULL);
    write_template("chat_template.json", "{");
    CHECK_STATUS(pc__tokenizer_from_folder(&t, &pc__libc_allocator, pc_test_folder()),
                 PC_ERR_FORMAT);
    CHECK_ERROR_HAS("chat_template.json:1:1");
    CHECK(!t);
}

int main(void)
{
    templates();
    if (!CHECK_OK(pc_context_new(&context, NULL)))
        return pc_test_end();
    CASE(HEAD NORMALIZER("true") TEMPLATE MODEL, "Caf\xc3\xa9s, playing", PC_TOKENIZE_BOS, 2, 4, 5,
         8, 6, 7, 3);
    CASE(HEAD NORMALIZER("true") TEMPLATE MODEL, "Caf\xc3\xa9s, playing", 0, 4, 5, 8, 6, 7);
    CASE(HEAD NORMALIZER("true") TEMPLATE MODEL,
         "a\xe5\x8c\x97"
         "a\tplays zebra",
         PC_TOKENIZE_BOS, 2, 11, 9, 11, 6, 5, 1, 3);
    CASE(HEAD NORMALIZER("true") TEMPLATE MODEL, "", PC_TOKENIZE_BOS, 2, 3);
    CASE(HEAD NORMALIZER("false") ENDS("BertProcessing") MODEL, "Caf\xc3\xa9 a", PC_TOKENIZE_BOS, 2,
         10, 11, 3);
    CASE(HEAD NORMALIZER("true") ENDS("RobertaProcessing") MODEL, "a", PC_TOKENIZE_BOS, 2, 11, 3);
    CASE(HEAD NORMALIZER("true") MODEL, "a", PC_TOKENIZE_BOS, 11);
    pc_context_free(context);
    return pc_test_end();
}
