/* Catches: schemas and prompts that a builder makes otherwise than PML makes them (items, parts,
 * tokens, keys); text that a builder changes or obeys: blanks, NULs, form feeds, "<", the text of a
 * special token; names that break paths; faults that are accepted, or reported without the element;
 * calls that fail and change a builder all the same; leaks when an allocation fails. */
#include <promptcache/prompt.h>
#include <string.h>

#include "toy_schema.h"

#define TEXT(b, text) CHECK_OK(pc_schema_builder_add_text(b, text, sizeof(text) - 1, 0))
#define MODULE(b, name) CHECK_OK(pc_schema_builder_begin_module(b, name, 0))
#define END(b) CHECK_OK(pc_schema_builder_end(b))
#define SAY(b, text) CHECK_OK(pc_prompt_builder_add_text(b, text, sizeof(text) - 1, 0))
#define USE(b, module) CHECK_OK(pc_prompt_builder_use(b, module))

static pc_schema_builder *begin(const pc_model *model)
{
    pc_schema_builder *b = NULL;
    CHECK_OK(pc_schema_builder_new(&b, model, "t", NULL));
    return b;
}

static pc_schema *made(pc_schema_builder *b)
{
    pc_schema *schema = NULL;
    CHECK_OK(pc_schema_from_builder(&schema, b));
    pc_schema_builder_free(b);
    return schema;
}

/* toy_schema, without XML. */
static pc_schema_builder *toy_builder(const pc_model *model)
{
    static const char *const set[] = {"a", "b"};
    pc_schema_builder *b = begin(model);
    TEXT(b, "the word is ");
    TEXT(b, "here. ");
    MODULE(b, "a");
    TEXT(b, "it was one of the hot ");
    CHECK_OK(pc_schema_builder_add_parameter(b, "x", 6, NULL, 0));
    TEXT(b, " and that is all");
    END(b);
    MODULE(b, "b");
    TEXT(b, "some other word from there, he can be out");
    END(b);
    CHECK_OK(pc_schema_builder_begin_union(b, NULL));
    MODULE(b, "u1");
    TEXT(b, "you are at this one");
    END(b);
    MODULE(b, "u2");
    TEXT(b, "they had his word for it but not as they are");
    END(b);
    END(b);
    MODULE(b, "n");
    TEXT(b, "we can ");
    MODULE(b, "in");
    TEXT(b, "have some");
    END(b);
    TEXT(b, " with this");
    END(b);
    TEXT(b, " all of it");
    CHECK_OK(pc_schema_builder_begin_module(b, "c", PC_ITEM_UNCACHED));
    TEXT(b, "by the way, this is said anew");
    END(b);
    CHECK_OK(pc_schema_builder_add_scaffold(b, set, 2));
    return b;
}

static void same_items(const pc_schema *a, const pc_schema *b)
{
    CHECK_STR(pc_schema_name(a), pc_schema_name(b));
    CHECK_INT(pc_schema_length(a), pc_schema_length(b));
    CHECK_INT(pc_schema_item_count(a), pc_schema_item_count(b));
    for (size_t i = 0; i < pc_schema_item_count(a) && i < pc_schema_item_count(b); i++) {
        pc_item x = PC_ITEM_INIT, y = PC_ITEM_INIT;
        CHECK_OK(pc_schema_get_item(a, i, &x));
        CHECK_OK(pc_schema_get_item(b, i, &y));
        CHECK(x.kind == y.kind && x.depth == y.depth && x.start == y.start && x.length == y.length
              && x.flags == y.flags);
        CHECK_STR(x.path, y.path);
        CHECK_STR(x.text, y.text);
    }
}

static void same_parts(const pc_prompt *a, const pc_prompt *b)
{
    CHECK_INT(pc_prompt_part_count(a), pc_prompt_part_count(b));
    for (size_t i = 0; i < pc_prompt_part_count(a) && i < pc_prompt_part_count(b); i++) {
        pc_part x = PC_PART_INIT, y = PC_PART_INIT;
        CHECK_OK(pc_prompt_get_part(a, i, &x));
        CHECK_OK(pc_prompt_get_part(b, i, &y));
        CHECK_INT(x.kind, y.kind);
        CHECK_INT(x.start, y.start);
        CHECK_STR(x.path, y.path);
        CHECK(x.count == y.count && !memcmp(x.tokens, y.tokens, x.count * sizeof *x.tokens));
    }
}

static void answer_from_cache(const toy_world *w, const pc_prompt *prompt)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = 2;
    toy_answer a = toy_generate(prompt, w->cache, o);
    CHECK_OK(a.status);
    CHECK(a.stats.tokens_cached > 0);
    CHECK_INT(a.stats.tokens_encoded, a.stats.tokens_uncached); /* every other module was there */
}

/* What PML says, and the same in bytes: the states of one serve the other. */
static void as_pml(void)
{
    static const char text[] = "<prompt schema=\"t\">first <a x=\"hot one\"/><u2/>then <n><in/></n>"
                               "<c/>what is it?</prompt>";
    toy_world w;
    pc_schema *pml;
    pc_prompt *want, *got = NULL;
    pc_prompt_builder *p = NULL;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    want = toy_prompt(&w, text);
    pml = w.schema;
    w.schema = made(toy_builder(w.model));
    same_items(w.schema, pml);
    CHECK_OK(pc_schema_encode(pml, w.cache, NULL));
    CHECK_OK(pc_prompt_builder_new(&p, w.schema));
    SAY(p, "first");
    USE(p, "a");
    CHECK_OK(pc_prompt_builder_add_argument(p, "x", "hot one", 7));
    USE(p, "u2");
    SAY(p, "then");
    USE(p, "n/in");
    USE(p, "c");
    SAY(p, "what ");
    SAY(p, "is it?");
    CHECK_OK(pc_prompt_from_builder(&got, p, NULL));
    same_parts(got, want);
    answer_from_cache(&w, got);
    pc_prompt_builder_free(p);
    pc_prompt_free(want);
    pc_prompt_free(got);
    pc_schema_free(pml);
    toy_end(&w);
}

static void turns(void)
{
    static const char text[] = "<schema name=\"t\"><system>all of it</system><module name=\"m\">"
                               "the word</module><user>one</user><assistant>two</assistant>"
                               "</schema>",
                      prompt[] = "<prompt><user>about <m/> this</user></prompt>";
    toy_world w;
    pc_prompt *want, *got = NULL;
    pc_prompt_builder *p = NULL;
    if (!CHECK(toy_start_chat(&w, NULL, "vicuna", text)))
        return;
    want = toy_prompt(&w, prompt);
    pc_schema_builder *b = begin(w.model);
    CHECK_OK(pc_schema_builder_begin_turn(b, "system"));
    TEXT(b, "all of it");
    END(b);
    MODULE(b, "m");
    TEXT(b, "the word");
    END(b);
    CHECK_OK(pc_schema_builder_begin_turn(b, "user"));
    TEXT(b, "one");
    END(b);
    CHECK_OK(pc_schema_builder_begin_turn(b, "assistant"));
    TEXT(b, "two");
    END(b);
    CHECK_STATUS(pc_schema_builder_begin_turn(b, "tool"), PC_ERR_INVALID);
    pc_schema *schema = made(b);
    same_items(schema, w.schema);
    CHECK_OK(pc_prompt_builder_new(&p, schema));
    CHECK_OK(pc_prompt_builder_begin_turn(p, "user"));
    SAY(p, "about"); /* PML drops blanks at the ends of a text */
    USE(p, "m");
    SAY(p, "this");
    CHECK_STATUS(pc_prompt_from_builder(&got, p, NULL), PC_ERR_STATE);
    CHECK(!got);
    CHECK_OK(pc_prompt_builder_end(p));
    CHECK_STATUS(pc_prompt_builder_end(p), PC_ERR_STATE);
    CHECK_OK(pc_prompt_from_builder(&got, p, NULL));
    same_parts(got, want);
    pc_prompt_builder_free(p);
    pc_prompt_free(got);
    pc_prompt_free(want);
    pc_schema_free(schema);
    toy_end(&w);
}

/* The tokens of the prompt's last part are those of the text. */
static void ends_with(const toy_world *w, const pc_prompt *prompt, const char *text, size_t size,
                      uint64_t flags)
{
    int32_t want[128];
    size_t n = 0;
    pc_part part = PC_PART_INIT;
    CHECK_OK(pc_tokenize(w->model, text, size, flags, want, 128, &n));
    CHECK_OK(pc_prompt_get_part(prompt, pc_prompt_part_count(prompt) - 1, &part));
    CHECK_INT(part.count, n);
    CHECK(part.count == n && !memcmp(part.tokens, want, n * sizeof *want));
}

/* Bytes stay what they are. */
static void bytes(void)
{
    static const char odd[] = "  <m/> & ]]> \f\0 \x01 </user>\xff\xfe <s> \n", name[] = " <m> \"\n",
                      user[] = "user";
    toy_world w;
    pc_schema *schema;
    pc_prompt *prompt = NULL;
    pc_prompt_builder *p = NULL;
    pc_item item = PC_ITEM_INIT;
    int32_t want[64];
    size_t n = 0;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    pc_schema_builder *b = begin(w.model);
    MODULE(b, name);
    TEXT(b, odd);
    END(b);
    MODULE(b, user); /* a tag of PML */
    TEXT(b, "he can");
    MODULE(b, "union");
    TEXT(b, " be");
    END(b);
    END(b);
    schema = made(b);
    CHECK_OK(pc_tokenize(w.model, odd, sizeof odd - 1, 0, want, 64, &n));
    CHECK_OK(pc_schema_get_item(schema, 1, &item));
    CHECK_STR(item.path, name);
    CHECK_INT(item.length, n);
    CHECK(!memcmp(item.text, odd, sizeof odd));
    CHECK_OK(pc_prompt_builder_new(&p, schema));
    USE(p, "user/union");
    USE(p, name);
    SAY(p, odd);
    CHECK_OK(pc_prompt_from_builder(&prompt, p, NULL));
    CHECK_INT(pc_prompt_part_count(prompt), 4); /* "<m/>" in the text imports nothing */
    ends_with(&w, prompt, odd, sizeof odd - 1, 0);
    pc_prompt_free(prompt);
    CHECK_OK(pc_prompt_builder_add_text(p, "<s>", 3, PC_PROMPT_SPECIAL));
    CHECK_OK(pc_prompt_from_builder(&prompt, p, NULL));
    pc_part part = PC_PART_INIT;
    CHECK_OK(pc_prompt_get_part(prompt, 3, &part));
    CHECK_INT(part.tokens[part.count - 1], TOY_BOS);
    size_t specials = 0;
    for (size_t i = 0; i < part.count; i++)
        specials += part.tokens[i] == TOY_BOS;
    CHECK_INT(specials, 1);
    pc_prompt_builder_free(p);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    toy_end(&w);
}

/* A path names the modules around one; they may be named again. */
static void paths(void)
{
    toy_world w;
    pc_prompt *prompt = NULL;
    pc_prompt_builder *p = NULL;
    int64_t ends = 0;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    pc_schema_builder *b = begin(w.model);
    MODULE(b, "o");
    MODULE(b, "x");
    TEXT(b, "some word");
    END(b);
    MODULE(b, "y");
    TEXT(b, "other");
    CHECK_OK(pc_schema_builder_add_parameter(b, "n", 3, "all", 3));
    END(b);
    END(b);
    w.schema = made(b);
    CHECK_OK(pc_prompt_builder_new(&p, w.schema));
    CHECK_STATUS(pc_prompt_builder_add_argument(p, "n", "he", 2), PC_ERR_STATE);
    USE(p, "o/x");
    SAY(p, "this ");
    USE(p, "o/y");
    CHECK_OK(pc_prompt_builder_add_argument(p, "n", "he", 2));
    CHECK_STATUS(pc_prompt_builder_add_argument(p, "n", "he", 2), PC_ERR_PML);
    SAY(p, "that");
    CHECK_STATUS(pc_prompt_builder_add_argument(p, "n", "he", 2), PC_ERR_STATE);
    USE(p, "o"); /* was around others so far */
    CHECK_OK(pc_prompt_from_builder(&prompt, p, NULL));
    CHECK_INT(pc_prompt_part_count(prompt), 5);
    for (size_t i = 0; i < pc_prompt_part_count(prompt); i++) {
        pc_part part = PC_PART_INIT;
        CHECK_OK(pc_prompt_get_part(prompt, i, &part));
        CHECK(part.start >= ends); /* no part lies over another */
        ends = part.start + (int64_t)part.count;
    }
    pc_prompt_free(prompt);
    USE(p, "o/y");
    CHECK_STATUS(pc_prompt_from_builder(&prompt, p, NULL), PC_ERR_PML);
    CHECK_ERROR_HAS("prompt: element 6: module 'o/y' is used twice");
    CHECK(!prompt);
    static const char *const wrong[] = {"", "/", "o/", "/o", "o//x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_STATUS(pc_prompt_builder_use(p, wrong[i]), PC_ERR_INVALID);
    pc_prompt_builder_free(p);
    toy_end(&w);
}

/* Modules around others are used, too: two members of a union exclude each other. */
static void unions(void)
{
    static const char *const names[][2] = {{"p", "q"}, {"r", "s"}};
    pc_prompt_options o = PC_PROMPT_OPTIONS_INIT;
    pc_prompt *prompt = NULL;
    pc_prompt_builder *p = NULL;
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    pc_schema_builder *b = begin(w.model);
    CHECK_OK(pc_schema_builder_begin_union(b, "r"));
    for (int i = 0; i < 2; i++) {
        MODULE(b, names[i][0]);
        MODULE(b, names[i][1]);
        TEXT(b, "some word");
        END(b);
        END(b);
    }
    END(b);
    w.schema = made(b);
    CHECK_OK(pc_prompt_builder_new(&p, w.schema));
    USE(p, "p/q");
    USE(p, "r/s");
    CHECK_STATUS(pc_prompt_from_builder(&prompt, p, NULL), PC_ERR_PML);
    CHECK_ERROR_HAS("prompt: element 2: 'p' and 'r' are members of one union");
    o.flags = PC_PML_OVERLAP;
    CHECK_OK(pc_prompt_from_builder(&prompt, p, &o));
    CHECK_INT(pc_prompt_part_count(prompt), 2);
    o.flags = PC_PML_COMPACT;
    pc_prompt_free(prompt);
    CHECK_STATUS(pc_prompt_from_builder(&prompt, p, &o), PC_ERR_INVALID);
    pc_prompt_builder_free(p);
    toy_end(&w);
}

/* What is refused when the schema is made: the text names the element. */
static void refuse(pc_schema_builder *b, pc_status status, const char *why)
{
    pc_schema *schema = NULL;
    uint64_t line = 1, column = 1;
    CHECK_STATUS(pc_schema_from_builder(&schema, b), status);
    CHECK_ERROR_HAS(why);
    CHECK(!schema);
    pc_error_place(&line, &column);
    CHECK(!line && !column);
    pc_schema_builder_free(b);
}

static void faults(void)
{
    static const char *const sets[][2] = {{"a", "z"}, {"a", "a"}, {"a", NULL}};
    toy_world w;
    pc_schema_builder *b;
    pc_schema *schema = NULL;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    b = begin(w.model);
    MODULE(b, "a");
    END(b);
    MODULE(b, "a");
    END(b);
    refuse(b, PC_ERR_PML, "schema: element 2: a module 'a' is there already (element 1)");
    b = begin(w.model);
    MODULE(b, "a/b");
    END(b);
    refuse(b, PC_ERR_PML, "element 1: 'a/b' cannot name a module");
    b = begin(w.model);
    MODULE(b, "");
    END(b);
    refuse(b, PC_ERR_PML, "it is empty");
    b = begin(w.model);
    CHECK_OK(pc_schema_builder_add_parameter(b, "n", 3, NULL, 0));
    refuse(b, PC_ERR_PML, "must stand in a module");
    for (int64_t length = -1; length <= 0; length++) {
        b = begin(w.model);
        MODULE(b, "a");
        CHECK_OK(pc_schema_builder_add_parameter(b, "n", length, NULL, 0));
        END(b);
        refuse(b, PC_ERR_PML, "is not a number of tokens");
    }
    b = begin(w.model);
    CHECK_OK(pc_schema_builder_begin_union(b, "zz"));
    MODULE(b, "a");
    END(b);
    END(b);
    refuse(b, PC_ERR_PML, "names no member");
    b = begin(w.model);
    CHECK_OK(pc_schema_builder_begin_union(b, NULL));
    TEXT(b, " ");
    END(b);
    refuse(b, PC_ERR_PML, "only <module> may stand in a <union>, not text");
    for (int i = 0; i < 3; i++) {
        b = begin(w.model);
        MODULE(b, "a");
        CHECK_STATUS(pc_schema_builder_add_scaffold(b, sets[0], 2), PC_ERR_STATE);
        END(b);
        CHECK_STATUS(pc_schema_builder_add_scaffold(b, sets[0], 1), PC_ERR_INVALID);
        CHECK_STATUS(pc_schema_builder_add_scaffold(b, sets[i], 2), sets[i][1] ? 0 : -1);
        if (sets[i][1])
            refuse(b, PC_ERR_PML, i ? "named twice" : "there is no module 'z'");
        else
            pc_schema_builder_free(b);
    }
    b = begin(w.model);
    CHECK_STATUS(pc_schema_builder_end(b), PC_ERR_STATE);
    CHECK_STATUS(pc_schema_builder_add_text(b, "a", 1, 1), PC_ERR_INVALID);
    CHECK_STATUS(pc_schema_builder_add_text(b, NULL, 1, 0), PC_ERR_INVALID);
    CHECK_STATUS(pc_schema_builder_begin_module(b, "a", 2), PC_ERR_INVALID);
    MODULE(b, "a");
    CHECK_STATUS(pc_schema_from_builder(&schema, b), PC_ERR_STATE);
    CHECK_ERROR_HAS("element 1");
    END(b);
    CHECK_OK(pc_schema_from_builder(&schema, b)); /* what failed has left nothing */
    CHECK_INT(pc_schema_item_count(schema), 1);
    pc_schema_free(schema);
    TEXT(b, "the word"); /* it goes on */
    CHECK_OK(pc_schema_from_builder(&schema, b));
    CHECK_INT(pc_schema_item_count(schema), 2);
    pc_schema_free(schema);
    pc_schema_builder_free(b);
    pc_schema_options o = PC_SCHEMA_OPTIONS_INIT;
    o.flags = PC_PML_COMPACT;
    CHECK_STATUS(pc_schema_builder_new(&b, w.model, "t", &o), PC_ERR_INVALID);
    o.flags = 0;
    o.base_folder = "/tmp";
    CHECK_STATUS(pc_schema_builder_new(&b, w.model, "t", &o), PC_ERR_INVALID);
    CHECK(!b);
    /* XML has lines */
    uint64_t line = 0, column = 0;
    static const char *const xml[] = {"<schema name=\"t\">\n <x/></schema>",
                                      "<schema name=\"t\">\n &</schema>", "<schema name=\"t\">\n ",
                                      "\n <schema/>"};
    for (size_t i = 0; i < sizeof xml / sizeof *xml; i++) {
        CHECK_STATUS(pc_schema_parse(&schema, w.model, xml[i], strlen(xml[i]), NULL), PC_ERR_PML);
        pc_error_place(&line, &column);
        CHECK(line == 2 && column >= 2);
    }
    toy_end(&w);
}

/* As deep as XML, and no deeper. */
static void depth(void)
{
    toy_world w;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_prompt_builder *p = NULL;
    char path[256] = "";
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    pc_schema_builder *b = begin(w.model);
    for (int i = 0; i < 127; i++) {
        MODULE(b, "m");
        strcat(path, i ? "/m" : "m");
    }
    TEXT(b, "word");
    CHECK_STATUS(pc_schema_builder_begin_module(b, "m", 0), PC_ERR_LIMIT);
    CHECK_STATUS(pc_schema_builder_add_parameter(b, "x", 1, NULL, 0), PC_ERR_LIMIT);
    for (int i = 0; i < 127; i++)
        END(b);
    schema = made(b);
    CHECK_OK(pc_prompt_builder_new(&p, schema));
    USE(p, path);
    CHECK_OK(pc_prompt_from_builder(&prompt, p, NULL));
    CHECK_INT(pc_prompt_part_count(prompt), 1);
    CHECK_OK(pc_prompt_builder_begin_turn(p, "user"));
    CHECK_STATUS(pc_prompt_builder_use(p, path), PC_ERR_LIMIT);
    pc_prompt_builder_free(p);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    toy_end(&w);
}

/* All calls once; the first that fails ends it. */
static pc_status every_call(const pc_model *model)
{
    static const char *const set[] = {"a", "b"};
    pc_schema_builder *b = NULL;
    pc_prompt_builder *p = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_status status;
#define DO(call)               \
    if ((status = (call)) < 0) \
    goto done
    DO(pc_schema_builder_new(&b, model, "t", NULL));
    DO(pc_schema_builder_begin_turn(b, "system"));
    DO(pc_schema_builder_add_text(b, "the word", 8, PC_PROMPT_SPECIAL));
    DO(pc_schema_builder_end(b));
    DO(pc_schema_builder_begin_union(b, "a"));
    DO(pc_schema_builder_begin_module(b, "a", PC_ITEM_UNCACHED));
    DO(pc_schema_builder_add_parameter(b, "x", 3, "he", 2));
    DO(pc_schema_builder_end(b));
    DO(pc_schema_builder_end(b));
    DO(pc_schema_builder_begin_module(b, "b", 0));
    DO(pc_schema_builder_begin_module(b, "c", 0));
    DO(pc_schema_builder_add_text(b, "can", 3, 0));
    DO(pc_schema_builder_end(b));
    DO(pc_schema_builder_end(b));
    DO(pc_schema_builder_add_scaffold(b, set, 2));
    DO(pc_schema_from_builder(&schema, b));
    DO(pc_prompt_builder_new(&p, schema));
    DO(pc_prompt_builder_use(p, "a"));
    DO(pc_prompt_builder_add_argument(p, "x", "she", 3));
    DO(pc_prompt_builder_use(p, "b/c"));
    DO(pc_prompt_builder_begin_turn(p, "user"));
    DO(pc_prompt_builder_add_text(p, "what", 4, 0));
    DO(pc_prompt_builder_end(p));
    DO(pc_prompt_from_builder(&prompt, p, NULL));
    CHECK_INT(pc_prompt_part_count(prompt), 4);
done:
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_schema_builder_free(b);
    pc_prompt_builder_free(p);
    return status;
}

static void no_memory(void)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    toy_world w;
    uint64_t failures = 0;
    if (!CHECK(toy_start_chat(&w, &mem, "vicuna", NULL)))
        return;
    const int64_t live = memory.live_blocks;
    for (int more = 1; more;) {
        uint64_t at = memory.calls + ++failures;
        memory.fail_at = at;
        pc_status status = every_call(w.model);
        more = memory.calls >= at;
        memory.fail_at = 0;
        CHECK_STATUS(status, more ? PC_ERR_NOMEM : PC_OK);
        CHECK_INT(memory.live_blocks, live);
    }
    CHECK(failures > 100);
    toy_end(&w);
}

int main(void)
{
    as_pml();
    turns();
    bytes();
    paths();
    unions();
    faults();
    depth();
    no_memory();
    return pc_test_end();
}
