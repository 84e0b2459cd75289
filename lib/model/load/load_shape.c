/* pc_model_new_shape: a model of known sizes with random weights. */
#include <promptcache/bench.h>
#include <string.h>

#include "model/load/arch.h"
#include "model/load/load.h"
#include "model/load/random_weights.h"

static pc__id fingerprint_of(const pc__arch *arch, uint64_t seed)
{
    pc__digest digest;
    pc__digest_start(&digest, "random-weights/1");
    pc__digest_u64(&digest, seed);
    return pc__model_fingerprint(arch, pc__digest_end(&digest));
}

/* A named shape, or the path of a config.json. */
static pc_status find_shape(pc__arch *out, const pc_allocator *mem, const char *shape)
{
    return strchr(shape, '/') || strstr(shape, ".json") ? pc__arch_from_config(out, mem, shape)
                                                        : pc__arch_from_shape(out, shape);
}

pc_status pc_model_new_shape(pc_model **out, pc_context *context, const char *shape, uint64_t seed,
                             const pc_model_options *options)
{
    PC__HOLD(pc_context, context);
    pc_model_options settings;
    pc_model *model = NULL;
    pc__arch arch = {0}, bound;
    pc__random_weights weights;
    pc__weight_provider provider;
    pc__id fingerprint;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_model_new_shape: out is NULL");
    *out = NULL;
    if (!context || !shape)
        return pc__fail(PC_ERR_INVALID, "pc_model_new_shape: context or shape is NULL");
    PC__TRY(pc__load_options(&settings, options), done);
    if (settings.flags)
        return pc__fail(PC_ERR_INVALID,
                        "pc_model_new_shape: flags must be 0, a shape has no vocabulary");
    PC__TRY(find_shape(&arch, &context->mem, shape), done);
    PC__TRY(pc__model_new(&model, context), done);
    fingerprint = fingerprint_of(&arch, seed);
    pc__random_weights_provider(&weights, &arch, seed, &provider);
    pc__bind_options how = {pc__choose_compute(context, settings.compute, PC_DTYPE_BF16),
                            settings.kv,
                            0,
                            settings.progress,
                            settings.progress_user,
                            NULL,
                            NULL};
    bound = arch;
    arch.rope.short_factors = arch.rope.long_factors = NULL; /* binding takes them */
    PC__TRY(pc__native_bind(&model->native, context, &bound, &provider, &how), done);
    PC__TRY(pc__model_finish(model, &arch, &fingerprint, settings.chat_template), done);
    *out = model;
    model = NULL;
done:
    pc__arch_clear(&context->mem, &arch);
    pc__model_unref(model);
    return status;
}
