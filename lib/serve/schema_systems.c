/* System prompts by name.
 *
 * An entry is a schema and the pins that hold its states in the cache. Tokenising and encoding are
 * done before the lock is taken. Under the lock a finished entry replaces the old one, which is
 * freed after it. */
#include <promptcache/admin.h>
#include <promptcache/prompt.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "pml/pml_names.h"
#include "serve/schema.h"

typedef struct system_entry {
    char name[64];
    pc_schema *schema;
    pc__unit_keys *keys;
    uint8_t *pinned; /* [keys->count] */
    size_t pin_count;
    uint64_t filled;
} system_entry;

struct pc_systems {
    atomic_size_t references; /* the caller's, and one of each call that runs */
    pc_model *model;
    pc_cache *cache;
    char *format; /* NULL: none was given */
    size_t format_size;
    uint32_t encoding;
    uint64_t rope_regime_length;
    uint64_t flags;       /* PC_FORMAT_… */
    pthread_mutex_t lock; /* of the rest */
    system_entry *items;
    size_t count, capacity;
};

static void drop_entry(const pc_systems *s, system_entry *e)
{
    for (size_t i = 0; e->pinned && i < e->keys->count; i++)
        if (e->pinned[i])
            pc__cache_unpin_entry(s->cache, &e->keys->leaves[i]);
    pc__free(&s->model->context->mem, e->pinned);
    pc__unit_keys_unref(e->keys);
    pc_schema_free(e->schema);
    memset(e, 0, sizeof *e);
}

static void clear_entries(pc_systems *s)
{
    system_entry *items;
    size_t count;
    pthread_mutex_lock(&s->lock);
    items = s->items;
    count = s->count;
    s->items = NULL;
    s->count = s->capacity = 0;
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < count; i++)
        drop_entry(s, &items[i]);
    pc__free(&s->model->context->mem, items);
}

void pc_systems_free(pc_systems *s)
{
    pc_model *model;
    if (!s || atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) != 1)
        return;
    model = s->model;
    clear_entries(s);
    pc__free(&model->context->mem, s->format);
    pc__cache_unref(s->cache);
    pthread_mutex_destroy(&s->lock);
    pc__free(&model->context->mem, s);
    pc__model_unref(model);
}

static void ref_systems(pc_systems *s)
{
    atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed);
}

PC__HOLDABLE(pc_systems, ref_systems, pc_systems_free)

pc_status pc_systems_clear(pc_systems *s)
{
    PC__HOLD(pc_systems, s);
    if (!s)
        return pc__fail(PC_ERR_INVALID, "pc_systems_clear: systems is NULL");
    clear_entries(s);
    return PC_OK;
}

static pc_status check_systems_options(const pc_systems_options *o)
{
    PC__TRY_RETURN(pc__check_flags("pc_systems_options", o->flags, PC_FORMAT_CHAT));
    if (o->reserved)
        return pc__fail(PC_ERR_INVALID, "pc_systems_options: reserved must be zero");
    if (o->flags && (o->format || o->format_file))
        return pc__fail(PC_ERR_INVALID, "pc_systems_options: a schema string and PC_FORMAT_CHAT "
                                        "exclude each other");
    if (o->encoding > PC_ENCODE_JOINT)
        return pc__fail(o->encoding == PC_ENCODE_EXACT ? PC_ERR_UNSUPPORTED : PC_ERR_INVALID,
                        "pc_systems_options: encoding %u depends on the prompt or is unknown",
                        o->encoding);
    if (o->format && o->format_file)
        return pc__fail(PC_ERR_INVALID,
                        "pc_systems_options: format and format_file exclude each other");
    return pc__check_array("pc_systems_options", "format", o->format, o->format_size, 1);
}

static pc_status make_schema(const pc_systems *s, const char *name, const char *text, size_t size,
                             const int32_t *tokens, size_t count, pc_schema **out)
{
    pc_system_format source = PC_SYSTEM_FORMAT_INIT;
    source.name = name;
    source.format = s->format;
    source.format_size = s->format_size;
    source.system = text;
    source.system_size = size;
    source.tokens = tokens;
    source.token_count = count;
    source.flags = s->flags;
    return pc_schema_from_format(out, s->model, &source);
}

/* Reports a fault in the schema string now, not with the first name. */
static pc_status read_format(pc_systems *s, const pc_systems_options *o)
{
    const pc_allocator *mem = &s->model->context->mem;
    pc_schema *tried;
    pc_status status = PC_OK;
    if (o->format && !(s->format = pc__strndup(mem, o->format, o->format_size)))
        return PC_ERR_NOMEM;
    s->format_size = o->format_size;
    if (o->format_file)
        status = pc__system_format_file(mem, o->format_file, &s->format, &s->format_size);
    if (status < 0 || !s->format)
        return status;
    status = make_schema(s, NULL, NULL, 0, NULL, 0, &tried);
    pc_schema_free(tried);
    return status < 0 && o->format_file ? pc__fail_in(status, "%s", o->format_file) : status;
}

pc_status pc_systems_new(pc_systems **out, const pc_model *model, pc_cache *cache,
                         const pc_systems_options *options)
{
    PC__HOLD(pc_model, model);
    PC__HOLD(pc_cache, cache);
    pc_systems_options o;
    pc_systems *s;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_systems_new: out is NULL");
    *out = NULL;
    if (!model || !cache)
        return pc__fail(PC_ERR_INVALID, "pc_systems_new: model or cache is NULL");
    PC__TRY_RETURN(pc__options_read(&o, sizeof o,
                                    PC__V1_SIZE(pc_systems_options, rope_regime_length), options,
                                    "pc_systems_options"));
    PC__TRY_RETURN(check_systems_options(&o));
    PC__TRY_RETURN(pc__model_can_go_on(model));
    s = pc__calloc(&model->context->mem, 1, sizeof *s);
    if (!s)
        return PC_ERR_NOMEM;
    atomic_init(&s->references, 1);
    s->model = pc__model_ref(model);
    s->cache = pc__cache_ref(cache);
    s->encoding = o.encoding;
    s->rope_regime_length = o.rope_regime_length;
    s->flags = o.flags;
    pthread_mutex_init(&s->lock, NULL);
    status = read_format(s, &o);
    if (status < 0)
        pc_systems_free(s);
    else
        *out = s;
    return status;
}

static pc_status check_name(const char *call, const pc_systems *s, const char *name)
{
    if (!s || !name)
        return pc__fail(PC_ERR_INVALID, "%s: systems or name is NULL", call);
    if (!*name || strlen(name) >= sizeof((system_entry *)0)->name)
        return pc__fail(PC_ERR_INVALID, "%s: a name has 1 to %zu bytes, not %zu", call,
                        sizeof((system_entry *)0)->name - 1, strlen(name));
    return PC_OK;
}

static system_entry *find_entry(const pc_systems *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (!strcmp(s->items[i].name, name))
            return &s->items[i];
    return NULL;
}

/* Pins all leaves that are in RAM; PC_MISS: one is not. */
static pc_status pin_entry(const pc_systems *s, system_entry *e)
{
    e->pinned = pc__calloc(&s->model->context->mem, e->keys->count, 1);
    if (!e->pinned)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < e->keys->count; i++) {
        e->pinned[i] = pc__cache_pin_entry(s->cache, &e->keys->leaves[i]) == PC_OK;
        e->pin_count += e->pinned[i];
    }
    return e->pin_count == e->keys->count ? PC_OK : PC_MISS;
}

static pc_status encode_entry(const pc_systems *s, system_entry *e)
{
    static const pc__request_owners nobody;
    pc_encode_options o = PC_ENCODE_OPTIONS_INIT;
    const pc__recipe *recipe;
    pc__request_regime regime = pc__regime_for_length(s->model, s->rope_regime_length,
                                                      e->schema->tree->length);
    o.encoding = s->encoding;
    o.rope_regime_length = s->rope_regime_length;
    PC__TRY_RETURN(pc_schema_encode(e->schema, s->cache, &o));
    PC__TRY_RETURN(pc__schema_recipe(e->schema, s->encoding, &recipe));
    PC__TRY_RETURN(pc__schema_keys(e->schema, recipe, s->cache, regime.key, &nobody, &e->keys));
    return pin_entry(s, e);
}

/* Owns the reference to the schema from now on. */
static pc_status fill_entry(pc_systems *s, const char *name, pc_schema *schema)
{
    system_entry e = {.schema = schema, .filled = 1}, old = {0}, *at;
    pc_status status = encode_entry(s, &e), grown = PC_OK;
    snprintf(e.name, sizeof e.name, "%s", name);
    if (status < 0) {
        drop_entry(s, &e);
        return status;
    }
    pthread_mutex_lock(&s->lock);
    if ((at = find_entry(s, name))) {
        e.filled = at->filled + 1;
        old = *at;
        *at = e;
    } else if ((grown = pc__grow(&s->model->context->mem, (void **)&s->items, &s->capacity,
                                 s->count + 1, sizeof *s->items))
               >= 0) {
        s->items[s->count++] = e;
    }
    pthread_mutex_unlock(&s->lock);
    if (grown < 0)
        drop_entry(s, &e);
    else if (old.schema)
        drop_entry(s, &old);
    return grown < 0 ? grown : status;
}

pc_status pc_systems_fill(pc_systems *systems, const char *name, const char *text, size_t size)
{
    PC__HOLD(pc_systems, systems);
    pc_schema *schema;
    PC__TRY_RETURN(check_name("pc_systems_fill", systems, name));
    PC__TRY_RETURN(make_schema(systems, name, text, size, NULL, 0, &schema));
    return fill_entry(systems, name, schema);
}

pc_status pc_systems_fill_tokens(pc_systems *systems, const char *name, const int32_t *tokens,
                                 size_t count)
{
    PC__HOLD(pc_systems, systems);
    pc_schema *schema;
    PC__TRY_RETURN(check_name("pc_systems_fill_tokens", systems, name));
    if (!tokens)
        return pc__fail(PC_ERR_INVALID, "pc_systems_fill_tokens: tokens is NULL");
    PC__TRY_RETURN(make_schema(systems, name, NULL, 0, tokens, count, &schema));
    return fill_entry(systems, name, schema);
}

pc_status pc_systems_fill_schema(pc_systems *systems, const char *name, const pc_schema *schema)
{
    PC__HOLD(pc_systems, systems);
    PC__HOLD(pc_schema, schema);
    PC__TRY_RETURN(check_name("pc_systems_fill_schema", systems, name));
    if (!schema)
        return pc__fail(PC_ERR_INVALID, "pc_systems_fill_schema: schema is NULL");
    if (schema->model != systems->model)
        return pc__fail(PC_ERR_MISMATCH, "pc_systems_fill_schema: the schema is of another model");
    return fill_entry(systems, name, pc__schema_ref(schema));
}

pc_status pc_systems_drop(pc_systems *s, const char *name)
{
    PC__HOLD(pc_systems, s);
    system_entry old = {0}, *at;
    PC__TRY_RETURN(check_name("pc_systems_drop", s, name));
    pthread_mutex_lock(&s->lock);
    at = find_entry(s, name);
    if (at) {
        old = *at;
        memmove(at, at + 1, (size_t)(s->items + s->count - at - 1) * sizeof *at);
        s->count--;
    }
    pthread_mutex_unlock(&s->lock);
    if (!old.schema)
        return pc__fail(PC_ERR_NOT_FOUND, "pc_systems_drop: there is no '%s'", name);
    drop_entry(s, &old);
    return PC_OK;
}

pc_status pc_systems_find(pc_schema **out, pc_systems *s, const char *name)
{
    char names[256] = "";
    const system_entry *at;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_systems_find: out is NULL");
    *out = NULL;
    PC__TRY_RETURN(check_name("pc_systems_find", s, name));
    pthread_mutex_lock(&s->lock);
    at = find_entry(s, name);
    if (at)
        *out = pc__schema_ref(at->schema);
    for (size_t i = 0; i < s->count && !at; i++)
        pc__list_name(names, sizeof names, "'", s->items[i].name);
    pthread_mutex_unlock(&s->lock);
    return *out ? PC_OK
                : pc__fail(PC_ERR_NOT_FOUND, "pc_systems_find: there is no '%s'; there %s%s", name,
                           *names ? "are " : "is none", names);
}

size_t pc_systems_count(pc_systems *s)
{
    size_t count;
    if (!s)
        return 0;
    pthread_mutex_lock(&s->lock);
    count = s->count;
    pthread_mutex_unlock(&s->lock);
    return count;
}

pc_status pc_systems_get(pc_systems *s, size_t index, pc_system_info *info)
{
    pc_system_info i = PC_SYSTEM_INFO_INIT;
    size_t count;
    if (!s || !info)
        return pc__fail(PC_ERR_INVALID, "pc_systems_get: systems or info is NULL");
    pthread_mutex_lock(&s->lock);
    count = s->count;
    if (index < count) {
        const system_entry *e = &s->items[index];
        memcpy(i.name, e->name, sizeof i.name);
        i.length = e->schema->tree->length;
        i.pinned = e->pin_count;
        i.filled = e->filled;
    }
    pthread_mutex_unlock(&s->lock);
    if (index >= count)
        return pc__fail(PC_ERR_NOT_FOUND, "pc_systems_get: system %zu of %zu", index, count);
    return pc__result_write(info, PC__V1_SIZE(pc_system_info, filled), &i, sizeof i,
                            "pc_system_info");
}
