/* Catches: a published schema that no longer loads, or is laid out otherwise, and a broken one
 * whose error does not name the true fault. */
#include <promptcache/prompt.h>
#include <stdio.h>
#include <string.h>

#include "testing.h"

static const struct published {
    const char *name;
    int64_t length; /* with the Llama 2 vocabulary; -1: it must fail */
    size_t modules, unions, parameters;
    const char *fault;
} files[] = {
    {"code_generation_bookstore.xml", 984, 5, 0, 0, NULL},
    {"code_generation_game.xml", -1, 0, 0, 0, ":167:20: not well-formed"}, /* bare '<' in code */
    {"empty.xml", 10, 0, 0, 0, NULL},
    {"parameterized_prompts.xml", 289, 11, 2, 2, NULL},
    {"persona_generation.xml", 1645, 35, 6, 0, NULL},
    {"personalization-education.xml", 1636, 30, 6, 0, NULL},
    {"prompt_mbti.xml", -1, 0, 0, 0, "the root element is <prompt>, not <schema>"},
    {"schema_code_generation.xml", -1, 0, 0, 0,
     ":15:9: the scaffold text of parameter 'param-name' has 6 tokens, its length is 5"},
    {"schema_long_task_1.xml", -1, 0, 0, 0,
     ":15:9: the scaffold text of parameter 'param-name' has 6 tokens, its length is 5"},
    {"schema_mbti.xml", 824, 12, 4, 0, NULL},
    {"schema_mbti_short.xml", 120, 12, 4, 0, NULL},
    {"schema_persona.xml", 680, 42, 6, 0, NULL},
    {"schema_persona_long.xml", 1645, 40, 6, 0, NULL},
};

static void count(const pc_schema *schema, const struct published *f)
{
    size_t n[5] = {0};
    for (size_t i = 0; i < pc_schema_item_count(schema); i++) {
        pc_item item = PC_ITEM_INIT;
        CHECK_OK(pc_schema_get_item(schema, i, &item));
        n[item.kind]++;
    }
    CHECK_INT(pc_schema_length(schema), f->length);
    CHECK_INT(n[PC_ITEM_MODULE], f->modules);
    CHECK_INT(n[PC_ITEM_UNION], f->unions);
    CHECK_INT(n[PC_ITEM_PARAMETER], f->parameters);
}

int main(void)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    const char *vocab = pc_test_data("data/ggml-vocab/ggml-vocab-llama-spm.gguf");
    if (!vocab || !pc_test_data("data/promptcache-pml"))
        pc_test_skip("../shared/data is not there");
    options.flags = PC_MODEL_VOCAB_ONLY;
    options.chat_template =
        "none"; /* the vocabulary has none of its own; lengths are those of the texts */
    CHECK_OK(pc_context_new(&context, NULL));
    CHECK_OK(pc_model_load(&model, context, vocab, &options));
    for (size_t i = 0; model && i < sizeof files / sizeof *files; i++) {
        char path[256];
        pc_schema *schema = NULL;
        snprintf(path, sizeof path, "data/promptcache-pml/%s", files[i].name);
        pc_status status = pc_schema_load(&schema, model, pc_test_data(path), NULL);
        printf("%s: %s\n", files[i].name, status < 0 ? pc_error_text() : "loads");
        CHECK_INT(status, files[i].fault ? PC_ERR_PML : PC_OK);
        if (schema)
            count(schema, &files[i]);
        else if (files[i].fault)
            CHECK_ERROR_HAS(files[i].fault);
        pc_schema_free(schema);
    }
    pc_model_free(model);
    pc_context_free(context);
    return pc_test_end();
}
