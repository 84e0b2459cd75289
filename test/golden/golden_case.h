/* The golden vectors of one model, read by name: what goes in, and what must come out. */
#ifndef PC_GOLDEN_CASE_H
#define PC_GOLDEN_CASE_H

#include <jansson.h>

#include "golden_lanes.h"

typedef struct golden {
    const char *name;
    pc_model *model;
    pc__weights *file;
    json_t *info;
    double worst_logits, worst_rest;
    int few;
} golden;

static inline const pc__tensor *find(const golden *g, const char *name)
{
    return pc__weights_find(g->file, name);
}

static inline size_t elements(const pc__tensor *tensor)
{
    size_t n = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        n *= (size_t)tensor->shape[i];
    return n;
}

static inline float *floats(const golden *g, const char *name)
{
    size_t count;
    return golden_floats(g->file, name, &count);
}

static inline size_t integers(const golden *g, const char *name, int32_t *out)
{
    size_t n;
    float *values = golden_floats(g->file, name, &n);
    CHECK(values != NULL);
    for (size_t i = 0; i < n; i++)
        out[i] = (int32_t)values[i];
    free(values);
    return n;
}

typedef struct run_of {
    int32_t ids[128];
    int64_t positions[128];
    size_t count;
} run_of;

static inline run_of read_run(const golden *g, const char *prefix)
{
    run_of r = {0};
    int32_t places[128];
    char name[96];
    snprintf(name, sizeof name, "%s/ids", prefix);
    r.count = integers(g, name, r.ids);
    snprintf(name, sizeof name, "%s/pos", prefix);
    integers(g, name, places);
    for (size_t i = 0; i < r.count; i++)
        r.positions[i] = places[i];
    return r;
}

static inline lane lane_of(const run_of *r)
{
    lane l = {0};
    l.tokens = r->ids;
    l.positions = r->positions;
    l.count = r->count;
    return l;
}

static inline uint64_t rope_len(const golden *g, const char *name)
{
    json_t *c = json_object_get(json_object_get(g->info, "cases"), name);
    return (uint64_t)json_integer_value(json_object_get(c, "rope_len"));
}

static inline int has_case(const golden *g, const char *name)
{
    return json_object_get(json_object_get(g->info, "cases"), name) != NULL;
}

#endif
