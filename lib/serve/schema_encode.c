/* pc_schema_encode: all units of a schema into the cache, one after the other. */
#include <promptcache/cache.h>
#include <stdio.h>

#include "base/options.h"
#include "serve/fetch.h"
#include "serve/unit_encode.h"

typedef struct schema_encoding {
    pc__unit_work work;
    pc_encode_options options;
    size_t done; /* units */
    int cancelled;
} schema_encoding;

/* Reports progress; the model asks it in the middle of a unit too. */
static int32_t report_progress(void *user)
{
    schema_encoding *e = user;
    const pc__recipe *recipe = e->work.recipe;
    const char *what = e->done < recipe->unit_count ? recipe->units[e->done].name : "";
    if (!e->options.progress || e->cancelled)
        return e->cancelled;
    pc__callback_begin();
    e->cancelled = e->options.progress(e->options.progress_user, what, e->done, recipe->unit_count)
                   != 0;
    return e->cancelled;
}

/* Takes the leaves that are in RAM. */
static pc_status look_up_unit(schema_encoding *e, const pc__unit *unit)
{
    PC__TRY_RETURN(pc__unit_work_start(&e->work));
    for (size_t i = 0; i < unit->count; i++) {
        pc_segment *segment;
        if (unit->leaf[i] != PC__NO_LEAF)
            PC__TRY_RETURN(pc__unit_find(&e->work, unit->leaf[i], &segment));
    }
    return PC_OK;
}

/* Loads from the tiers below RAM, as far as that is faster than computing. */
static pc_status load_unit(schema_encoding *e, const pc__unit *unit)
{
    pc__fetch fetch;
    pc_status status = pc__fetch_start(&fetch, e->work.model, e->work.cache, unit->count);
    double cost = fetch.count ? pc__fetch_cost(e->work.model, e->work.cache, unit->tokens) : 0;
    for (size_t i = 0; i < fetch.count && status >= 0; i++) {
        pc__segment_facts facts;
        if (unit->leaf[i] == PC__NO_LEAF || e->work.made[unit->leaf[i]])
            continue;
        facts = pc__unit_facts(&e->work, unit->leaf[i]);
        status = pc__fetch_look_up(&fetch, i, &facts,
                                   cost * (double)facts.count / (double)unit->tokens);
    }
    if (status >= 0)
        pc__fetch_wait(&fetch, 0);
    for (size_t i = 0; i < fetch.count && status >= 0; i++)
        if (unit->leaf[i] != PC__NO_LEAF && !e->work.made[unit->leaf[i]])
            pc__fetch_get(&fetch, i, &e->work.made[unit->leaf[i]], NULL);
    pc__fetch_end(&fetch);
    return status;
}

static int is_made(const schema_encoding *e, const pc__unit *unit)
{
    for (size_t i = 0; i < unit->count; i++)
        if (unit->leaf[i] != PC__NO_LEAF && !e->work.made[unit->leaf[i]])
            return 0;
    return 1;
}

/* PC_MISS: a leaf did not stay in RAM. */
static pc_status pin_unit(schema_encoding *e, const pc__unit *unit)
{
    pc_status status = PC_OK, all = PC_OK;
    for (size_t i = 0; e->options.pin && i < unit->count && status >= 0; i++) {
        if (unit->leaf[i] == PC__NO_LEAF)
            continue;
        status = pc_cache_pin(e->work.cache, e->work.keys->leaves[unit->leaf[i]].bytes,
                              e->options.pin_owner, e->options.pin_seconds);
        all = status == PC_OK ? all : status;
    }
    return all;
}

/* Drops all references behind the unit: referenced segments cannot be evicted. */
static pc_status encode_unit(schema_encoding *e, size_t index)
{
    const pc__unit *unit = &e->work.recipe->units[index];
    pc_status status;
    PC__TRY(look_up_unit(e, unit), done);
    if (!is_made(e, unit))
        PC__TRY(load_unit(e, unit), done);
    if (!is_made(e, unit))
        PC__TRY(pc__unit_encode(&e->work, index), done);
    status = pin_unit(e, unit);
    e->work.refused |= status == PC_MISS;
done:
    pc__unit_work_drop(&e->work);
    return status;
}

static pc_status encode_units(schema_encoding *e)
{
    for (; e->done < e->work.recipe->unit_count; e->done++) {
        if (report_progress(e))
            return pc__callback_cancelled("pc_schema_encode: cancelled after %zu of %zu", e->done,
                                          e->work.recipe->unit_count);
        PC__TRY_RETURN(encode_unit(e, e->done));
    }
    report_progress(e);
    return e->work.refused ? PC_MISS : PC_OK;
}

pc_status pc_schema_encode(const pc_schema *schema, pc_cache *cache,
                           const pc_encode_options *options)
{
    PC__HOLD(pc_schema, schema);
    PC__HOLD(pc_cache, cache);
    schema_encoding e = {0};
    pc__request_owners owners;
    pc__request_regime regime;
    pc_status status;
    PC__TRY_RETURN(
        pc__encode_options_read(&e.options, &owners, options, schema, cache, "pc_schema_encode"));
    PC__TRY(pc__model_can_go_on(schema->model), done);
    regime = pc__regime_for_length(schema->model, e.options.rope_regime_length,
                                   schema->tree->length);
    e.work.ttl = e.options.ttl_seconds;
    e.work.priority = e.options.priority;
    e.work.wait_for_room = 1;
    if (e.options.progress) {
        e.work.cancelled = report_progress;
        e.work.cancel_user = &e;
    }
    status = pc__unit_work_init(&e.work, schema, cache, e.options.encoding, &regime, &owners);
    if (status >= 0)
        status = encode_units(&e);
    pc__unit_work_end(&e.work);
done:
    pc__request_owners_end(&owners, &schema->model->context->mem);
    return status;
}
