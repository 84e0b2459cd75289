/* Prompts from PML, from text and from tokens, and their parts for callers. */
#include "serve/prompt.h"

#include <promptcache/prompt.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "pml/pml_names.h"

pc_prompt *pc__prompt_ref(const pc_prompt *prompt)
{
    pc_prompt *counted = (pc_prompt *)(uintptr_t)prompt;
    atomic_fetch_add_explicit(&counted->references, 1, memory_order_relaxed);
    return counted;
}

void pc_prompt_free(pc_prompt *prompt)
{
    pc_model *model;
    if (!prompt || atomic_fetch_sub_explicit(&prompt->references, 1, memory_order_acq_rel) != 1)
        return;
    model = prompt->model;
    if (prompt->resolved)
        pc__resolved_free(prompt->resolved, &model->context->mem);
    pc_schema_free(prompt->schema);
    for (size_t i = 0; i < prompt->given_count; i++)
        pc__segment_unref(prompt->given[i].segment);
    pc__free(&model->context->mem, prompt->given);
    pc__free(&model->context->mem, prompt->tokens);
    pc__free(&model->context->mem, prompt->blocks);
    pc__free(&model->context->mem, prompt);
    pc__model_unref(model);
}

pc_prompt *pc__prompt_new(const pc_model *model)
{
    pc_prompt *prompt = pc__calloc(&model->context->mem, 1, sizeof *prompt);
    if (prompt) {
        atomic_init(&prompt->references, 1);
        prompt->model = pc__model_ref(model);
    }
    return prompt;
}

pc_status pc__prompt_flags(uint64_t *flags, const char *call, const pc_prompt_options *options,
                           uint64_t known)
{
    pc_prompt_options o;
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_prompt_options, flags), options,
                                    "pc_prompt_options"));
    *flags = o.flags;
    return pc__check_flags(call, o.flags, known);
}

/* ------------------------------------------------------------------ blocks */

/* Parts [first, *end) are new text without a gap: returns its tokens. Or one other part: 0. */
static size_t text_run(const pc__resolved *resolved, size_t first, size_t *end)
{
    const pc__prompt_part *parts = resolved->parts;
    size_t count = 0, p = first;
    for (; p < resolved->part_count && parts[p].kind == PC__PART_TEXT; p++) {
        if (parts[p].start != parts[first].start + (int64_t)count)
            break;
        count += parts[p].count;
    }
    *end = p > first ? p : first + 1;
    return count;
}

/* The last token of a run may be the prompt's, which is always computed: it is in no block. */
static size_t block_count(size_t tokens)
{
    return tokens ? (tokens - 1) / PC__BLOCK_TOKENS : 0;
}

/* Cuts tokens [count] into blocks and a rest; all are like `part` but for place and tokens. */
static pc__prompt_part *cut_blocks(pc__prompt_part *to, const pc__prompt_part *part,
                                   int32_t *tokens, size_t count)
{
    size_t blocks = block_count(count);
    for (size_t i = 0; i <= blocks; i++) {
        size_t first = i * PC__BLOCK_TOKENS;
        *to = *part;
        to->tokens = tokens + first;
        to->count = i < blocks ? PC__BLOCK_TOKENS : count - first;
        to->start = part->start + (int64_t)first;
        to->is_block = i < blocks;
        to++;
    }
    return to;
}

/* New text that has blocks, in one piece. */
static pc__prompt_part *cut_run(pc_prompt *prompt, pc__prompt_part *to, int32_t *tokens,
                                size_t first, size_t end)
{
    const pc__prompt_part *parts = prompt->resolved->parts;
    size_t count = 0;
    for (size_t p = first; p < end; count += parts[p++].count)
        if (parts[p].count)
            memcpy(tokens + count, parts[p].tokens, parts[p].count * sizeof *tokens);
    return cut_blocks(to, &parts[first], tokens, count);
}

static void cut_texts(pc_prompt *prompt)
{
    const pc__resolved *resolved = prompt->resolved;
    pc__prompt_part *to = prompt->blocks;
    size_t used = 0;
    for (size_t p = 0, end; p < resolved->part_count; p = end) {
        size_t tokens = text_run(resolved, p, &end);
        if (block_count(tokens)) {
            to = cut_run(prompt, to, prompt->tokens + used, p, end);
            used += tokens;
        } else {
            memcpy(to, resolved->parts + p, (end - p) * sizeof *to);
            to += end - p;
        }
    }
    prompt->parts = prompt->blocks;
    prompt->part_count = (size_t)(to - prompt->blocks);
}

static pc_status cut_new_text(pc_prompt *prompt)
{
    const pc__resolved *resolved = prompt->resolved;
    const pc_allocator *mem = &prompt->model->context->mem;
    size_t tokens = 0, blocks = 0;
    for (size_t p = 0, end; p < resolved->part_count; p = end) {
        size_t count = text_run(resolved, p, &end);
        tokens += block_count(count) ? count : 0;
        blocks += block_count(count);
    }
    if (!blocks)
        return PC_OK;
    prompt->tokens = pc__calloc(mem, tokens, sizeof *prompt->tokens);
    prompt->blocks = pc__calloc(mem, resolved->part_count + blocks, sizeof *prompt->blocks);
    if (!prompt->tokens || !prompt->blocks)
        return PC_ERR_NOMEM;
    cut_texts(prompt);
    return PC_OK;
}

pc_status pc__prompt_from_resolved(pc_prompt **out, const pc_schema *schema, pc__resolved *resolved)
{
    pc_prompt *prompt = pc__prompt_new(schema->model);
    pc_status status;
    if (!prompt) {
        pc__resolved_free(resolved, &schema->model->context->mem);
        return PC_ERR_NOMEM;
    }
    prompt->resolved = resolved;
    prompt->schema = pc__schema_ref(schema);
    prompt->parts = resolved->parts;
    prompt->part_count = resolved->part_count;
    prompt->end = resolved->end;
    status = cut_new_text(prompt);
    if (status < 0)
        pc_prompt_free(prompt);
    else
        *out = prompt;
    return status;
}

/* ------------------------------------------------------------------ PML */

static pc_status check_schemas(pc_schema *const *schemas, size_t count)
{
    if (!schemas || !count)
        return pc__fail(PC_ERR_INVALID, "pc_prompt: no schema given");
    PC__TRY_RETURN(pc__check_array("pc_prompt", "schemas", schemas, count, sizeof(*schemas)));
    for (size_t i = 0; i < count; i++)
        if (!schemas[i])
            return pc__fail(PC_ERR_INVALID, "pc_prompt: schema %zu is NULL", i);
    return PC_OK;
}

/* Index of the first schema of that name from `from` on; `count`: none. */
static size_t find_named(pc_schema *const *schemas, size_t from, size_t count, const char *name)
{
    while (from < count && strcmp(schemas[from]->tree->name, name))
        from++;
    return from;
}

/* A schema in error texts: its index and, if it has one, its file. */
static const char *schema_label(pc_schema *const *schemas, size_t index, char *out, size_t size)
{
    const char *file = schemas[index]->file;
    snprintf(out, size, "schema %zu%s%.120s%s", index, file ? " (" : "", file ? file : "",
             file ? ")" : "");
    return out;
}

/* `first` is the first of its name; no other may have that name. */
static pc_status check_alone(const pc__pml_env *env, const pc__prompt_head *at,
                             pc_schema *const *schemas, size_t count, size_t first)
{
    const char *name = schemas[first]->tree->name;
    size_t twin = find_named(schemas, first + 1, count, name);
    char one[160], other[160];
    if (twin == count)
        return PC_OK;
    return pc__place_fault(PC_ERR_INVALID, env->where, at->line, at->column,
                           "two of the given schemas are named '%.60s': %s and %s", name,
                           schema_label(schemas, first, one, sizeof one),
                           schema_label(schemas, twin, other, sizeof other));
}

static pc_status not_given(const pc__pml_env *env, const pc__prompt_head *at,
                           pc_schema *const *schemas, size_t count)
{
    char list[256] = "";
    for (size_t i = 0; i < count; i++)
        pc__list_name(list, sizeof list, "'", schemas[i]->tree->name);
    if (at->schema)
        return pc__place_fault(PC_ERR_NOT_FOUND, env->where, at->line, at->column,
                               "the prompt is for schema '%.100s'; given: %s", at->schema, list);
    return pc__place_fault(PC_ERR_NOT_FOUND, env->where, at->line, at->column,
                           "the prompt names no schema and %zu are given: write"
                           " <prompt schema=\"...\"> with one of %s",
                           count, list);
}

/* A prompt without a schema's name is for the only one that is given. */
static pc_status choose_schema(const pc__pml_env *env, pc_schema *const *schemas, size_t count,
                               const char *text, size_t size, const pc_schema **chosen)
{
    pc__prompt_head head;
    pc_status status = pc__prompt_head_read(&head, env, text, size);
    size_t at = 0;
    if (status < 0)
        return status;
    if (head.schema)
        at = find_named(schemas, 0, count, head.schema);
    else if (count > 1)
        at = count;
    status = at == count ? not_given(env, &head, schemas, count)
                         : check_alone(env, &head, schemas, count, at);
    *chosen = status < 0 ? NULL : schemas[at];
    pc__free(env->mem, head.schema);
    return status;
}

/* Of the file, or of the text if `path` is NULL. */
static pc_status read_prompt(pc_prompt **out, pc_schema *const *schemas, size_t count,
                             const char *path, const char *text, size_t size,
                             const pc_prompt_options *options)
{
    const char *where = path ? path : "prompt";
    const pc_allocator *mem;
    const pc_schema *schema;
    char *loaded = NULL, *folder = NULL;
    uint64_t flags;
    pc__resolved *resolved;
    pc__pml_env env;
    pc_status status;
    PC__TRY_RETURN(pc__prompt_flags(&flags, "pc_prompt_options", options, PC__PML_FLAGS));
    mem = &schemas[0]->model->context->mem;
    if (path)
        PC__TRY(pc__pml_file_read(mem, path, &loaded, &size, &folder), done);
    text = loaded ? loaded : text;
    pc__pml_env_of(&env, schemas[0]->model, where);
    PC__TRY(choose_schema(&env, schemas, count, text, size, &schema), done);
    pc__pml_env_of(&env, schema->model, where);
    env.flags = flags;
    env.base_folder = folder;
    PC__TRY(pc__resolve(&resolved, &env, schema->tree, text, size), done);
    status = pc__prompt_from_resolved(out, schema, resolved);
done:
    pc__free(mem, folder);
    pc__free(mem, loaded);
    return status;
}

/* The same, with the schemas held meanwhile. */
static pc_status make_prompt(pc_prompt **out, pc_schema *const *schemas, size_t count,
                             const char *path, const char *text, size_t size,
                             const pc_prompt_options *options)
{
    pc_status status;
    PC__TRY_RETURN(check_schemas(schemas, count));
    for (size_t i = 0; i < count; i++)
        pc__schema_ref(schemas[i]);
    status = read_prompt(out, schemas, count, path, text, size, options);
    for (size_t i = 0; i < count; i++)
        pc_schema_free(schemas[i]);
    return status;
}

pc_status pc_prompt_parse(pc_prompt **out, pc_schema *const *schemas, size_t count,
                          const char *text, size_t size, const pc_prompt_options *options)
{
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_parse: out is NULL");
    *out = NULL;
    PC__TRY_RETURN(pc__check_array("pc_prompt_parse", "text", text, size, 1));
    return make_prompt(out, schemas, count, NULL, text ? text : "", size, options);
}

pc_status pc_prompt_load(pc_prompt **out, pc_schema *const *schemas, size_t count, const char *path,
                         const pc_prompt_options *options)
{
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_load: out is NULL");
    *out = NULL;
    if (!path)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_load: path is NULL");
    return make_prompt(out, schemas, count, path, NULL, 0, options);
}

/* ------------------------------------------------------------------ text and tokens */

static pc_status make_blocks(pc_prompt *prompt, size_t count)
{
    static char no_path[1];
    const pc__prompt_part whole = {.kind = PC__PART_CACHED, .path = no_path};
    size_t blocks = block_count(count);
    prompt->blocks = pc__calloc(&prompt->model->context->mem, blocks + 1, sizeof *prompt->blocks);
    if (!prompt->blocks)
        return PC_ERR_NOMEM;
    cut_blocks(prompt->blocks, &whole, prompt->tokens, count);
    prompt->blocks[blocks].kind = PC__PART_TEXT;
    prompt->parts = prompt->blocks;
    prompt->part_count = blocks + 1;
    prompt->end = (int64_t)count;
    return PC_OK;
}

pc_status pc__check_tokens(const pc_model *model, const char *call, const int32_t *tokens,
                           size_t count)
{
    int32_t limit = model->info.context_length;
    PC__TRY_RETURN(pc__check_array(call, "tokens", tokens, count, sizeof *tokens));
    if (limit > 0 && count > (size_t)limit)
        return pc__fail(PC_ERR_LIMIT, "%s: %zu tokens, the model's context is %d", call, count,
                        limit);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= model->info.vocab)
            return pc__fail(PC_ERR_INVALID, "%s: token %zu is %d, the vocabulary has %d", call, i,
                            tokens[i], model->info.vocab);
    return PC_OK;
}

static pc_status check_prompt_tokens(const pc_model *model, const int32_t *tokens, size_t count)
{
    if (!count)
        return pc__fail(PC_ERR_INVALID, "prompt: it is empty (no tokens)");
    return pc__check_tokens(model, "prompt", tokens, count);
}

pc_status pc__prompt_own_tokens(pc_prompt **out, const pc_model *model, int32_t *tokens,
                                size_t count)
{
    pc_status status = check_prompt_tokens(model, tokens, count);
    pc_prompt *prompt = status < 0 ? NULL : pc__prompt_new(model);
    if (!prompt) {
        pc__free(&model->context->mem, tokens);
        return status < 0 ? status : PC_ERR_NOMEM;
    }
    prompt->tokens = tokens;
    status = make_blocks(prompt, count);
    if (status < 0)
        pc_prompt_free(prompt);
    else
        *out = prompt;
    return status;
}

pc_status pc_prompt_from_tokens(pc_prompt **out, const pc_model *model, const int32_t *tokens,
                                size_t count, const pc_prompt_options *options)
{
    PC__HOLD(pc_model, model);
    uint64_t flags;
    int32_t *copy;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_from_tokens: out is NULL");
    *out = NULL;
    if (!model || !tokens)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_from_tokens: model or tokens is NULL");
    PC__TRY_RETURN(pc__prompt_flags(&flags, "pc_prompt_from_tokens", options, 0));
    PC__TRY_RETURN(check_prompt_tokens(model, tokens, count));
    copy = pc__calloc(&model->context->mem, count, sizeof *copy);
    if (!copy)
        return PC_ERR_NOMEM;
    memcpy(copy, tokens, count * sizeof *copy);
    return pc__prompt_own_tokens(out, model, copy, count);
}

pc_status pc_prompt_from_text(pc_prompt **out, const pc_model *model, const char *text, size_t size,
                              const pc_prompt_options *options)
{
    PC__HOLD(pc_model, model);
    uint64_t flags;
    int32_t *tokens;
    size_t count;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_from_text: out is NULL");
    *out = NULL;
    if (!model)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_from_text: model is NULL");
    PC__TRY_RETURN(pc__check_array("pc_prompt_from_text", "text", text, size, 1));
    PC__TRY_RETURN(pc__prompt_flags(&flags, "pc_prompt_from_text", options,
                                    PC_PROMPT_SPECIAL | PC_PROMPT_NO_BOS));
    PC__TRY_RETURN(pc__model_tokens(model, text ? text : "", size,
                                    (flags & PC_PROMPT_SPECIAL ? PC_TOKENIZE_SPECIAL : 0)
                                        | (flags & PC_PROMPT_NO_BOS ? 0 : PC_TOKENIZE_BOS),
                                    &tokens, &count));
    return pc__prompt_own_tokens(out, model, tokens, count);
}

/* ------------------------------------------------------------------ parts for callers */

/* New text of a schema's prompt is listed as the prompt has it, not in blocks. */
static const pc__prompt_part *listed_parts(const pc_prompt *prompt, size_t *count)
{
    *count = prompt->resolved ? prompt->resolved->part_count : prompt->part_count;
    return prompt->resolved ? prompt->resolved->parts : prompt->parts;
}

size_t pc_prompt_part_count(const pc_prompt *prompt)
{
    size_t count = 0;
    if (prompt)
        listed_parts(prompt, &count);
    return count;
}

pc_status pc_prompt_get_part(const pc_prompt *prompt, size_t index, pc_part *part)
{
    pc_part p = PC_PART_INIT;
    const pc__prompt_part *from;
    size_t count;
    if (!prompt || !part)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_get_part: prompt or part is NULL");
    from = listed_parts(prompt, &count);
    if (index >= count)
        return pc__fail(PC_ERR_NOT_FOUND, "pc_prompt_get_part: part %zu of %zu", index, count);
    from += index;
    p.kind = (uint32_t)from->kind;
    p.path = from->path ? from->path : "";
    p.tokens = from->tokens;
    p.count = from->count;
    p.start = from->start;
    return pc__result_write(part, PC__V1_SIZE(pc_part, start), &p, sizeof p, "pc_part");
}
