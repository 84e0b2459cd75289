/* Records of attention maps for tests. The number of a record decides its content, so that a reader
 * can check it. */
#ifndef PC_TEST_MAPS_H
#define PC_TEST_MAPS_H

#include <stdlib.h>
#include <string.h>

#include "attn/map.h"
#include "memo/maps/map_store.h"
#include "testing.h"

enum { MAPS_LAYERS = 3, MAPS_HEADS = 2, MAPS_NOTE = 200 };

static inline pc__map_signature maps_face(void)
{
    pc__map_signature signature = {
        .layers = MAPS_LAYERS, .heads = MAPS_HEADS, .causal = 1, .format = PC_MAP_F16};
    memset(signature.model.bytes, 0x5c, sizeof signature.model.bytes);
    return signature;
}

static inline uint32_t maps_tokens(uint32_t number)
{
    return 8 + number % 5 * 9; /* 8 … 44 */
}

static inline size_t maps_layer_bytes(const pc__map_signature *signature, uint32_t tokens)
{
    pc__map_shape shape = {signature->format, signature->heads, tokens, signature->causal};
    return pc__map_bytes(&shape);
}

static inline pc__id maps_id(uint32_t number)
{
    pc__id id;
    for (size_t i = 0; i < sizeof id.bytes; i++)
        id.bytes[i] = (uint8_t)(number * 7 + i);
    return id;
}

/* Bytes that zstd can compress, as those of maps. */
static inline void maps_fill(uint32_t number, uint32_t layer, uint8_t *out, size_t size)
{
    pc_test_rng rng = {number * 64 + layer};
    for (size_t i = 0; i < size; i++)
        out[i] = i % 2 ? (uint8_t)(0x20 + layer) : (uint8_t)(pc_test_bits(&rng) >> 20);
}

typedef struct maps_record {
    pc__id tokens_id;
    uint32_t tokens, number;
    size_t layer_bytes;
    uint8_t metadata[MAPS_NOTE];
    const void *layers[64];
    int32_t count;
} maps_record;

static inline maps_record maps_make(const pc__map_signature *signature, uint32_t number)
{
    maps_record r = {.tokens_id = maps_id(number),
                     .tokens = maps_tokens(number),
                     .number = number,
                     .count = signature->layers};
    r.layer_bytes = maps_layer_bytes(signature, r.tokens);
    maps_fill(number, 63, r.metadata, sizeof r.metadata);
    for (int32_t i = 0; i < signature->layers; i++) {
        uint8_t *layer = malloc(r.layer_bytes);
        maps_fill(number, (uint32_t)i, layer, r.layer_bytes);
        r.layers[i] = layer;
    }
    return r;
}

static inline void maps_free(maps_record *r)
{
    for (int32_t i = 0; i < r->count; i++)
        free((void *)(uintptr_t)r->layers[i]);
}

static inline pc_status maps_add(pc__map_store *store, uint32_t number, int64_t *id)
{
    pc__map_signature signature = maps_face();
    maps_record r = maps_make(&signature, number);
    pc_status status = pc__map_store_add(store, &r.tokens_id, r.tokens, r.metadata,
                                         sizeof r.metadata, r.layers, id, NULL, NULL);
    maps_free(&r);
    return status;
}

/* 1: the maps belong to the number. */
static inline int maps_right(const pc__maps *maps, uint32_t number)
{
    pc__map_signature signature = maps_face();
    maps_record r = maps_make(&signature, number);
    int right = 1;
    for (int32_t i = 0; i < r.count; i++)
        right &= (uintptr_t)maps->layer[i] % 64 == 0
                 && !memcmp(maps->layer[i], r.layers[i], r.layer_bytes);
    maps_free(&r);
    return right;
}

/* PC_ERR_INTERNAL: the record is wrong. The store's digest of the tokens gives the number. */
typedef struct maps_known {
    int64_t id;
    uint32_t number;
} maps_known;

typedef struct maps_list {
    maps_known items[4096];
    size_t count;
} maps_list;

static inline int maps_see(void *user, const pc__map_record *record)
{
    maps_list *list = user;
    for (uint32_t number = 0; number < 256; number++) {
        pc__id id = maps_id(number);
        if (pc__id_equal(&id, &record->tokens_id) && list->count < 4096)
            list->items[list->count++] = (maps_known){record->id, number};
    }
    return 0;
}

static inline maps_list *maps_list_of(pc__map_store *store)
{
    maps_list *list = calloc(1, sizeof *list);
    pc__map_store_each(store, maps_see, list);
    return list;
}

static inline pc_status maps_check(pc__map_store *store, int64_t id, uint32_t number)
{
    uint8_t metadata[MAPS_NOTE], want[MAPS_NOTE];
    pc__maps maps;
    pc_status status = pc__map_store_get(store, id, &maps);
    if (status != PC_OK)
        return status;
    if (!maps_right(&maps, number))
        status = PC_ERR_INTERNAL;
    pc__maps_release(store, &maps);
    if (status != PC_OK)
        return status;
    maps_fill(number, 63, want, sizeof want);
    status = pc__map_store_metadata(store, id, metadata, sizeof metadata);
    return status == PC_OK && memcmp(metadata, want, sizeof want) ? PC_ERR_INTERNAL : status;
}

static inline int maps_count_one(void *count, const pc__map_record *record)
{
    (void)record;
    ++*(size_t *)count;
    return 0;
}

static inline size_t maps_count(pc__map_store *store)
{
    size_t count = 0;
    pc__map_store_each(store, maps_count_one, &count);
    return count;
}

static inline int maps_balance(pc__map_store *store)
{
    pc_memo_stats s;
    pc__map_store_get_stats(store, &s);
    return s.stored == s.live + s.evicted + s.removed + s.damaged && s.live == maps_count(store);
}

static inline const char *maps_folder(void)
{
    static char ring[32][256];
    static unsigned next;
    char *out = ring[next % 32];
    snprintf(out, sizeof ring[0], "%s/maps%u", pc_test_folder(), next++);
    return out;
}

static inline pc_status maps_open(pc__map_store **out, const char *folder,
                                  pc__map_store_options options)
{
    options.signature = maps_face();
    options.create = !options.read_only;
    return pc__map_store_open(out, &pc__libc_allocator, folder, &options);
}

#endif
