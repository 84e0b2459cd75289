#include <stdio.h>

#include "base/options.h"
#include "serve/request.h"
#include "serve/unit_encode.h"

typedef struct encoding {
    pc__unit_work work;
    pc_encode_options options;
    pc__unit_keys *keys;
    size_t done; /* units */
    int cancelled;
} encoding;

/* Reports where we are; also asked by the model in the middle of a unit. */
static int32_t report(void *user)
{
    encoding *e = user;
    const pc__recipe *recipe = e->work.recipe;
    const char *what = e->done < recipe->unit_count ? recipe->units[e->done].name : "";
    if (!e->options.progress || e->cancelled)
        return e->cancelled;
    e->cancelled = e->options.progress(e->options.progress_user, what, e->done,
                                       recipe->unit_count) != 0;
    return e->cancelled;
}

/* PC_MISS: something of the unit is not in the store yet. */
static pc_status is_there(encoding *e, size_t unit)
{
    pc_status status = pc__unit_work_start(&e->work);
    for (size_t i = 0; i < e->work.recipe->units[unit].count && status == PC_OK; i++) {
        pc_segment *segment;
        size_t leaf = e->work.recipe->units[unit].leaf[i];
        if (leaf != PC__NO_LEAF)
            status = pc__unit_find(&e->work, leaf, &segment);
    }
    return status;
}

/* Nothing stays referenced beyond its unit: what is held here could not be evicted. */
static pc_status encode_unit(encoding *e, size_t unit)
{
    pc_status status = is_there(e, unit);
    if (status == PC_MISS)
        status = pc__unit_encode(&e->work, unit);
    pc__unit_work_end(&e->work);
    return status;
}

static pc_status run(encoding *e)
{
    for (; e->done < e->work.recipe->unit_count; e->done++) {
        pc_status status;
        if (report(e))
            return pc__fail(PC_ERR_CANCELLED, "pc_schema_encode: cancelled after %zu of %zu",
                            e->done, e->work.recipe->unit_count);
        status = encode_unit(e, e->done);
        if (status < 0)
            return status;
    }
    report(e);
    return e->work.refused ? PC_MISS : PC_OK;
}

static pc_status check(const pc_schema *schema, pc_cache *cache, const pc_encode_options *o)
{
    if (!schema || !cache)
        return pc__fail(PC_ERR_INVALID, "pc_schema_encode: schema or cache is NULL");
    if (o->reserved || o->encoding > PC_ENCODE_EXACT)
        return pc__fail(PC_ERR_INVALID, "pc_schema_encode: unknown encoding %u, or reserved is set",
                        o->encoding);
    if (o->encoding == PC_ENCODE_EXACT)
        return pc__fail(PC_ERR_UNSUPPORTED, "pc_schema_encode: exact states depend on the prompt, "
                                            "there is nothing to encode ahead");
    return pc__model_can_compute(schema->model);
}

pc_status pc_schema_encode(const pc_schema *schema, pc_cache *cache,
                           const pc_encode_options *options)
{
    encoding e = {0};
    pc__regime regime;
    pc_status status = pc__options_read(&e.options, sizeof e.options,
                                        PC__V1_SIZE(pc_encode_options, progress_user), options,
                                        "pc_encode_options");
    if (status < 0 || (status = check(schema, cache, &e.options)) < 0)
        return status;
    regime = pc__serve_regime(schema->model, schema->tree->length);
    e.work.model = schema->model;
    e.work.cache = cache;
    e.work.regime_length = regime.length;
    if (e.options.progress) {
        e.work.cancelled = report;
        e.work.cancel_user = &e;
    }
    PC__TRY(pc__schema_recipe(schema, e.options.encoding, &e.work.recipe), done);
    PC__TRY(pc__schema_keys(schema, e.work.recipe, cache, regime.key, NULL, 0, &e.keys), done);
    e.work.keys = e.keys;
    status = run(&e);
done:
    pc__unit_keys_unref(e.keys);
    return status;
}
