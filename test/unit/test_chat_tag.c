/* Catches: chat tags that become something else than the chat template's pieces: in the first turn
 * after a system prompt of a template that joins both, before an answer that is given, in a schema
 * whose prompt continues the conversation. */
#include "chat_vocab.h"
#include "pml/chat_tag.h"

#include <string.h>

#include "pml/resolve.h"
#include "testing.h"

static char name[] = "t", why[] = "nobody knows it";
static pc__chat chat = {.name = name,
                        .pieces = {.system_open = "(S",
                                   .system_close = "s)",
                                   .system_empty = "(E)",
                                   .user_open = "(U",
                                   .user_close = "u)(A",
                                   .generation = "?",
                                   .assistant_open = ":",
                                   .assistant_close = "a)"}};

static pc__pml_env env = {.mem = &pc__libc_allocator,
                          .chat = &chat,
                          .tokens = pc_test_byte_tokens,
                          .where = "t.pml",
                          .tokens_user = (void *)(uintptr_t)&pc__libc_allocator};

/* What schema and prompt say together. */
static void says(const char *schema, const char *prompt, const char *want)
{
    char text[256];
    size_t n = 0;
    pc__schema_tree *tree = NULL;
    pc__resolved *r = NULL;
    if (CHECK_OK(pc__schema_tree_parse(&tree, &env, schema, strlen(schema)))
        && CHECK_OK(pc__resolve(&r, &env, tree, prompt, strlen(prompt)))) {
        for (size_t p = 0; p < r->part_count; p++)
            for (size_t i = 0; i < r->parts[p].count; i++)
                text[n++] = (char)r->parts[p].tokens[i];
        text[n] = 0;
        if (!CHECK_STR(text, want))
            fprintf(stderr, "    %s %s\n", schema, prompt);
    }
    pc__resolved_free(r, &pc__libc_allocator);
    pc__schema_tree_free(tree, &pc__libc_allocator);
}

static void turns(void)
{
    for (int joins = 0; joins <= 1; joins++) {
        chat.system_joins_user = joins;
        says("<schema name='s'><system>be</system></schema>",
             "<prompt schema='s'><user>q</user></prompt>",
             joins ? "(Sbes)qu)(A?" : "(Sbes)(Uqu)(A?");
        says("<schema name='s'><system>be</system><user>q</user></schema>",
             "<prompt schema='s'><user>r</user></prompt>",
             joins ? "(Sbes)qu)(A?(Uru)(A?" : "(Sbes)(Uqu)(A?(Uru)(A?");
        says("<schema name='s'><system/></schema>", "<prompt schema='s'><user>q</user></prompt>",
             "(E)(Uqu)(A?");
        says("<schema name='s'><system> </system></schema>",
             "<prompt schema='s'><user>q</user> </prompt>", "(E)(Uqu)(A?");
        says("<schema name='s'><module name='m'><system>be</system></module></schema>",
             "<prompt schema='s'><m/><user>q</user>\n<assistant>w</assistant>\n<user>r</user>"
             "</prompt>",
             joins ? "(Sbes)qu)(A:wa)(Uru)(A?" : "(Sbes)(Uqu)(A:wa)(Uru)(A?");
        says("<schema name='s'><system>be</system><user>q</user><assistant>w</assistant></schema>",
             "<prompt schema='s'><user>r</user></prompt>",
             joins ? "(Sbes)qu)(A:wa)(Uru)(A?" : "(Sbes)(Uqu)(A:wa)(Uru)(A?");
        says("<schema name='s'>x</schema>",
             "<prompt schema='s'><user>q</user> so <assistant>w</assistant></prompt>",
             "x(Uqu)(A? so :wa)");
    }
    chat.system_joins_user = 0;
}

static void faults(void)
{
    static const char *const schemas[] = {"<schema name='s'>\n  <system>be</system></schema>",
                                          "<schema name='s'>\n  <user>be</user></schema>",
                                          "<schema name='s'>\n  <system/></schema>"};
    pc__schema_tree *tree = NULL;
    for (int i = 0; i < 3; i++) {
        chat.unknown = why;
        CHECK_STATUS(pc__schema_tree_parse(&tree, &env, schemas[i], strlen(schemas[i])),
                     PC_ERR_PML);
        CHECK_ERROR_HAS(i == 1 ? "t.pml:2:3: <user>: nobody knows it"
                               : "t.pml:2:3: <system>: nobody knows it");
        chat.unknown = NULL;
        chat.no_system = why;
        CHECK_STATUS(pc__schema_tree_parse(&tree, &env, schemas[i], strlen(schemas[i])),
                     i ? PC_OK : PC_ERR_PML);
        pc__schema_tree_free(tree, &pc__libc_allocator);
        chat.no_system = NULL;
    }
    CHECK_STATUS(pc__schema_tree_parse(&tree, &env, "<schema name='s'><user x='1'/></schema>", 39),
                 PC_ERR_PML);
    CHECK_ERROR_HAS("'x'");
}

int main(void)
{
    turns();
    faults();
    return pc_test_end();
}
