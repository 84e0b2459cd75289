/* Reads tekken.json of Mistral: config (the expression, the numbers of tokens), vocab (base64 of
 * the bytes, in the order of ranks) and special_tokens. Ids: first all special tokens, then the
 * ranks. Like tiktoken's vocabularies it has no merges (tokenizer_tiktoken.c). */
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "text/json_file.h"
#include "text/tokenizer_internal.h"

enum { TEKKEN_LIMIT = 256 << 20, FILLER_SIZE = 40 };

typedef struct tekken_file {
    const pc_allocator *mem;
    const char *path;
    json_t *root; /* texts of special tokens point into it */
    pc__text *tokens;
    int32_t *types;
    size_t count, specials;
    char *arena, *fillers;
} tekken_file;

/* What versions up to 7 have, whose files do not list them. */
static const char *const older_specials[] = {"<unk>",
                                             "<s>",
                                             "</s>",
                                             "[INST]",
                                             "[/INST]",
                                             "[AVAILABLE_TOOLS]",
                                             "[/AVAILABLE_TOOLS]",
                                             "[TOOL_RESULTS]",
                                             "[/TOOL_RESULTS]",
                                             "[TOOL_CALLS]",
                                             "[IMG]",
                                             "<pad>",
                                             "[IMG_BREAK]",
                                             "[IMG_END]",
                                             "[PREFIX]",
                                             "[MIDDLE]",
                                             "[SUFFIX]",
                                             "[SYSTEM_PROMPT]",
                                             "[/SYSTEM_PROMPT]",
                                             "[TOOL_CONTENT]"};

static pc_status read_count(const tekken_file *f, const char *key, size_t *out)
{
    int64_t count;
    if (!pc__json_integer(json_object_get(json_object_get(f->root, "config"), key), 0,
                          PC__MOST_TOKENS, &count))
        return pc__fail(PC_ERR_FORMAT, "%s: config.%s is not a number of tokens", f->path, key);
    *out = (size_t)count;
    return PC_OK;
}

static pc_status place(tekken_file *f, int64_t id, const char *name)
{
    if (id < 0 || (size_t)id >= f->specials || !name || !*name)
        return pc__fail(PC_ERR_FORMAT, "%s: special_tokens: rank %lld, text '%.40s'", f->path,
                        (long long)id, name ? name : "");
    f->tokens[id] = pc__text_of(name);
    return PC_OK;
}

/* Those that have no name are <SPECIAL_n>. */
static pc_status read_specials(tekken_file *f)
{
    const json_t *list = json_object_get(f->root, "special_tokens"), *item;
    size_t i;
    if (!(f->fillers = pc__calloc(f->mem, f->specials, FILLER_SIZE)))
        return PC_ERR_NOMEM;
    for (i = 0; i < f->specials; i++) {
        char *filler = f->fillers + i * FILLER_SIZE;
        snprintf(filler, FILLER_SIZE, "<SPECIAL_%zu>", i);
        f->tokens[i] = pc__text_of(filler);
        f->types[i] = PC__TOKEN_CONTROL;
    }
    if (!list || json_is_null(list))
        for (i = 0; i < sizeof older_specials / sizeof *older_specials; i++)
            PC__TRY_RETURN(place(f, (int64_t)i, older_specials[i]));
    json_array_foreach(list, i, item)
    {
        int64_t rank = -1;
        pc__json_integer(json_object_get(item, "rank"), 0, PC__MOST_TOKENS, &rank);
        PC__TRY_RETURN(place(f, rank, json_string_value(json_object_get(item, "token_str"))));
    }
    return PC_OK;
}

static pc_status read_ranks(tekken_file *f)
{
    const json_t *list = json_object_get(f->root, "vocab");
    size_t ranks = f->count - f->specials, room = 0, n;
    if (json_array_size(list) < ranks)
        return pc__fail(PC_ERR_FORMAT, "%s: vocab has %zu tokens, config asks for %zu", f->path,
                        json_array_size(list), ranks);
    for (size_t i = 0; i < ranks; i++)
        room += json_string_length(json_object_get(json_array_get(list, i), "token_bytes"));
    char *at = f->arena = pc__alloc(f->mem, room + 1);
    if (!at)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < ranks; i++) {
        const json_t *entry = json_array_get(list, i),
                     *bytes = json_object_get(entry, "token_bytes");
        int64_t rank;
        if (!pc__json_integer(json_object_get(entry, "rank"), (int64_t)i, (int64_t)i, &rank)
            || !json_string_length(bytes)
            || sodium_base642bin((unsigned char *)at, json_string_length(bytes),
                                 json_string_value(bytes), json_string_length(bytes), NULL, &n,
                                 NULL, sodium_base64_VARIANT_ORIGINAL))
            return pc__fail(PC_ERR_FORMAT, "%s: vocab[%zu] is not rank %zu with its base64",
                            f->path, i, i);
        f->tokens[f->specials + i] = (pc__text){at, n};
        f->types[f->specials + i] = PC__TOKEN_NORMAL;
        at += n;
    }
    return PC_OK;
}

static int32_t special_id(const tekken_file *f, const char *name)
{
    for (size_t i = 0; i < f->specials; i++)
        if (pc__text_equals(f->tokens[i], pc__text_of(name)))
            return (int32_t)i;
    return -1;
}

static pc_status read_tekken(tekken_file *f)
{
    PC__TRY_RETURN(read_count(f, "default_vocab_size", &f->count));
    PC__TRY_RETURN(read_count(f, "default_num_special_tokens", &f->specials));
    if (f->specials >= f->count
        || f->count - f->specials > json_array_size(json_object_get(f->root, "vocab")))
        return pc__fail(
            PC_ERR_FORMAT, "%s: %zu tokens of which %zu are special do not fit a vocab of %zu",
            f->path, f->count, f->specials, json_array_size(json_object_get(f->root, "vocab")));
    f->tokens = pc__calloc(f->mem, f->count, sizeof *f->tokens);
    f->types = pc__calloc(f->mem, f->count, sizeof *f->types);
    if (!f->tokens || !f->types)
        return PC_ERR_NOMEM;
    PC__TRY_RETURN(read_specials(f));
    return read_ranks(f);
}

static pc_status build_tekken(pc__tokenizer **out, const tekken_file *f)
{
    const json_t *pattern = json_object_get(json_object_get(f->root, "config"), "pattern");
    pc__token_rules rules = {.add_bos = 1, .raw_bytes = 1, .ignore_merges = 1};
    pc__split split = {.expression = json_string_value(pattern)};
    if (!json_string_length(pattern) || strlen(split.expression) != json_string_length(pattern))
        return pc__fail(PC_ERR_FORMAT, "%s: config.pattern is no expression", f->path);
    const pc__vocab vocab = {.kind = PC__VOCAB_BPE,
                             .where = f->path,
                             .count = f->count,
                             .tokens = f->tokens,
                             .types = f->types,
                             .bos = special_id(f, "<s>"),
                             .eos = special_id(f, "</s>"),
                             .unk = special_id(f, "<unk>"),
                             .pad = special_id(f, "<pad>"),
                             .sep = -1,
                             .cls = -1};
    PC__TRY_RETURN(pc__check_byte_tokens(&vocab));
    return pc__tokenizer_build(out, f->mem, &vocab, &rules, &split, 1);
}

pc_status pc__tokenizer_from_tekken(pc__tokenizer **out, const pc_allocator *mem, const char *path)
{
    tekken_file f = {.mem = mem, .path = path};
    *out = NULL;
    PC__TRY_RETURN(pc__json_file(&f.root, mem, path, TEKKEN_LIMIT, JSON_ALLOW_NUL));
    pc_status status = read_tekken(&f);
    if (status >= 0)
        status = build_tekken(out, &f);
    json_decref(f.root);
    pc__free(mem, f.tokens);
    pc__free(mem, f.types);
    pc__free(mem, f.arena);
    pc__free(mem, f.fillers);
    return status;
}
