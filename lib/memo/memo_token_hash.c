#include <string.h>

#include "base/fail.h"
#include "memo/memo_internal.h"

enum { LEFT = -2 };

pc__id pc__input_digest(const pc_input *input)
{
    pc__digest digest;
    pc__digest_start(&digest, "memo/1");
    pc__digest_i32(&digest, input->tokens, input->count);
    pc__digest_u64(&digest, input->types != NULL);
    if (input->types)
        pc__digest_i32(&digest, input->types, input->count);
    return pc__digest_end(&digest);
}

static size_t place_of(const pc__token_hash *known, const pc__id *id)
{
    uint64_t at;
    memcpy(&at, id->bytes, sizeof at);
    return (size_t)at & (known->capacity - 1);
}

/* Where it is, or where it could be put. */
static size_t find(const pc__token_hash *known, const pc__id *id)
{
    size_t at = place_of(known, id), left = known->capacity;
    for (; known->records[at] != PC__NO_NEIGHBOUR; at = (at + 1) & (known->capacity - 1)) {
        if (known->records[at] == LEFT)
            left = left < known->capacity ? left : at;
        else if (pc__id_equal(&known->ids[at], id))
            return at;
    }
    return left < known->capacity ? left : at;
}

static pc_status grow(pc__token_hash *known, const pc_allocator *mem)
{
    pc__token_hash next = {.capacity = known->capacity ? 2 * known->capacity : 256};
    next.ids = pc__calloc(mem, next.capacity, sizeof *next.ids);
    next.records = pc__calloc(mem, next.capacity, sizeof *next.records);
    if (!next.ids || !next.records) {
        pc__free(mem, next.ids);
        pc__free(mem, next.records);
        return PC_ERR_NOMEM;
    }
    for (size_t i = 0; i < next.capacity; i++)
        next.records[i] = PC__NO_NEIGHBOUR;
    for (size_t i = 0; i < known->capacity; i++)
        if (known->records[i] >= 0) {
            size_t at = find(&next, &known->ids[i]);
            next.ids[at] = known->ids[i];
            next.records[at] = known->records[i];
            next.used++;
        }
    pc__free(mem, known->ids);
    pc__free(mem, known->records);
    *known = next;
    return PC_OK;
}

pc_status pc__token_hash_set(pc__token_hash *known, const pc_allocator *mem, const pc__id *id,
                             int64_t record)
{
    pc_status status;
    size_t at;
    if (4 * (known->used + 1) > 3 * known->capacity && (status = grow(known, mem)) < 0)
        return status;
    at = find(known, id);
    known->used += known->records[at]
                   == PC__NO_NEIGHBOUR; /* those that have left count: they make searches longer */
    known->ids[at] = *id;
    known->records[at] = record;
    return PC_OK;
}

int64_t pc__token_hash_get(const pc__token_hash *known, const pc__id *id)
{
    int64_t record = known->capacity ? known->records[find(known, id)] : PC__NO_NEIGHBOUR;
    return record >= 0 ? record : PC__NO_NEIGHBOUR;
}

void pc__token_hash_remove(pc__token_hash *known, const pc__id *id)
{
    size_t at = known->capacity ? find(known, id) : 0;
    if (known->capacity && known->records[at] >= 0)
        known->records[at] = LEFT;
}
