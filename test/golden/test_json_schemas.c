/* Answers by the plug-in module xgrammar: ten JSON schemas, JSON, expressions and rules, with a
 * small model that has never seen any of it, drawn hot. Every answer that has ended is read by
 * jansson and compared with the schema by a checker of our own. Catches: tokens whose bytes
 * XGrammar gets otherwise than they are in the text; a mask that lets something else come; an end
 * that comes too early or never; a matcher that a fork, a truncation or pushed tokens leave
 * elsewhere than the text; a grammar that sequences on several threads disturb; hostile texts that
 * crash, hang or pass; an error without its cause; leaks when an allocation fails. */
#include <promptcache.h>
#include <promptcache/admin.h>
#include <promptcache/batch.h>
#include <promptcache/grammar.h>
#include <promptcache/prompt.h>
#include <promptcache/sampling.h>
#include <jansson.h>
#include <pthread.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

enum { SEEDS = 8, MOST_TOKENS = 300, MOST_TEXT = 4096 };

static pc_context *context;
static pc_model *model;
static pc_prompt *prompt;

/* ------------------------------------------------------------------ a checker of schemas */

static int matches(const json_t *root, const json_t *schema, const json_t *value);

static int is_type(const char *type, const json_t *v)
{
    return (!strcmp(type, "object") && json_is_object(v))
           || (!strcmp(type, "array") && json_is_array(v))
           || (!strcmp(type, "string") && json_is_string(v))
           || (!strcmp(type, "integer") && json_is_integer(v))
           || (!strcmp(type, "number") && json_is_number(v))
           || (!strcmp(type, "boolean") && json_is_boolean(v))
           || (!strcmp(type, "null") && json_is_null(v));
}

static int within(const json_t *schema, const char *least, const char *most, double n)
{
    const json_t *low = json_object_get(schema, least), *high = json_object_get(schema, most);
    return (!low || n >= json_number_value(low)) && (!high || n <= json_number_value(high));
}

static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static int object_matches(const json_t *root, const json_t *schema, const json_t *v)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *more = json_object_get(schema, "additionalProperties");
    json_t *required = json_object_get(schema, "required"), *each;
    const char *key;
    size_t i;
    json_array_foreach(required, i,
                       each) if (!json_object_get(v, json_string_value(each))) return 0;
    json_object_foreach((json_t *)(uintptr_t)v, key, each)
    {
        const json_t *of = json_object_get(properties, key);
        if (!of && !json_is_object(more)) /* strict: what is not named is not there */
            return 0;
        if (!matches(root, of ? of : more, each))
            return 0;
    }
    return 1;
}

static int array_matches(const json_t *root, const json_t *schema, const json_t *v)
{
    const json_t *items = json_object_get(schema, "items");
    json_t *each;
    size_t i;
    json_array_foreach(v, i, each) if (items && !matches(root, items, each)) return 0;
    return within(schema, "minItems", "maxItems", (double)json_array_size(v));
}

static int matches(const json_t *root, const json_t *schema, const json_t *v)
{
    const json_t *ref = json_object_get(schema, "$ref"), *type = json_object_get(schema, "type");
    json_t *list = json_object_get(schema, "anyOf"), *each;
    size_t i;
    int any = !list;
    if (ref)
        return matches(root,
                       json_object_get(json_object_get(root, "$defs"),
                                       json_string_value(ref) + strlen("#/$defs/")),
                       v);
    json_array_foreach(list, i, each) any |= matches(root, each, v);
    list = json_object_get(schema, "enum");
    if (list) {
        int found = 0;
        json_array_foreach(list, i, each) found |= json_equal(each, v);
        any &= found;
    }
    if (json_object_get(schema, "const"))
        any &= json_equal(json_object_get(schema, "const"), v);
    if (type && !is_type(json_string_value(type), v))
        return 0;
    if (json_is_number(v))
        any &= within(schema, "minimum", "maximum", json_number_value(v));
    if (json_is_string(v))
        any &= within(schema, "minLength", "maxLength", (double)characters(json_string_value(v)));
    if (json_is_object(v) && type)
        any &= object_matches(root, schema, v);
    return any && (!json_is_array(v) || array_matches(root, schema, v));
}

/* ------------------------------------------------------------------ answers */

typedef struct answer {
    char text[MOST_TEXT];
    size_t size;
    uint32_t finish;
} answer;

static int32_t collect(void *user, uint32_t sample, const char *text, size_t size)
{
    answer *a = user;
    (void)sample;
    if (a->size + size >= sizeof a->text)
        return 1;
    memcpy(a->text + a->size, text, size);
    a->text[a->size += size] = 0;
    return 0;
}

static pc_grammar *grammar_of(uint32_t kind, const char *text)
{
    pc_grammar_options o = PC_GRAMMAR_OPTIONS_INIT;
    pc_grammar *g = NULL;
    o.kind = kind;
    o.text = text;
    o.text_size = strlen(text);
    if (!CHECK_OK(pc_grammar_new(&g, model, &o)))
        fprintf(stderr, "    %s\n", text);
    return g;
}

static answer ask(const pc_grammar *grammar, uint64_t seed)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    pc_stats stats = PC_STATS_INIT;
    answer a = {.size = 0};
    sampling.temperature = seed % 3 ? 1.5f : 30; /* as good as random */
    sampling.seed = seed;
    sampling.repetition_penalty = seed % 2 ? 1.2f : 0;
    o.sampling = &sampling;
    o.grammar = grammar;
    o.max_tokens = grammar ? MOST_TOKENS : 40;
    o.on_text = collect;
    o.on_text_user = &a;
    CHECK_OK(pc_generate(prompt, NULL, &o, &stats));
    a.finish = stats.finish;
    return a;
}

static int is_whole(const answer *a)
{
    return a->finish == PC_FINISH_GRAMMAR || a->finish == PC_FINISH_STOP_TOKEN;
}

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},"
    "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":130}},\"required\":[\"name\",\"age\"]"
    "}",
    "{\"enum\":[\"red\",\"green\",7,null,[1,2],{\"a\":true}]}",
    "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":-50,\"maximum\":50},"
    "\"minItems\":2,\"maxItems\":6}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"},\"b\":{\"type\":\"null\"},"
    "\"c\":{\"const\":\"x\"}},\"required\":[\"b\"]}",
    "{\"anyOf\":[{\"type\":\"integer\",\"minimum\":100,\"maximum\":999},"
    "{\"type\":\"string\",\"minLength\":2,\"maxLength\":5}]}",
    "{\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"boolean\"},"
    "\"left\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/tree\"}]}},"
    "\"required\":[\"v\",\"left\"]}},\"$ref\":\"#/$defs/tree\"}",
    "{\"type\":\"object\",\"properties\":{\"list\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":"
    "3,"
    "\"items\":{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\",\"minimum\":1,"
    "\"maximum\":9},\"tag\":{\"enum\":[\"p\",\"q\"]}},\"required\":[\"id\",\"tag\"]}}},"
    "\"required\":[\"list\"]}",
    "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"boolean\"}}",
    "{\"type\":\"number\",\"minimum\":0.5,\"maximum\":2.5}",
    "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"enum\":[0,1]},\"minItems\":2,"
    "\"maxItems\":2},\"minItems\":2,\"maxItems\":2}"};
enum { SCHEMAS = sizeof schemas / sizeof *schemas };

static void by_schema(void)
{
    int whole = 0, plain = 0;
    for (size_t i = 0; i < SCHEMAS; i++) {
        json_t *schema = json_loads(schemas[i], 0, NULL);
        pc_grammar *g = grammar_of(PC_GRAMMAR_SCHEMA, schemas[i]);
        for (uint64_t seed = 0; seed < SEEDS && g; seed++) {
            answer a = ask(g, seed), without = ask(NULL, seed);
            json_t *value = json_loads(a.text, JSON_DECODE_ANY, NULL);
            json_t *other = json_loads(without.text, JSON_DECODE_ANY, NULL);
            plain += other && matches(schema, schema, other);
            CHECK(a.finish != PC_FINISH_CALLBACK);
            if (is_whole(&a)) {
                whole++;
                if (!CHECK(value && matches(schema, schema, value)))
                    fprintf(stderr, "    %s\n    %s\n", schemas[i], a.text);
            }
            json_decref(value);
            json_decref(other);
        }
        pc_grammar_free(g);
        json_decref(schema);
    }
    printf("%d of %d answers are whole; without a grammar %d match\n", whole, SCHEMAS * SEEDS,
           plain);
    CHECK(whole > SCHEMAS * SEEDS * 3 / 4 && plain < SCHEMAS * SEEDS / 20);
}

static void by_text(void)
{
    static const struct {
        uint32_t kind;
        const char *text, *expression; /* of POSIX */
    } cases[] = {
        {PC_GRAMMAR_REGEX, "(yes|no)( please){0,3}!", "^(yes|no)( please){0,3}!$"},
        {PC_GRAMMAR_REGEX, "[a-z]{3}-[0-9]{2,4}", "^[a-z]{3}-[0-9]{2,4}$"},
        {PC_GRAMMAR_REGEX, "(\xc3\xa9|\xe2\x82\xac){2}", "^(\xc3\xa9|\xe2\x82\xac){2}$"},
        {PC_GRAMMAR_EBNF, "root ::= term ([-+*] term)*\nterm ::= [0-9] [0-9]? | \"(\" root \")\"\n",
         "^[-+*0-9()]+$"},
        {PC_GRAMMAR_EBNF, "root ::= \"\"", "^$"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pc_grammar *g = grammar_of(cases[i].kind, cases[i].text);
        regex_t regex;
        int whole = 0;
        CHECK(!regcomp(&regex, cases[i].expression, REG_EXTENDED | REG_NOSUB));
        for (uint64_t seed = 0; seed < SEEDS && g; seed++) {
            answer a = ask(g, seed);
            whole += is_whole(&a);
            if (is_whole(&a) && !CHECK(!regexec(&regex, a.text, 0, NULL, 0)))
                fprintf(stderr, "    %s: %s\n", cases[i].text, a.text);
        }
        CHECK(whole > SEEDS / 2);
        regfree(&regex);
        pc_grammar_free(g);
    }
    /* JSON of any kind */
    pc_grammar_options o = PC_GRAMMAR_OPTIONS_INIT;
    pc_grammar *g = NULL;
    int whole = 0;
    o.kind = PC_GRAMMAR_JSON;
    CHECK_OK(pc_grammar_new(&g, model, &o));
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        answer a = ask(g, seed);
        json_error_t error;
        json_t *value = json_loads(a.text, JSON_DECODE_ANY, &error);
        int large = !value && json_error_code(&error) == json_error_numeric_overflow;
        whole += is_whole(&a);
        if (is_whole(&a) && !CHECK(value || large))
            fprintf(stderr, "    %s\n", a.text);
        json_decref(value);
    }
    CHECK(whole > 0);
    pc_grammar_free(g);
}

/* The answer is one line. */
static void flags(void)
{
    pc_grammar_options o = PC_GRAMMAR_OPTIONS_INIT;
    pc_grammar *g = NULL;
    o.text = "{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"minItems\":3,\"maxItems\":3}";
    o.text_size = strlen(o.text);
    o.flags = PC_GRAMMAR_ONE_LINE;
    CHECK_OK(pc_grammar_new(&g, model, &o));
    for (uint64_t seed = 0; seed < SEEDS && g; seed++) {
        answer a = ask(g, seed);
        CHECK(a.size == 9 && a.text[0] == '[' && !strncmp(a.text + 2, ", ", 2));
    }
    pc_grammar_free(g);
    o.text = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}";
    o.text_size = strlen(o.text);
    o.flags = PC_GRAMMAR_OPEN;
    CHECK_OK(pc_grammar_new(&g, model, &o));
    pc_grammar_free(g);
}

/* ------------------------------------------------------------------ sequences */

static void step_to_end(pc_sequence *s)
{
    pc_batch *batch = NULL;
    CHECK_OK(pc_batch_new(&batch, model, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    while (pc_batch_step(batch) == PC_OK)
        ;
    pc_batch_free(batch);
    CHECK_OK(pc_sequence_error(s, NULL));
}

/* All tokens of the answer, as text. */
static int is_answer(const pc_sequence *s, const regex_t *regex)
{
    char text[MOST_TEXT] = "";
    size_t count, size;
    const int32_t *tokens = pc_sequence_tokens(s, &count);
    CHECK_OK(pc_detokenize(model, tokens, count, 0, text, sizeof text - 1, &size));
    text[size] = 0;
    int fits = !regexec(regex, text, 0, NULL, 0);
    if (!fits)
        fprintf(stderr, "    %s\n", text);
    return fits;
}

static void taken_back(void)
{
    static const char form[] = "[a-z]{20}(:[0-9]{10})?";
    pc_grammar *g = grammar_of(PC_GRAMMAR_REGEX, form);
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    regex_t regex;
    int32_t begin[16];
    size_t count, n;
    CHECK(!regcomp(&regex, "^[a-z]{20}(:[0-9]{10})?$", REG_EXTENDED | REG_NOSUB));
    o.grammar = g;
    o.sampling = &sampling;
    o.flags = PC_GENERATE_KEEP;
    CHECK_OK(pc_tokenize(model, "abc", 3, 0, begin, 16, &n));
    for (uint64_t seed = 0; seed < SEEDS && g; seed++) {
        pc_sequence *s = NULL, *copy = NULL;
        sampling.temperature = 3;
        sampling.seed = seed;
        CHECK_OK(pc_sequence_new(&s, prompt, NULL, &o));
        step_to_end(s);
        CHECK(is_answer(s, &regex));
        CHECK_OK(pc_sequence_fork(&copy, s, NULL));
        pc_sequence_tokens(s, &count);
        CHECK_OK(pc_sequence_truncate(s, count * (size_t)seed / SEEDS));
        step_to_end(s);
        CHECK(is_answer(s, &regex));
        CHECK_OK(pc_sequence_truncate(copy, 2));
        CHECK_STATUS(pc_sequence_push(copy, (int32_t[]){begin[0], 1000000}, 2), PC_ERR_INVALID);
        step_to_end(copy);
        CHECK(is_answer(copy, &regex));
        pc_sequence_free(s);
        pc_sequence_free(copy);
    }
    regfree(&regex);
    pc_grammar_free(g);
}

static void *on_thread(void *grammar)
{
    intptr_t wrong = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        answer a = ask(grammar, seed);
        json_t *value = json_loads(a.text, JSON_DECODE_ANY, NULL);
        wrong += is_whole(&a) && !value;
        json_decref(value);
    }
    return (void *)wrong;
}

/* One grammar, several threads; others are compiled meanwhile. */
static void threads(void)
{
    pthread_t id[3];
    pc_grammar *g = grammar_of(PC_GRAMMAR_SCHEMA, schemas[0]);
    for (size_t i = 0; i < 3; i++)
        CHECK(!pthread_create(&id[i], NULL, on_thread, g));
    for (size_t i = 0; i < SCHEMAS; i++)
        pc_grammar_free(grammar_of(PC_GRAMMAR_SCHEMA, schemas[i]));
    for (size_t i = 0; i < 3; i++) {
        void *wrong;
        CHECK(!pthread_join(id[i], &wrong) && !wrong);
    }
    pc_grammar_free(g);
}

/* ------------------------------------------------------------------ what is refused */

/* `times` times a text between two others. */
static char *repeated(const char *before, const char *text, int times, const char *after)
{
    size_t n = strlen(text), at = strlen(before);
    char *out = calloc(1, at + n * (size_t)times + strlen(after) + 1);
    memcpy(out, before, at);
    for (int i = 0; i < times; i++, at += n)
        memcpy(out + at, text, n);
    memcpy(out + at, after, strlen(after));
    return out;
}

static void refuse(uint32_t kind, const char *text, pc_status want, const char *cause)
{
    pc_grammar_options o = PC_GRAMMAR_OPTIONS_INIT;
    pc_grammar *g = (pc_grammar *)(void *)&o;
    o.kind = kind;
    o.text = text;
    o.text_size = strlen(text);
    if (!CHECK_STATUS(pc_grammar_new(&g, model, &o), want) || !CHECK(!g))
        fprintf(stderr, "    %.100s\n", text);
    CHECK_ERROR_HAS("pc_grammar_new: ");
    CHECK_ERROR_HAS(cause);
}

static void refused(void)
{
    enum { SCHEMA = PC_GRAMMAR_SCHEMA, EBNF = PC_GRAMMAR_EBNF, REGEX = PC_GRAMMAR_REGEX };
    refuse(SCHEMA, "", PC_ERR_INVALID, "the text is empty");
    refuse(SCHEMA, "{\"type\":", PC_ERR_FORMAT, "schema:1:8: ");
    refuse(SCHEMA, "3", PC_ERR_FORMAT, "neither an object nor");
    refuse(SCHEMA, "false", PC_ERR_FORMAT, "cannot accept any value");
    refuse(SCHEMA, "{\"type\":\"nothing\"}", PC_ERR_FORMAT, "Unsupported type \"nothing\"");
    refuse(SCHEMA, "{\"type\":5}", PC_ERR_FORMAT, "Type should be");
    refuse(SCHEMA, "{\"$ref\":\"#/$defs/none\"}", PC_ERR_FORMAT, "Cannot find field $defs");
    refuse(SCHEMA, "{\"$ref\":\"#\"}", PC_ERR_INVALID, "no answer matches");
    refuse(SCHEMA,
           "{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/a\"}},"
           "\"$ref\":\"#/$defs/a\"}",
           PC_ERR_INVALID, "no answer matches");
    refuse(SCHEMA, "{\"type\":\"array\",\"minItems\":5,\"maxItems\":2}", PC_ERR_FORMAT, "minItems");
    refuse(SCHEMA, "{\"type\":\"array\",\"maxItems\":1000000000}", PC_ERR_LIMIT, "maxItems");
    refuse(SCHEMA, "{\"type\":\"string\",\"pattern\":\"a{1000000}\"}", PC_ERR_LIMIT, "pattern");
    refuse(SCHEMA, "{\"type\":\"string\",\"pattern\":\"(((\"}", PC_ERR_FORMAT, "parenthesis");
    refuse(EBNF, "a ::= \"b\"", PC_ERR_FORMAT, "\"root\" is not found");
    refuse(EBNF, "root ::= b", PC_ERR_FORMAT, "\"b\" is not defined");
    refuse(EBNF, "root ::= root", PC_ERR_INVALID, "no answer matches");
    refuse(REGEX, "[a", PC_ERR_FORMAT, "Unclosed");
    refuse(REGEX, "(?=a)b", PC_ERR_FORMAT, "Lookahead");
    refuse(REGEX, "\xff", PC_ERR_FORMAT, "byte 0 of the text is not UTF-8");
    struct {
        uint32_t kind;
        char *text;
        pc_status want;
        const char *cause;
    } large[] = {
        {SCHEMA, repeated("", "{\"type\":\"array\",\"items\":", 200, ""), PC_ERR_FORMAT, "schema:"},
        {REGEX, repeated("", "(", 20000, "a"), PC_ERR_LIMIT, "nested deeper than 100"},
        {EBNF, repeated("root ::= ", "(", 20000, "\"a\""), PC_ERR_LIMIT, "nested deeper than 100"},
        {REGEX, repeated("", "a?", 5000, ""), PC_ERR_LIMIT, "optional parts"},
        {REGEX, repeated("", "a*", 5000, ""), PC_ERR_LIMIT, "optional parts"},
        {REGEX, repeated("", "(a|)", 5000, ""), PC_ERR_LIMIT, "optional parts"},
        {REGEX, repeated("", "(|a)", 5000, ""), PC_ERR_LIMIT, "optional parts"},
        {EBNF, repeated("root ::= ", "(\"a\" | \"\") ", 5000, ""), PC_ERR_LIMIT, "optional parts"},
        {EBNF, repeated("# [\\\nroot ::= ", "\"a\"? ", 5000, ""), PC_ERR_LIMIT, "optional parts"},
        {EBNF, repeated("# don\"t\nroot ::= ", "(", 20000, "\"a\""), PC_ERR_LIMIT,
         "nested deeper than 100"},
        {REGEX, repeated("", "a", 70000, ""), PC_ERR_LIMIT, "at most 65536"},
        {EBNF, repeated("root ::= \"", "a", 300000, "\""), PC_ERR_LIMIT, "at most 262144"}};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        refuse(large[i].kind, large[i].text, large[i].want, large[i].cause);
        free(large[i].text);
    }
    char *deep = repeated("", "{\"type\":\"array\",\"items\":", 120, "{}"),
         *closed = repeated(deep, "}", 120, "");
    refuse(SCHEMA, closed, PC_ERR_LIMIT, "nested deeper than 100");
    free(deep);
    free(closed);
    pc_grammar_options o = PC_GRAMMAR_OPTIONS_INIT;
    pc_grammar *g = NULL;
    o.kind = PC_GRAMMAR_JSON;
    o.text = "{}";
    o.text_size = 2;
    CHECK_STATUS(pc_grammar_new(&g, model, &o), PC_ERR_INVALID);
    o = (pc_grammar_options)PC_GRAMMAR_OPTIONS_INIT;
    o.kind = 9;
    CHECK_STATUS(pc_grammar_new(&g, model, &o), PC_ERR_INVALID);
    CHECK_STATUS(pc_grammar_new(NULL, model, &o), PC_ERR_INVALID);
    CHECK_STATUS(pc_grammar_new(&g, NULL, &o), PC_ERR_INVALID);
}

/* Of the library's own allocations each fails once. */
static void faults(const char *path)
{
    pc_test_memory memory = {0};
    pc_allocator allocator = pc_test_allocator(&memory);
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_model_options plain = PC_MODEL_OPTIONS_INIT;
    pc_context *limited = NULL;
    pc_model *vocabulary = NULL;
    pc_grammar_options form = PC_GRAMMAR_OPTIONS_INIT;
    pc_status status = PC_ERR_NOMEM;
    o.allocator = &allocator;
    o.threads = 1;
    plain.flags = PC_MODEL_VOCAB_ONLY;
    form.text = schemas[0];
    form.text_size = strlen(schemas[0]);
    CHECK_OK(pc_context_new(&limited, &o));
    CHECK_OK(pc_model_load(&vocabulary, limited, path, &plain));
    for (uint64_t at = 1; status == PC_ERR_NOMEM && at < 50; at++) {
        int64_t live = memory.live_blocks;
        pc_grammar *g = NULL;
        memory.calls = 0;
        memory.fail_at = at;
        status = pc_grammar_new(&g, vocabulary, &form);
        CHECK((status >= 0) == (g != NULL));
        memory.fail_at = 0;
        pc_grammar_free(g);
        CHECK_INT(memory.live_blocks, live);
    }
    CHECK_OK(status);
    pc_model_free(vocabulary);
    pc_context_free(limited);
}

int main(void)
{
    static const char path[] = PC_SOURCE_DIR "/models/demo/demo.gguf";
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_grammar_options any = PC_GRAMMAR_OPTIONS_INIT;
    pc_grammar *g = NULL;
    o.threads = 2;
    CHECK_OK(pc_context_new(&context, &o));
    if (!CHECK_OK(pc_model_load(&model, context, path, NULL)))
        return pc_test_end();
    any.kind = PC_GRAMMAR_JSON;
    if (pc_grammar_new(&g, model, &any) == PC_ERR_UNSUPPORTED) {
        CHECK_ERROR_HAS("pc_grammar_new: ");
        CHECK_ERROR_HAS("xgrammar");
        pc_model_free(model);
        pc_context_free(context);
        pc_test_skip(pc_error_text());
    }
    pc_grammar_free(g);
    CHECK_OK(pc_prompt_from_text(&prompt, model, "the hotel is", 12, NULL));
    by_schema();
    by_text();
    flags();
    taken_back();
    threads();
    refused();
    faults(path);
    pc_prompt_free(prompt);
    pc_model_free(model);
    pc_context_free(context);
    return pc_test_end();
}
