/* Catches: positions that differ from the published layout (upstream study 1.2, worked example);
 * arguments or texts at the wrong place; faults of a schema or prompt that are accepted, or
 * reported without their place; blanks that are lost where they separate words, or that stay where
 * they do not; leaks when an allocation fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pml/resolve.h"
#include "testing.h"

/* One word, one token: its id is a small hash. Special words <...> count only on request, which
 * here changes nothing. */
static pc_status words(void *user, const char *text, size_t size, uint64_t flags, int32_t **tokens,
                       size_t *count)
{
    const pc_allocator *mem = user;
    (void)flags;
    *count = 0;
    if (!(*tokens = pc__alloc(mem, (size + 1) * sizeof **tokens)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < size;) {
        int32_t id = 7;
        while (i < size && strchr(" \n\t\r", text[i]))
            i++;
        size_t start = i;
        for (; i < size && !strchr(" \n\t\r", text[i]); i++)
            id = (id * 31 + text[i]) & 0xffff;
        if (i > start)
            (*tokens)[(*count)++] = id;
    }
    return PC_OK;
}

static char t[] = "t";
static pc__chat chat = {.name = t,
                        .pieces = {.system_open = "<S> ",
                                   .system_close = " </S>",
                                   .system_empty = "<E>",
                                   .user_open = "<U> ",
                                   .user_close = " </U> <A>",
                                   .generation = "",
                                   .assistant_open = "",
                                   .assistant_close = " </A>"}};

static pc__pml_env env_of(const pc_allocator *mem)
{
    pc__pml_env env = {.mem = mem,
                       .chat = &chat,
                       .tokens = words,
                       .tokens_user = (void *)(uintptr_t)mem,
                       .unk = 0,
                       .where = "t.pml"};
    return env;
}

static const char worked[] =
    "<schema name='t'>sys one two<module name='plan'>go for<parameter name='dur' length='5'/>days"
    "<union scaffold='b'><module name='a'>A1 A2<param name='city' len='3'/></module>"
    "<module name='b'>B1 B2 B3<union><module name='c'>C1</module><module name='c2'>C2 "
    "C2b</module></union></module>"
    "</union>tail words here</module><module name='x'>x1 x2</module>end</schema>";

static void worked_example(void)
{
    pc__pml_env env = env_of(&pc__libc_allocator);
    pc__schema_tree *tree;
    pc__resolved *r;
    static const struct {
        int64_t start, length;
        const char *path;
    } want[] = {{0, 3, ""},           {3, 16, "plan"},     {3, 2, "plan"},
                {5, 5, "plan/dur"},   {10, 1, "plan"},     {11, 5, "plan/union"},
                {11, 5, "plan/a"},    {11, 2, "plan/a"},   {13, 3, "plan/a/city"},
                {11, 5, "plan/b"},    {11, 3, "plan/b"},   {14, 2, "plan/b/union"},
                {14, 1, "plan/b/c"},  {14, 1, "plan/b/c"}, {14, 2, "plan/b/c2"},
                {14, 2, "plan/b/c2"}, {16, 3, "plan"},     {19, 2, "x"},
                {19, 2, "x"},         {21, 1, ""}};
    static const struct {
        int kind;
        int64_t start;
        size_t count;
    } parts[] = {{1, 0, 3},  {1, 3, 2},  {2, 5, 2},  {1, 10, 1}, {1, 11, 2},
                 {2, 13, 2}, {1, 16, 3}, {1, 19, 2}, {1, 21, 1}, {3, 22, 2}};
    if (!CHECK_OK(pc__schema_tree_parse(&tree, &env, worked, sizeof worked - 1)))
        return;
    CHECK_INT(tree->length, 22);
    CHECK_INT(tree->node_count, sizeof want / sizeof *want + 1);
    for (size_t i = 0; i < sizeof want / sizeof *want && i + 1 < tree->node_count; i++) {
        CHECK_INT(tree->nodes[i + 1]->start, want[i].start);
        CHECK_INT(tree->nodes[i + 1]->length, want[i].length);
        CHECK_STR(tree->nodes[i + 1]->path, want[i].path);
    }
    const char *prompt = "<prompt schema='t'><plan dur='3 days'><a city='New York'/></plan><x/>\n "
                         "final text\n</prompt>";
    if (CHECK_OK(pc__resolve(&r, &env, tree, prompt, strlen(prompt)))) {
        CHECK_INT(r->part_count, 10);
        for (size_t i = 0; i < r->part_count && i < 10; i++) {
            CHECK_INT(r->parts[i].kind, parts[i].kind);
            CHECK_INT(r->parts[i].start, parts[i].start);
            CHECK_INT(r->parts[i].count, parts[i].count);
        }
        CHECK_INT(r->end, 24);
        CHECK_INT(r->module_count, 4);
    }
    pc__resolved_free(r, &pc__libc_allocator);
    pc__schema_tree_free(tree, &pc__libc_allocator);
}

static void texts(void)
{
    pc__pml_env env = env_of(&pc__libc_allocator);
    pc__schema_tree *tree;
    pc__resolved *r;
    const char *schema =
        "<schema name='s'>\n <system> be <!-- not this --> kind </system>\n <module name='m'>\n a  "
        "b &lt; <![CDATA[c & d]]>\n"
        "</module><module name='n' cache='false'>n1<module name='k'>k1</module></module>"
        "<scaffold modules='m n/k'/></schema>";
    if (!CHECK_OK(pc__schema_tree_parse(&tree, &env, schema, strlen(schema))))
        return;
    CHECK_STR(tree->nodes[1]->text, "<S>  be  kind  </S> ");
    CHECK_STR(tree->nodes[3]->text, " a  b < c & d ");
    CHECK(!tree->nodes[3]->uncached && tree->nodes[5]->uncached && tree->nodes[7]->uncached);
    CHECK_INT(tree->scaffold_count, 1);
    const char *prompt = "<prompt>first <m/> middle <n><k/></n><user>ask</user></prompt>";
    if (CHECK_OK(pc__resolve(&r, &env, tree, prompt, strlen(prompt)))) {
        CHECK_INT(r->scaffold_count, 1);
        CHECK_INT(r->parts[1].kind, PC__PART_CACHED); /* "first" follows the leading text, where m
                                                         starts too: cached comes first */
        CHECK_INT(r->parts[2].start, 4);
        CHECK_INT(r->parts[3].start, tree->nodes[2]->start + tree->nodes[2]->length);
        CHECK_INT(r->parts[r->part_count - 1].start, tree->length);
        CHECK_INT(r->parts[r->part_count - 1].count, 4);
        for (size_t i = 0, fresh = 0; i < r->part_count;
             i++) { /* n and its contents have a kind of their own */
            const pc__prompt_part *part = &r->parts[i];
            fresh += part->kind == PC__PART_UNCACHED;
            CHECK_INT(part->kind == PC__PART_UNCACHED, part->node && part->node->uncached);
            CHECK(i + 1 < r->part_count || fresh == 2);
        }
    }
    pc__resolved_free(r, &pc__libc_allocator);
    pc__schema_tree_free(tree, &pc__libc_allocator);
}

static const struct fault {
    const char *schema, *prompt, *text;
} faults[] = {
    {"<schema>", NULL, "t.pml:1:"},
    {"<module name='a'/>", NULL, "not <schema>"},
    {"<schema/>", NULL, "1:1: <schema> has no name"},
    {"<schema name='1a'/>", NULL, "'1a' cannot name a schema"},
    {"<schema name='s'>a < b</schema>", NULL, "write &lt;"},
    {"<schema name='s'>a & b</schema>", NULL, "write &amp;"},
    {"<schema name='s'>\n  <foo/></schema>", NULL, "t.pml:2:3: <foo> is no element of a schema"},
    {"<schema name='s'><module/></schema>", NULL, "<module> has no name"},
    {"<schema name='s'><module name='a' x='1'/></schema>", NULL, "no attribute 'x'"},
    {"<schema name='s'><module name='a'/><module name='a'/></schema>", NULL,
     "'a' is there already"},
    {"<schema name='s'><union><module name='a'/><module name='a'/></union></schema>", NULL,
     "'a' is there already"},
    {"<schema name='s'><union><module name='a'/></union><module name='a'/></schema>", NULL,
     "'a' is there already"},
    {"<schema name='s'><module name='user'/></schema>", NULL, "a tag of PML"},
    {"<schema name='s'><union>text</union></schema>", NULL, "only <module> may stand"},
    {"<schema name='s'><union scaffold='z'><module name='a'/></union></schema>", NULL,
     "names no member"},
    {"<schema name='s'><parameter name='p' length='2'/></schema>", NULL, "must stand in a module"},
    {"<schema name='s'><module name='a'><parameter length='2'/></module></schema>", NULL,
     "has no name"},
    {"<schema name='s'><module name='a'><parameter name='p'/></module></schema>", NULL,
     "has no length"},
    {"<schema name='s'><module name='a'><parameter name='p' length='0'/></module></schema>", NULL,
     "length='0'"},
    {"<schema name='s'><module name='a'><parameter name='p' "
     "length='99999999999999999999'/></module></schema>",
     NULL, "length="},
    {"<schema name='s'><module name='a'><parameter name='p' length='1' scaffold='x "
     "y'/></module></schema>",
     NULL, "has 2 tokens"},
    {"<schema name='s'><module name='a'><parameter name='p' length='1'/><param name='p' "
     "len='1'/></module></schema>",
     NULL, "already"},
    {"<schema name='s'><module name='a' cache='no'/></schema>", NULL, "neither 'true' nor 'false'"},
    {"<schema name='s'><module name='a' src='x.txt'/></schema>", NULL, "no folder"},
    {"<schema name='s'><scaffold modules='a'/></schema>", NULL, "no module 'a'"},
    {"<schema name='s'><module name='a'/><scaffold modules='a'/></schema>", NULL, "at least two"},
    {"<schema name='s'><union><module name='a'/><module name='b'/></union><scaffold modules='a "
     "b'/></schema>",
     NULL, "one union"},
    {"<!DOCTYPE x [<!ENTITY e 'v'>]><schema name='s'>&e;</schema>", NULL, "document type"},
    {"<schema name='s'><user x='1'>u</user></schema>", NULL, "no attribute 'x'"},
    {"<schema name='s'>t</schema>", "<p/>", "not <prompt>"},
    {"<schema name='s'>t</schema>", "<prompt/>", "empty"},
    {"<schema name='s'>t</schema>", "<prompt x='1'>a</prompt>", "no attribute 'x'"},
    {"<schema name='s'><module name='a'/></schema>", "<prompt><b/></prompt>",
     "no module 'b'; there are a"},
    {"<schema name='s'><module name='a'><module name='b'/></module></schema>",
     "<prompt>\n<b/></prompt>", "t.pml:2:1: 's' has no module 'b'; 'a/b' is one"},
    {"<schema name='s'><module name='a'/></schema>", "<prompt><a/><a/></prompt>", "used twice"},
    {"<schema name='s'><union><module name='a'/><module name='b'/></union></schema>",
     "<prompt><a/><b/></prompt>", "one union"},
    {"<schema name='s'><module name='a'/></schema>", "<prompt><a p='x'/></prompt>",
     "no parameter 'p'"},
    {"<schema name='s'><module name='a'><param name='p' len='1'/></module></schema>",
     "<prompt><a p='x y'/></prompt>", "has 2 tokens, the parameter takes 1"},
    {"<schema name='s'><module name='a'><param name='p' len='1'/></module></schema>",
     "<prompt><a q='x'/></prompt>", "no parameter 'q'; it has p"},
    {"<schema name='s'><module name='a'/></schema>", "<prompt><a p='x'/></prompt>", "it has none"},
    {"<schema name='s'><module name='a'/></schema>", "<prompt><module name='a'/></prompt>",
     "<module> belongs in a schema"},
    {"<schema name='s'>t</schema>", "<prompt><b/></prompt>", "no module 'b'; there is none"},
    {"<schema name='s'>t</schema>", "<prompt x='1'>a</prompt>", "allowed: schema"},
    {"", NULL, "t.pml:1:1: empty"},
    {"\xef\xbb\xbf", NULL, "t.pml:1:1: empty"},
    {"<schema name='s'>t</schema>", "", "t.pml:1:1: empty"},
    {"<!-- c -->", NULL, "no element: a schema or prompt is needed"},
    {"<schema name='s'><module name='a'>\n<parameter name='p' length='2' "
     "len='3'/></module></schema>",
     NULL, "t.pml:2:1: <parameter> has both length='2' and len='3'"},
    {"<schema name='s'><module name='a'><parameter name='p' length='+3'/></module></schema>", NULL,
     "length='+3'"},
    {"<schema name='s'><module name='a'><parameter name='p' length='03'/></module></schema>", NULL,
     "length='03'"},
    {"<schema name='s'><module name='a'><parameter name='p' length=' 3'/></module></schema>", NULL,
     "length=' 3'"},
    {"<schema name='s'><module name='a'><param name='p' len='3 '/></module></schema>", NULL,
     ": len='3 '"},
    {"<schema name='s'><module name='a'><param name='p' len=''/></module></schema>", NULL,
     ": len=''"},
    {"<schema name='s'><module name='a'><param name='p' len='16777217'/></module></schema>", NULL,
     ": len='16777217'"},
    {" \n", NULL, "no element: a schema or prompt is needed"},
    {"plain text", NULL, "t.pml:1:1: text outside of the root element"},
    {"<schema name='s'/><schema name='t'/>", NULL, "t.pml:1:19: text or elements behind the end"},
    {"<schema name='s'>\n<module name='a'>", NULL, "while <module> of line 2 is open"},
    {"<schema name='s'><module name='a'></schema>", NULL, "mismatched tag: <module> of line 1"},
    {"<schema name=s/>", NULL,
     "t.pml:1:14: not well-formed: the value of an attribute needs quotes"},
    {"<schema name='s'>caf\xe9</schema>", NULL, "t.pml:1:21: byte 0xE9 is not valid UTF-8"},
    {"<?xml version='1.0' encoding='ISO-8859-1'?><schema name='s'>\xe9</schema>", NULL,
     "byte 0xE9 is not valid UTF-8"},
    {"<schema name='s'>a\x01</schema>", NULL, "control character 0x01"},
    {"<schema name='s'>&nbsp;</schema>", NULL, "undefined entity: there are &amp;"},
};

static pc_status both(const pc_allocator *mem, const char *schema, const char *prompt)
{
    pc__pml_env env = env_of(mem);
    pc__schema_tree *tree;
    pc__resolved *r = NULL;
    pc_status status = pc__schema_tree_parse(&tree, &env, schema, strlen(schema));
    if (status >= 0 && prompt)
        status = pc__resolve(&r, &env, tree, prompt, strlen(prompt));
    pc__resolved_free(r, mem);
    pc__schema_tree_free(tree, mem);
    return status;
}

static void every_fault(void)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        int refused = CHECK_INT(both(&pc__libc_allocator, faults[i].schema, faults[i].prompt),
                                PC_ERR_PML);
        int has_text = CHECK_ERROR_HAS(faults[i].text);
        if (!refused || !has_text)
            fprintf(stderr, "    fault %zu: %s\n", i, faults[i].schema);
    }
    pc__pml_env env = env_of(&pc__libc_allocator);
    pc__schema_tree *tree;
    env.context_length = 20;
    CHECK_STATUS(pc__schema_tree_parse(&tree, &env, worked, sizeof worked - 1), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("spans 22 positions, the model has 20");
}

/* A byte order mark is no text, at the start of a document or of a file that src= names. */
static void byte_order_marks(void)
{
    static const char marked[] =
        "\xef\xbb\xbf<schema name='s'><module name='m' src='marked.txt'/></schema>";
    pc__pml_env env = env_of(&pc__libc_allocator);
    pc__schema_tree *tree = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/marked.txt", pc_test_folder());
    pc_test_write(path, "\xef\xbb\xbfone two", 10);
    env.base_folder = pc_test_folder();
    if (CHECK_OK(pc__schema_tree_parse(&tree, &env, marked, sizeof marked - 1))) {
        CHECK_INT(tree->length, 2);
        CHECK_STR(tree->nodes[2]->text, "one two");
    }
    pc__schema_tree_free(tree, &pc__libc_allocator);
}

/* Text in a reference follows the whole module that is referred to; after a nested reference it
 * follows the nested module. */
static void text_in_references(void)
{
    pc__pml_env env = env_of(&pc__libc_allocator);
    pc__schema_tree *tree;
    pc__resolved *r = NULL;
    const char *prompt =
        "<prompt>before<plan>in plan<a>in a</a>behind a</plan>behind plan<x/>last</prompt>";
    static const struct {
        int64_t start;
        size_t count;
    } want[] = {{3, 1}, {16, 2}, {18, 2}, {19, 2}, {20, 2}, {22, 1}};
    size_t n = 0;
    if (!CHECK_OK(pc__schema_tree_parse(&tree, &env, worked, sizeof worked - 1)))
        return;
    CHECK_OK(pc__resolve(&r, &env, tree, prompt, strlen(prompt)));
    for (size_t i = 0; r && i < r->part_count; i++)
        if (r->parts[i].kind == PC__PART_TEXT && CHECK(n < sizeof want / sizeof *want)) {
            CHECK_INT(r->parts[i].start, want[n].start);
            CHECK_INT(r->parts[i].count, want[n].count);
            n++;
        }
    CHECK_INT(n, sizeof want / sizeof *want);
    pc__resolved_free(r, &pc__libc_allocator);
    pc__schema_tree_free(tree, &pc__libc_allocator);
}

/* A prompt that is too long: the place of the text that does not fit. */
static void beyond_the_end(void)
{
    pc__pml_env env = env_of(&pc__libc_allocator);
    pc__schema_tree *tree;
    pc__resolved *r = NULL;
    const char *prompt = "<prompt>before\n<plan/>\n  <user>one two three</user></prompt>";
    if (!CHECK_OK(pc__schema_tree_parse(&tree, &env, worked, sizeof worked - 1)))
        return;
    env.context_length = 26;
    CHECK_STATUS(pc__resolve(&r, &env, tree, prompt, strlen(prompt)), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("t.pml:3:3: the prompt ends at position 28 (the schema at 22), the model "
                    "has 26; the text");
    pc__schema_tree_free(tree, &pc__libc_allocator);
}

/* "text|text|…" of a schema under these flags. */
static void check_blanks(const char *schema, uint64_t flags, const char *want)
{
    pc__pml_env env = env_of(&pc__libc_allocator);
    pc__schema_tree *tree = NULL;
    char got[512] = "";
    env.flags = flags;
    CHECK_OK(pc__schema_tree_parse(&tree, &env, schema, strlen(schema)));
    for (size_t i = 0; tree && i < tree->node_count; i++)
        if (tree->nodes[i]->kind == PC__NODE_TEXT)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s|", tree->nodes[i]->text);
    CHECK_STR(got, want);
    pc__schema_tree_free(tree, &pc__libc_allocator);
}

/* Blanks between elements and inside of chat tags: as they are, one where they separate, none where
 * they do not. */
static void blanks(void)
{
    const char *tags = "<schema name='s'>\n<system>\n be\n  kind\n</system>\n<user>a </user> "
                       "<module name='m'>m1</module></schema>";
    const char *head = "<schema name='s'><system>be</system>\n<module name='a'> a1 "
                       "</module>\n<module name='b'> b1 </module></schema>";
    const char *lines = "<schema name='s'>\n<module name='a'>\n one  two\n</module>\n<module "
                        "name='b'>three</module>\n"
                        "<module name='n'>\n<module name='in'>i1</module>\n</module>\n</schema>";
    const char *after = "<schema name='s'>open <union><module name='u'>u1 </module>\n<module "
                        "name='v'>v1 </module></union>\n"
                        "<union><module name='w'>w1 </module><module name='x'>x1</module></union>\n"
                        "<module name='p'> <param name='q' len='1'/> </module> </schema>";
    check_blanks(tags, 0, "<S> \n be\n  kind\n </S>\n<U> a  </U> <A> |m1|");
    check_blanks(tags, PC_PML_COMPACT, "<S> be kind </S><U> a </U> <A>|m1|");
    check_blanks(head, 0, "<S> be </S> | a1 | | b1 |");
    check_blanks(head, PC_PML_COMPACT, "<S> be </S>| a1 | b1 |");
    check_blanks(lines, 0, " | one  two | |three| | |i1| | |");
    check_blanks(lines, PC_PML_COMPACT, " one two |three| |i1| |"); /* b and in end with a word */
    check_blanks(after, 0, "open |u1 |v1 | |w1 |x1| | | | |");
    check_blanks(after, PC_PML_COMPACT,
                 "open |u1 |v1 |w1 |x1| | |"); /* x and the argument of q end with anything */
    check_blanks("<schema name='s'><module name='m'><parameter name='p' length='2'/> <module "
                 "name='k'>k</module></module></schema>",
                 PC_PML_COMPACT, " |k|");
}

/* PML is UTF-8; what expat would read besides is refused, by its mark or without one. */
static void wide_text(void)
{
    static const struct {
        const char *text;
        size_t size;
    } wide[] = {{"\xff\xfe<\0s\0/\0>\0", 10}, {"\xfe\xff\0<\0s\0/\0>", 10},
                {"<\0s\0/\0>\0", 8},          {"\0<\0s\0/\0>", 8},
                {"\xff\xfe\0\0<\0\0\0", 8},   {"\0\0\xfe\xff\0\0\0<", 8},
                {"<\0\0\0s\0\0\0", 8}};
    pc__pml_env env = env_of(&pc__libc_allocator);
    pc__schema_tree *tree;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        CHECK_STATUS(pc__schema_tree_parse(&tree, &env, wide[i].text, wide[i].size), PC_ERR_PML);
        CHECK_ERROR_HAS("t.pml:1:1: this is UTF-16 or UTF-32; PML is UTF-8");
    }
}

/* What src= may name. */
static void src_fault(const char *src, const char *content, size_t size, const char *cause)
{
    pc__pml_env env = env_of(&pc__libc_allocator);
    pc__schema_tree *tree;
    char path[512], schema[256];
    env.base_folder = pc_test_folder();
    if (content) {
        snprintf(path, sizeof path, "%s/%s", pc_test_folder(), src);
        pc_test_write(path, content, size);
    }
    int n = snprintf(schema, sizeof schema,
                     "<schema name='s'>\n<module name='m' src='%s'/></schema>", src);
    CHECK_STATUS(pc__schema_tree_parse(&tree, &env, schema, (size_t)n), PC_ERR_PML);
    CHECK_ERROR_HAS("t.pml:2:1: src");
    CHECK_ERROR_HAS(cause);
}

static void src_faults(void)
{
    src_fault("", NULL, 0, "names no file");
    src_fault(".", NULL, 0, "not a regular file");
    src_fault("..", NULL, 0, "lies outside the schema's folder");
    src_fault("nowhere", NULL, 0, "No such file");
    src_fault("empty", "", 0, "src='empty': the file is empty");
    src_fault("mark", "\xef\xbb\xbf", 3, "src='mark': the file is empty");
    src_fault("wide", "h\0i\0", 4, "src='wide': this is UTF-16 or UTF-32, not UTF-8");
    src_fault("zero", "abc\0d", 5, "src='zero': byte 3 is not UTF-8");
    src_fault("/etc/passwd", NULL, 0, "lies outside the schema's folder");
    src_fault("latin", "caf\xe9 au", 7, "src='latin': byte 3 is not UTF-8");
}

/* What lies outside is refused whatever is wrong with the folder, and a pipe does not block. */
static void src_outside(void)
{
    static const char schema[] = "<schema name='s'><module name='m' src='/etc/passwd'/></schema>";
    pc__pml_env env = env_of(&pc__libc_allocator);
    pc__schema_tree *tree = NULL;
    char pipe[512];
    env.base_folder = "/nonexistent/folder";
    CHECK_STATUS(pc__schema_tree_parse(&tree, &env, schema, sizeof schema - 1), PC_ERR_PML);
    CHECK_ERROR_HAS("src: '/etc/passwd' lies outside the schema's folder");
    snprintf(pipe, sizeof pipe, "%s/pipe", pc_test_folder());
    CHECK(!mkfifo(pipe, 0600));
    src_fault("pipe", NULL, 0, "pipe: not a regular file");
}

static void failing_allocations(void)
{
    const char *prompt = "<prompt schema='t'>a <plan dur='3 days'><a city='New "
                         "York'/></plan><x/><user>final text</user></prompt>";
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator allocator = pc_test_allocator(&memory);
        pc_status status = both(&allocator, worked, prompt);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        CHECK_INT(memory.live_blocks, 0);
        if (memory.calls < at)
            break;
    }
}

int main(void)
{
    worked_example();
    texts();
    every_fault();
    byte_order_marks();
    text_in_references();
    beyond_the_end();
    blanks();
    wide_text();
    src_faults();
    src_outside();
    failing_allocations();
    return pc_test_end();
}
