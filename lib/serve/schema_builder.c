/* Schemas that an application puts together (lib/pml/builder.h). */
#include <promptcache/prompt.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "pml/builder.h"
#include "serve/schema.h"

struct pc_schema_builder {
    atomic_size_t references;
    pc_model *model;
    uint32_t max_tokens;
    pc__builder b;
};

static pc_schema_builder *builder_ref(pc_schema_builder *builder)
{
    atomic_fetch_add_explicit(&builder->references, 1, memory_order_relaxed);
    return builder;
}
PC__HOLDABLE(pc_schema_builder, builder_ref, pc_schema_builder_free)

void pc_schema_builder_free(pc_schema_builder *builder)
{
    pc_model *model;
    if (!builder || atomic_fetch_sub_explicit(&builder->references, 1, memory_order_acq_rel) != 1)
        return;
    model = builder->model;
    pc__builder_free(&builder->b);
    pc__free(&model->context->mem, builder);
    pc__model_unref(model);
}

static pc_status read_options(uint32_t *max_tokens, const pc_schema_options *options)
{
    pc_schema_options o;
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_schema_options, base_folder),
                                    options, "pc_schema_options"));
    PC__TRY_RETURN(pc__check_flags("pc_schema_builder_new: pc_schema_options", o.flags, 0));
    if (o.reserved || o.base_folder)
        return pc__fail(PC_ERR_INVALID,
                        "pc_schema_builder_new: base_folder is for PML; reserved must be zero");
    *max_tokens = o.max_tokens;
    return PC_OK;
}

pc_status pc_schema_builder_new(pc_schema_builder **out, const pc_model *model, const char *name,
                                const pc_schema_options *options)
{
    PC__HOLD(pc_model, model);
    pc_schema_builder *builder;
    uint32_t max_tokens = 0;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_schema_builder_new: out is NULL");
    *out = NULL;
    if (!model || !name)
        return pc__fail(PC_ERR_INVALID, "pc_schema_builder_new: model or name is NULL");
    PC__TRY_RETURN(pc__model_has_order(model));
    PC__TRY_RETURN(read_options(&max_tokens, options));
    const pc_allocator *mem = &model->context->mem;
    if (!(builder = pc__calloc(mem, 1, sizeof *builder)))
        return PC_ERR_NOMEM;
    atomic_init(&builder->references, 1);
    builder->model = pc__model_ref(model);
    builder->max_tokens = max_tokens;
    pc_status status = pc__builder_start(&builder->b, mem, "schema", "schema");
    if (status >= 0)
        status = pc__element_set(builder->b.root, mem, "name", name, strlen(name));
    if (status < 0)
        pc_schema_builder_free(builder);
    else
        *out = builder;
    return status;
}

static pc_status check_builder(const pc_schema_builder *builder, const char *call)
{
    return builder ? PC_OK : pc__fail(PC_ERR_INVALID, "%s: builder is NULL", call);
}

pc_status pc_schema_builder_add_text(pc_schema_builder *builder, const char *text, size_t size,
                                     uint64_t flags)
{
    PC__HOLD(pc_schema_builder, builder);
    static const char call[] = "pc_schema_builder_add_text";
    PC__TRY_RETURN(check_builder(builder, call));
    return pc__builder_add_text(&builder->b, call, text, size, flags);
}

/* An element with an attribute (value NULL: without), open or not. */
static pc_status add_element(pc_schema_builder *builder, const char *call, const char *tag,
                             const char *attribute, const char *value, pc__element **out)
{
    pc__builder *b = &builder->b;
    PC__TRY_RETURN(pc__builder_add(b, call, tag, out));
    if (!value || pc__element_set(*out, b->mem, attribute, value, strlen(value)) >= 0)
        return PC_OK;
    pc__builder_drop_last(b);
    return PC_ERR_NOMEM;
}

pc_status pc_schema_builder_begin_module(pc_schema_builder *builder, const char *name,
                                         uint64_t flags)
{
    PC__HOLD(pc_schema_builder, builder);
    static const char call[] = "pc_schema_builder_begin_module";
    pc__element *module;
    PC__TRY_RETURN(check_builder(builder, call));
    if (!name)
        return pc__fail(PC_ERR_INVALID, "%s: name is NULL", call);
    PC__TRY_RETURN(pc__check_flags(call, flags, PC_ITEM_UNCACHED));
    PC__TRY_RETURN(add_element(builder, call, "module", "name", name, &module));
    if (flags && pc__element_set(module, builder->b.mem, "cache", "false", 5) < 0) {
        pc__builder_drop_last(&builder->b);
        return PC_ERR_NOMEM;
    }
    pc__builder_open_last(&builder->b);
    return PC_OK;
}

pc_status pc_schema_builder_begin_union(pc_schema_builder *builder, const char *scaffold)
{
    PC__HOLD(pc_schema_builder, builder);
    static const char call[] = "pc_schema_builder_begin_union";
    pc__element *added;
    PC__TRY_RETURN(check_builder(builder, call));
    PC__TRY_RETURN(add_element(builder, call, "union", "scaffold", scaffold, &added));
    pc__builder_open_last(&builder->b);
    return PC_OK;
}

pc_status pc_schema_builder_begin_turn(pc_schema_builder *builder, const char *role)
{
    PC__HOLD(pc_schema_builder, builder);
    static const char call[] = "pc_schema_builder_begin_turn";
    PC__TRY_RETURN(check_builder(builder, call));
    return pc__builder_begin_turn(&builder->b, call, role);
}

pc_status pc_schema_builder_end(pc_schema_builder *builder)
{
    static const char call[] = "pc_schema_builder_end";
    PC__TRY_RETURN(check_builder(builder, call));
    return pc__builder_end(&builder->b, call);
}

pc_status pc_schema_builder_add_parameter(pc_schema_builder *builder, const char *name,
                                          int64_t length, const char *scaffold, size_t size)
{
    PC__HOLD(pc_schema_builder, builder);
    static const char call[] = "pc_schema_builder_add_parameter";
    pc__element *parameter;
    char number[24];
    PC__TRY_RETURN(check_builder(builder, call));
    if (!name)
        return pc__fail(PC_ERR_INVALID, "%s: name is NULL", call);
    PC__TRY_RETURN(pc__check_array(call, "scaffold", scaffold, size, 1));
    snprintf(number, sizeof number, "%lld", (long long)length);
    PC__TRY_RETURN(add_element(builder, call, "parameter", "name", name, &parameter));
    const pc_allocator *mem = builder->b.mem;
    pc_status status = pc__element_set(parameter, mem, "length", number, strlen(number));
    if (status >= 0 && size)
        status = pc__element_set(parameter, mem, "scaffold", scaffold, size);
    if (status < 0)
        pc__builder_drop_last(&builder->b);
    return status;
}

pc_status pc_schema_builder_add_scaffold(pc_schema_builder *builder, const char *const *modules,
                                         size_t count)
{
    PC__HOLD(pc_schema_builder, builder);
    static const char call[] = "pc_schema_builder_add_scaffold";
    pc__element *set;
    pc_status status = PC_OK;
    PC__TRY_RETURN(check_builder(builder, call));
    PC__TRY_RETURN(pc__check_array(call, "modules", modules, count, sizeof *modules));
    PC__TRY_RETURN(pc__builder_check_closed(&builder->b, call));
    if (count < 2)
        return pc__fail(PC_ERR_INVALID, "%s: %zu modules; at least 2 are needed", call, count);
    for (size_t i = 0; i < count; i++)
        if (!modules[i])
            return pc__fail(PC_ERR_INVALID, "%s: module %zu is NULL", call, i);
    PC__TRY_RETURN(pc__builder_add(&builder->b, call, "scaffold", &set));
    for (size_t i = 0; i < count && status >= 0; i++)
        status = pc__element_set(set, builder->b.mem, "modules", modules[i], strlen(modules[i]));
    if (status < 0)
        pc__builder_drop_last(&builder->b);
    return status;
}

pc_status pc_schema_from_builder(pc_schema **out, const pc_schema_builder *builder)
{
    PC__HOLD(pc_schema_builder, builder);
    static const char call[] = "pc_schema_from_builder";
    pc__schema_tree *tree;
    pc__pml_env env;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "%s: out is NULL", call);
    *out = NULL;
    PC__TRY_RETURN(check_builder(builder, call));
    PC__TRY_RETURN(pc__builder_check_closed(&builder->b, call));
    pc__pml_env_of(&env, builder->model, "schema");
    env.max_tokens = builder->max_tokens;
    PC__TRY_RETURN(pc__schema_tree_of(&tree, &env, builder->b.root));
    return pc__schema_from_tree(out, builder->model, tree);
}
