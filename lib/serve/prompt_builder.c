/* Prompts that an application puts together (lib/pml/builder.h). */
#include <promptcache/prompt.h>
#include <string.h>

#include "base/options.h"
#include "pml/builder.h"
#include "serve/prompt.h"

struct pc_prompt_builder {
    atomic_size_t references;
    pc_schema *schema;
    pc__element *last; /* the module that was used last, while arguments may follow */
    pc__builder b;
};

static pc_prompt_builder *builder_ref(pc_prompt_builder *builder)
{
    atomic_fetch_add_explicit(&builder->references, 1, memory_order_relaxed);
    return builder;
}
PC__HOLDABLE(pc_prompt_builder, builder_ref, pc_prompt_builder_free)

void pc_prompt_builder_free(pc_prompt_builder *builder)
{
    pc_schema *schema;
    if (!builder || atomic_fetch_sub_explicit(&builder->references, 1, memory_order_acq_rel) != 1)
        return;
    schema = builder->schema;
    pc__builder_free(&builder->b);
    pc__free(&schema->model->context->mem, builder);
    pc_schema_free(schema);
}

pc_status pc_prompt_builder_new(pc_prompt_builder **out, const pc_schema *schema)
{
    PC__HOLD(pc_schema, schema);
    pc_prompt_builder *builder;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_builder_new: out is NULL");
    *out = NULL;
    if (!schema)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_builder_new: schema is NULL");
    const pc_allocator *mem = &schema->model->context->mem;
    if (!(builder = pc__calloc(mem, 1, sizeof *builder)))
        return PC_ERR_NOMEM;
    atomic_init(&builder->references, 1);
    builder->schema = pc__schema_ref(schema);
    pc_status status = pc__builder_start(&builder->b, mem, "prompt", "prompt");
    if (status < 0)
        pc_prompt_builder_free(builder);
    else
        *out = builder;
    return status;
}

static pc_status check_builder(const pc_prompt_builder *builder, const char *call)
{
    return builder ? PC_OK : pc__fail(PC_ERR_INVALID, "%s: builder is NULL", call);
}

pc_status pc_prompt_builder_add_text(pc_prompt_builder *builder, const char *text, size_t size,
                                     uint64_t flags)
{
    PC__HOLD(pc_prompt_builder, builder);
    static const char call[] = "pc_prompt_builder_add_text";
    PC__TRY_RETURN(check_builder(builder, call));
    PC__TRY_RETURN(pc__builder_add_text(&builder->b, call, text, size, flags));
    if (size)
        builder->last = NULL;
    return PC_OK;
}

pc_status pc_prompt_builder_use(pc_prompt_builder *builder, const char *module)
{
    PC__HOLD(pc_prompt_builder, builder);
    static const char call[] = "pc_prompt_builder_use";
    PC__TRY_RETURN(check_builder(builder, call));
    return pc__builder_use(&builder->b, call, module, &builder->last);
}

pc_status pc_prompt_builder_add_argument(pc_prompt_builder *builder, const char *parameter,
                                         const char *text, size_t size)
{
    PC__HOLD(pc_prompt_builder, builder);
    static const char call[] = "pc_prompt_builder_add_argument";
    PC__TRY_RETURN(check_builder(builder, call));
    if (!parameter)
        return pc__fail(PC_ERR_INVALID, "%s: parameter is NULL", call);
    PC__TRY_RETURN(pc__check_array(call, "text", text, size, 1));
    if (!builder->last)
        return pc__fail(PC_ERR_STATE, "%s: no module was used right before", call);
    if (pc__element_attribute(builder->last, parameter))
        return pc__fail(PC_ERR_PML, "%s: parameter '%.60s' of module '%.60s' has an argument", call,
                        parameter, builder->last->name);
    return pc__element_set(builder->last, builder->b.mem, parameter, text ? text : "", size);
}

pc_status pc_prompt_builder_begin_turn(pc_prompt_builder *builder, const char *role)
{
    PC__HOLD(pc_prompt_builder, builder);
    static const char call[] = "pc_prompt_builder_begin_turn";
    PC__TRY_RETURN(check_builder(builder, call));
    PC__TRY_RETURN(pc__builder_begin_turn(&builder->b, call, role));
    builder->last = NULL;
    return PC_OK;
}

pc_status pc_prompt_builder_end(pc_prompt_builder *builder)
{
    static const char call[] = "pc_prompt_builder_end";
    PC__TRY_RETURN(check_builder(builder, call));
    PC__TRY_RETURN(pc__builder_end(&builder->b, call));
    builder->last = NULL;
    return PC_OK;
}

pc_status pc_prompt_from_builder(pc_prompt **out, const pc_prompt_builder *builder,
                                 const pc_prompt_options *options)
{
    PC__HOLD(pc_prompt_builder, builder);
    static const char call[] = "pc_prompt_from_builder";
    pc__resolved *resolved;
    pc__pml_env env;
    uint64_t flags;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "%s: out is NULL", call);
    *out = NULL;
    PC__TRY_RETURN(check_builder(builder, call));
    PC__TRY_RETURN(pc__prompt_flags(&flags, call, options, PC_PML_OVERLAP));
    PC__TRY_RETURN(pc__builder_check_closed(&builder->b, call));
    pc__pml_env_of(&env, builder->schema->model, "prompt");
    env.flags = flags;
    PC__TRY_RETURN(
        pc__resolve_elements(&resolved, &env, builder->schema->tree, builder->b.root, 0));
    return pc__prompt_from_resolved(out, builder->schema, resolved);
}
