/* The hash table (hash_table.h). */
#include "base/hash_table.h"

#include <string.h>

#include "base/mem.h"

static pc__hash_link **bucket_of(const pc__hash_table *table, uint64_t hash)
{
    return &table->buckets[(size_t)hash & (table->size - 1)];
}

pc_status pc__hash_table_reserve(pc__hash_table *table, const pc_allocator *mem)
{
    pc__hash_table grown = {0};
    if (table->count < table->size)
        return PC_OK;
    grown.size = table->size ? table->size * 2 : 64;
    grown.buckets = pc__calloc(mem, grown.size, sizeof(pc__hash_link *));
    if (!grown.buckets)
        return table->size ? PC_OK : PC_ERR_NOMEM;
    for (size_t i = 0; i < table->size; i++)
        for (pc__hash_link *link = table->buckets[i], *next; link; link = next) {
            next = link->next;
            pc__hash_table_add(&grown, link, link->hash);
        }
    pc__free(mem, table->buckets);
    *table = grown;
    return PC_OK;
}

void pc__hash_table_add(pc__hash_table *table, pc__hash_link *link, uint64_t hash)
{
    pc__hash_link **at = bucket_of(table, hash);
    link->hash = hash;
    link->next = *at;
    *at = link;
    table->count++;
}

void pc__hash_table_remove(pc__hash_table *table, pc__hash_link *link)
{
    pc__hash_link **at = bucket_of(table, link->hash);
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    table->count--;
}

static pc__hash_link *with_hash(pc__hash_link *link, uint64_t hash)
{
    while (link && link->hash != hash)
        link = link->next;
    return link;
}

pc__hash_link *pc__hash_table_find(const pc__hash_table *table, uint64_t hash)
{
    return table->size ? with_hash(*bucket_of(table, hash), hash) : NULL;
}

pc__hash_link *pc__hash_table_find_next(const pc__hash_link *link)
{
    return with_hash(link->next, link->hash);
}

void *pc__hash_table_find_id(const pc__hash_table *table, const pc__id *id, size_t link_at,
                             size_t id_at)
{
    pc__hash_link *link = pc__hash_table_find(table, pc__id_hash(id));
    for (; link; link = pc__hash_table_find_next(link)) {
        char *item = (char *)link - link_at;
        if (pc__id_equal((const pc__id *)(void *)(item + id_at), id))
            return item;
    }
    return NULL;
}

pc__hash_link *pc__hash_table_next(const pc__hash_table *table, const pc__hash_link *link)
{
    size_t at = 0;
    if (link && link->next)
        return link->next;
    if (link)
        at = ((size_t)link->hash & (table->size - 1)) + 1;
    while (at < table->size && !table->buckets[at])
        at++;
    return at < table->size ? table->buckets[at] : NULL;
}

void pc__hash_table_free(pc__hash_table *table, const pc_allocator *mem)
{
    pc__free(mem, table->buckets);
    *table = (pc__hash_table){0};
}

uint64_t pc__u64_hash(uint64_t value)
{
    value = (value ^ (value >> 32))
            * UINT64_C(0x9e3779b97f4a7c15); /* odd: the bits of the golden ratio */
    value = (value ^ (value >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return value ^ (value >> 32);
}

uint64_t pc__id_hash(const pc__id *id)
{
    uint64_t word[4];
    memcpy(word, id->bytes, sizeof word);
    return pc__u64_hash(word[0] + 3 * word[1] + 5 * word[2] + 7 * word[3]);
}
