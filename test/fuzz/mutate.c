/* Mutates one value of a JSON text. */
#include "mutate.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

size_t mutate_draw(uint64_t *seed, size_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)((*seed >> 33) % below);
}

static const char *const values[] = {"0",           "1",
                                     "-1",          "1.5",
                                     "2",           "3",
                                     "1024",        "1025",
                                     "65536",       "16777217",
                                     "100000000",   "2147483647",
                                     "2147483648",  "4294967295",
                                     "-2147483649", "9223372036854775807",
                                     "1e18",        "1e-18",
                                     "1e300",       "-1e300",
                                     "1e-300",      "null",
                                     "true",        "false",
                                     "\"\"",        "[]",
                                     "{}",          "\"default\"",
                                     "[1]",         "\"\\u001b\\u202e\""};
enum { VALUES = sizeof values / sizeof *values };

/* A place of a value: in an object by key, or in a list by index. */
typedef struct place {
    json_t *inside;
    const char *key;
    size_t index;
} place;

/* Chooses one of all places below `inside` (reservoir sampling). */
static void choose(json_t *inside, uint64_t *seed, size_t *seen, place *chosen)
{
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_array(inside))
        json_array_foreach(inside, i, value)
        {
            if (!mutate_draw(seed, ++*seen))
                *chosen = (place){inside, NULL, i};
            choose(value, seed, seen, chosen);
        }
    json_object_foreach(inside, key, value)
    {
        if (!mutate_draw(seed, ++*seen))
            *chosen = (place){inside, key, 0};
        choose(value, seed, seen, chosen);
    }
}

static json_t *value_at(const place *p)
{
    return p->key ? json_object_get(p->inside, p->key) : json_array_get(p->inside, p->index);
}

static void put(const place *p, json_t *value)
{
    if (p->key)
        json_object_set_new(p->inside, p->key, value);
    else
        json_array_set_new(p->inside, p->index, value);
}

/* A number near or far from the one that was there; a text with other bytes. */
static json_t *change(const json_t *value, uint64_t *seed)
{
    static const int64_t factors[] = {0, 2, 3, 64, 1000, 1000000, -1};
    if (json_is_integer(value) && mutate_draw(seed, 2)) {
        uint64_t number = (uint64_t)json_integer_value(value);
        return json_integer((json_int_t)(mutate_draw(seed, 2)
                                             ? number + mutate_draw(seed, 17) - 8
                                             : number * (uint64_t)factors[mutate_draw(seed, 7)]));
    }
    if (json_is_string(value) && mutate_draw(seed, 2)) {
        char text[256];
        size_t size = json_string_length(value) < 128 ? json_string_length(value) : 128;
        memcpy(text, json_string_value(value), size);
        size = LLVMFuzzerMutate((uint8_t *)text, size, sizeof text);
        json_t *changed = json_stringn(text, size);
        if (changed)
            return changed;
    }
    return json_loads(values[mutate_draw(seed, VALUES)], JSON_DECODE_ANY, NULL);
}

static void mutate_tree(json_t *all, uint64_t *seed)
{
    place to = {0}, from = {0};
    size_t seen = 0;
    choose(all, seed, &seen, &to);
    if (!to.inside)
        return;
    switch (mutate_draw(seed, 8)) {
    case 0:
        if (to.key)
            json_object_del(to.inside, to.key);
        else
            json_array_remove(to.inside, to.index);
        return;
    case 1: /* a copy of another value */
        seen = 0;
        choose(all, seed, &seen, &from);
        put(&to, json_deep_copy(value_at(&from)));
        return;
    case 2: /* once more in a list */
        if (!to.key && json_array_size(to.inside) < 4096)
            json_array_insert_new(to.inside, to.index, json_deep_copy(value_at(&to)));
        return;
    default:
        put(&to, change(value_at(&to), seed));
    }
}

size_t mutate_json(uint8_t *data, size_t from, size_t end, size_t size, size_t room, uint64_t *seed)
{
    json_t *all = json_loadb((const char *)data + from, end - from, 0, NULL);
    size_t rounds = 1 + mutate_draw(seed, 3), rest = size - end, n = 0;
    while (all && rounds--)
        mutate_tree(all, seed);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    if (text && from + strlen(text) + rest <= room) {
        n = strlen(text);
        memmove(data + from + n, data + end, rest);
        memcpy(data + from, text, n);
        n += from + rest;
    }
    free(text);
    return n;
}
