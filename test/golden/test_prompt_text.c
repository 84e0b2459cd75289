/* Prompts of plain text. Catches: the text of a special token that ends a turn although others have
 * written it; a flag without effect; BOS and EOS that are missing or not wanted; flags of other
 * calls that pass. */
#include <promptcache/prompt.h>
#include <string.h>

#include "testing.h"

enum { ROOM = 64 };

typedef struct list {
    int32_t tokens[ROOM];
    size_t count, ends; /* of them EOS */
} list;

static void add(list *l, int32_t token, int32_t eos)
{
    if (CHECK(l->count < ROOM))
        l->tokens[l->count++] = token;
    l->ends += token == eos;
}

static list of_prompt(const pc_model *model, const char *text, uint64_t flags, int32_t eos)
{
    pc_prompt_options o = PC_PROMPT_OPTIONS_INIT;
    pc_prompt *prompt = NULL;
    list l = {{0}, 0, 0};
    o.flags = flags;
    CHECK_OK(pc_prompt_from_text(&prompt, model, text, strlen(text), &o));
    for (size_t p = 0; p < pc_prompt_part_count(prompt); p++) {
        pc_part part = PC_PART_INIT;
        CHECK_OK(pc_prompt_get_part(prompt, p, &part));
        for (size_t t = 0; t < part.count; t++)
            add(&l, part.tokens[t], eos);
    }
    pc_prompt_free(prompt);
    return l;
}

static list of_tokenizer(const pc_model *model, const char *text, uint64_t flags, int32_t eos)
{
    int32_t tokens[ROOM];
    size_t count = 0;
    list l = {{0}, 0, 0};
    CHECK_OK(pc_tokenize(model, text, strlen(text), flags, tokens, ROOM, &count));
    for (size_t t = 0; t < count; t++)
        add(&l, tokens[t], eos);
    return l;
}

static int equal(const list *a, const list *b)
{
    return a->count == b->count && !memcmp(a->tokens, b->tokens, a->count * sizeof *a->tokens);
}

static void refused(const pc_model *model, int32_t token)
{
    pc_prompt_options o = PC_PROMPT_OPTIONS_INIT;
    pc_prompt *prompt = (pc_prompt *)&prompt;
    o.flags = PC_PML_COMPACT;
    CHECK_STATUS(pc_prompt_from_text(&prompt, model, "text", 4, &o), PC_ERR_INVALID);
    CHECK_ERROR_HAS("pc_prompt_from_text: unknown flags 0x1");
    CHECK(!prompt);
    o.flags = PC_PROMPT_SPECIAL;
    CHECK_STATUS(pc_prompt_from_tokens(&prompt, model, &token, 1, &o), PC_ERR_INVALID);
    CHECK_ERROR_HAS("pc_prompt_from_tokens: unknown flags 0x100");
    o.struct_size = 4;
    CHECK_STATUS(pc_prompt_from_tokens(&prompt, model, &token, 1, &o), PC_ERR_INVALID);
}

static void check(pc_context *context, const char *path)
{
    static const struct {
        uint64_t prompt, tokenize;
    } cases[] = {{0, PC_TOKENIZE_BOS},
                 {PC_PROMPT_NO_BOS, 0},
                 {PC_PROMPT_SPECIAL, PC_TOKENIZE_BOS | PC_TOKENIZE_SPECIAL},
                 {PC_PROMPT_SPECIAL | PC_PROMPT_NO_BOS, PC_TOKENIZE_SPECIAL}};
    pc_model *model = NULL;
    pc_model_info info = PC_MODEL_INFO_INIT;
    char text[96] = "the desk", end[64];
    size_t size = 0, ends[4];
    CHECK_OK(pc_model_load(&model, context, path, NULL));
    CHECK_OK(pc_model_get_info(model, &info));
    CHECK_OK(
        pc_detokenize(model, &info.token_eos, 1, PC_TOKENIZE_SPECIAL, end, sizeof end - 1, &size));
    end[size] = 0;
    strcat(strcat(text, end), " is here");
    for (size_t i = 0; i < 4; i++) {
        list got = of_prompt(model, text, cases[i].prompt, info.token_eos);
        list want = of_tokenizer(model, text, cases[i].tokenize, info.token_eos);
        CHECK(equal(&got, &want));
        ends[i] = got.ends;
    }
    CHECK_INT(ends[3], 1);
    CHECK_INT(ends[1], 0);
    refused(model, info.token_eos);
    pc_model_free(model);
}

int main(void)
{
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    check(context, PC_SOURCE_DIR "/models/demo/demo.gguf");
    pc_context_free(context);
    return pc_test_end();
}
