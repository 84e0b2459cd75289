/* Schemas from RelayAttention's schema string, and prompts without PML over any schema. */
#include <promptcache/prompt.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "pml/system_format.h"
#include "pml/xml.h"
#include "serve/prompt.h"

static const char plain_format[] = PC__SYSTEM_FORMAT_SYSTEM PC__SYSTEM_FORMAT_USER;

pc_status pc__system_format_file(const pc_allocator *mem, const char *path, char **format,
                                 size_t *size)
{
    size_t mark;
    PC__TRY_RETURN(pc__file_read(mem, path, PC__PML_FILE_BYTES, format, size));
    mark = pc__utf8_mark(*format, *size);
    *size -= mark;
    memmove(*format, *format + mark, *size);
    if (*size && (*format)[*size - 1] == '\n')
        --*size;
    if (*size && (*format)[*size - 1] == '\r')
        --*size;
    return PC_OK;
}

/* A text from memory or from a file. */
typedef struct format_text {
    const char *data;
    size_t size;
    char *own; /* of a file, to be freed */
} format_text;

static pc_status read_text(format_text *out, const pc_allocator *mem, const char *what,
                           const char *data, size_t size, const char *path)
{
    pc_status status = PC_OK;
    if (path && data)
        return pc__fail(PC_ERR_INVALID, "pc_system_format: %s and %s_file exclude each other", what,
                        what);
    PC__TRY_RETURN(pc__check_array("pc_system_format", what, data, size, 1));
    *out = (format_text){data ? data : "", size, NULL};
    if (path && (status = pc__system_format_file(mem, path, &out->own, &out->size)) >= 0)
        out->data = out->own;
    return status;
}

static pc_status check_format(const pc_model *model, const pc_system_format *r)
{
    PC__TRY_RETURN(pc__check_flags("pc_system_format", r->flags, PC_FORMAT_CHAT));
    if (r->flags && (r->format || r->format_file))
        return pc__fail(PC_ERR_INVALID,
                        "pc_system_format: a schema string and PC_FORMAT_CHAT exclude each "
                        "other");
    if (r->tokens && (r->system || r->system_file))
        return pc__fail(PC_ERR_INVALID, "pc_system_format: system and tokens exclude each other");
    if (r->name && !*r->name)
        return pc__fail(PC_ERR_INVALID, "pc_system_format: name is empty");
    PC__TRY_RETURN(pc__check_array("pc_system_format", "tokens", r->tokens, r->token_count,
                                   sizeof *r->tokens));
    return pc__check_tokens(model, "pc_system_format", r->tokens, r->token_count);
}

pc_status pc_schema_from_format(pc_schema **out, const pc_model *model,
                                const pc_system_format *from)
{
    PC__HOLD(pc_model, model);
    pc_system_format r;
    pc__system_format_source source = {0};
    pc__schema_tree *tree;
    pc__pml_env env;
    format_text format = {0}, system = {0};
    const pc_allocator *mem;
    pc_status status;
    int given;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_schema_from_format: out is NULL");
    *out = NULL;
    if (!model || !from)
        return pc__fail(PC_ERR_INVALID, "pc_schema_from_format: model or format is NULL");
    mem = &model->context->mem;
    PC__TRY(pc__options_read(&r, sizeof r, PC__V1_SIZE(pc_system_format, flags), from,
                             "pc_system_format"),
            done);
    PC__TRY(check_format(model, &r), done);
    PC__TRY(read_text(&format, mem, "format", r.format, r.format_size, r.format_file), done);
    PC__TRY(read_text(&system, mem, "system", r.system, r.system_size, r.system_file), done);
    source.name = r.name ? r.name : "system";
    source.where = r.format_file ? r.format_file : r.flags ? "chat template" : "schema string";
    given = r.format || r.format_file;
    if (!r.flags)
        source.format = given ? format.data : plain_format;
    source.format_size = given ? format.size : strlen(plain_format);
    source.system = system.data;
    source.system_size = system.size;
    source.tokens = r.tokens;
    source.token_count = r.token_count;
    pc__pml_env_of(&env, model, source.where);
    PC__TRY(pc__system_format_tree(&tree, &env, &source), done);
    status = pc__schema_from_tree(out, model, tree);
done:
    pc__free(mem, format.own);
    pc__free(mem, system.own);
    return status;
}

/* The request's text, or its tokens where `text` is NULL. */
static pc_status fill_slot(pc_prompt **out, const pc_schema *schema, const char *text,
                           const int32_t *ids, size_t size)
{
    pc__resolved *resolved;
    pc__pml_env env;
    int32_t *tokens;
    size_t count;
    pc__pml_env_of(&env, schema->model, "prompt");
    PC__TRY_RETURN(
        text ? pc__system_format_user(&env, schema->tree, text, size, &tokens, &count)
             : pc__system_format_user_tokens(&env, schema->tree, ids, size, &tokens, &count));
    PC__TRY_RETURN(pc__resolve_slot(&resolved, &env, schema->tree, tokens, count));
    return pc__prompt_from_resolved(out, schema, resolved);
}

pc_status pc_prompt_fill(pc_prompt **out, const pc_schema *schema, const char *given, size_t size,
                         const pc_prompt_options *options)
{
    PC__HOLD(pc_schema, schema);
    uint64_t flags;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_fill: out is NULL");
    *out = NULL;
    if (!schema)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_fill: schema is NULL");
    PC__TRY_RETURN(pc__prompt_flags(&flags, "pc_prompt_fill", options, 0));
    PC__TRY_RETURN(pc__check_array("pc_prompt_fill", "text", given, size, 1));
    return fill_slot(out, schema, given ? given : "", NULL, size);
}

pc_status pc_prompt_fill_tokens(pc_prompt **out, const pc_schema *schema, const int32_t *given,
                                size_t given_count, const pc_prompt_options *options)
{
    PC__HOLD(pc_schema, schema);
    uint64_t flags;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_fill_tokens: out is NULL");
    *out = NULL;
    if (!schema)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_fill_tokens: schema is NULL");
    PC__TRY_RETURN(pc__prompt_flags(&flags, "pc_prompt_fill_tokens", options, 0));
    PC__TRY_RETURN(pc__check_tokens(schema->model, "pc_prompt_fill_tokens", given, given_count));
    return fill_slot(out, schema, NULL, given, given_count);
}
