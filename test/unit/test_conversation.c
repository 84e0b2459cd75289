/* Catches: prompts whose conversation, put together from schema and prompt, modules and arguments,
 * is not what the model's own chat template is asked about; prompts that are refused for text in no
 * turn, or for blanks that are the document's. */
#include "chat_vocab.h"
#include "pml/conversation.h"

#include <string.h>

#include "pml/resolve.h"
#include "testing.h"

static char name[] = "own";
/* It writes the roles, and refuses what it is asked with the contents as the reason. */
static char refuses[] = "{{ raise_exception(messages | map(attribute='role') | join(' ') ~ ': ' ~ "
                        "messages | map(attribute='content') | join('/')) }}";
static char plain[] = "{% for m in messages %}({{ m.content | trim }}){% endfor %}?";
static pc__chat chat = {.name = name,
                        .pieces = {.system_open = "(",
                                   .system_close = ")",
                                   .system_empty = "",
                                   .user_open = "(",
                                   .user_close = ")",
                                   .generation = "?",
                                   .assistant_open = "(",
                                   .assistant_close = ")"}};

static pc_status resolve(const pc_allocator *mem, const char *schema, const char *prompt)
{
    pc__pml_env env = {.mem = mem,
                       .chat = &chat,
                       .tokens = pc_test_byte_tokens,
                       .where = "t.pml",
                       .tokens_user = (void *)(uintptr_t)mem};
    pc__schema_tree *tree = NULL;
    pc__resolved *r = NULL;
    pc_status status = pc__schema_tree_parse(&tree, &env, schema, strlen(schema));
    if (status >= 0)
        status = pc__resolve(&r, &env, tree, prompt, strlen(prompt));
    pc__resolved_free(r, mem);
    pc__schema_tree_free(tree, mem);
    return status;
}

#define SCHEMA(text) "<schema name='s'>" text "</schema>"
#define PROMPT(text) "<prompt schema='s'>" text "</prompt>"

/* What the template is asked about. */
static void asked(void)
{
    static const struct {
        const char *schema, *prompt, *want;
    } cases[] = {
        {SCHEMA("<system>be brief</system>"), PROMPT("<user>who?</user>"),
         "system user: be brief/who?"},
        {SCHEMA("<system/>"), PROMPT("<user>who?</user><assistant>me</assistant>"),
         "user assistant user: who?/me/uSer1words"},
        {SCHEMA("<system>a <module name='m'>b</module> c <module name='n'>d</module></system>"),
         PROMPT("<n/><user> e\n</user>"), "system user: a  c d/e"},
        {SCHEMA("<system>a</system><user><module name='m'>see <parameter name='p' length='9'/> and"
                "</module> go</user>"),
         PROMPT("<m p='Paris'>now</m> !"), "system user: a/see Paris and go"},
        {SCHEMA("before <system>a</system> after"), PROMPT("x <user>b</user> y"),
         "system user: a/b"},
        {SCHEMA("<system>&lt;a&gt;</system>"), PROMPT("<user>b</user><user>c</user>"),
         "system user user: &lt;a&gt;/b/c"},
    };
    chat.jinja = refuses;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[128], *out = want;
        for (const char *p = cases[i].want; *p; p++) /* entities stand for their characters */
            if (!strncmp(p, "&lt;", 4) || !strncmp(p, "&gt;", 4)) {
                *out++ = p[1] == 'l' ? '<' : '>';
                p += 3;
            } else {
                *out++ = *p;
            }
        *out = 0;
        CHECK_STATUS(resolve(&pc__libc_allocator, cases[i].schema, cases[i].prompt),
                     PC_ERR_UNSUPPORTED);
        CHECK_ERROR_HAS(want);
        CHECK_ERROR_HAS("t.pml");
    }
}

static void accepted(void)
{
    chat.jinja = plain;
    CHECK_OK(resolve(&pc__libc_allocator, SCHEMA("<system> a </system>"),
                     PROMPT("<user>\n b <assistant/></user> tail")));
    CHECK_OK(resolve(&pc__libc_allocator, SCHEMA("no tags"), PROMPT("at all")));
    CHECK_STATUS(resolve(&pc__libc_allocator, SCHEMA("<system> a </system>"),
                         PROMPT("<user>b</user><user>c</user>")),
                 PC_ERR_UNSUPPORTED);
    chat.jinja = NULL; /* named by the user: nothing to compare with */
    CHECK_OK(resolve(&pc__libc_allocator, SCHEMA("<system> a </system>"),
                     PROMPT("<user>b</user><user>c</user>")));
}

static void no_memory(void)
{
    uint64_t failures = 0;
    chat.jinja = plain;
    for (int more = 1; more;) {
        pc_test_memory memory = {.fail_at = ++failures};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc_status status = resolve(&mem, SCHEMA("<system>a <module name='m'>b</module></system>"),
                                   PROMPT("<m/><user>c</user>"));
        more = memory.calls >= failures;
        CHECK_STATUS(status, more ? PC_ERR_NOMEM : PC_OK);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK(failures > 20);
}

int main(void)
{
    asked();
    accepted();
    no_memory();
    return pc_test_end();
}
