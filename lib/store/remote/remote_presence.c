/* Two hash tables over entries in one LRU list. */
#include "store/remote/remote_presence.h"

#include <string.h>

#include "base/fail.h"
#include "base/mem.h"

static pc__remote_present *find_entry(const pc__remote_presence *presence, const pc__id *key)
{
    for (pc__hash_link *l = pc__hash_table_find(&presence->keys, pc__id_hash(key)); l;
         l = pc__hash_table_find_next(l)) {
        pc__remote_present *s = PC__AROUND(l, pc__remote_present, by_key);
        if (pc__id_equal(&s->key, key))
            return s;
    }
    return NULL;
}

const pc__remote_present *pc__remote_presence_find(const pc__remote_presence *presence,
                                                   const pc__id *key)
{
    return find_entry(presence, key);
}

int pc__remote_presence_has_content(const pc__remote_presence *presence, const pc__id *content)
{
    for (pc__hash_link *l = pc__hash_table_find(&presence->contents, pc__id_hash(content)); l;
         l = pc__hash_table_find_next(l))
        if (pc__id_equal(&PC__AROUND(l, pc__remote_present, by_content)->entry.content, content))
            return 1;
    return 0;
}

static void unlink_entry(pc__remote_presence *presence, pc__remote_present *s)
{
    pc__hash_table_remove(&presence->keys, &s->by_key);
    if (!(s->absent_until > 0)) {
        if (s->entry.has_content)
            pc__hash_table_remove(&presence->contents, &s->by_content);
        presence->present--;
        presence->present_bytes -= s->entry.bytes;
    }
    *(s->older ? &s->older->newer : &presence->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &presence->newest) = s->older;
}

static void link_entry(pc__remote_presence *presence, pc__remote_present *s)
{
    pc__hash_table_add(&presence->keys, &s->by_key, pc__id_hash(&s->key));
    if (!(s->absent_until > 0)) {
        if (s->entry.has_content)
            pc__hash_table_add(&presence->contents, &s->by_content, pc__id_hash(&s->entry.content));
        presence->present++;
        presence->present_bytes += s->entry.bytes;
    }
    s->older = presence->newest;
    s->newer = NULL;
    *(presence->newest ? &presence->newest->newer : &presence->oldest) = s;
    presence->newest = s;
}

pc_status pc__remote_presence_set(pc__remote_presence *presence, const pc__id *key,
                                  const pc__remote_entry *entry, double absent_until,
                                  size_t *forgotten)
{
    pc__remote_present *s = find_entry(presence, key);
    pc_status status = PC_OK;
    *forgotten = 0;
    if (s)
        unlink_entry(presence, s);
    else if (!(s = pc__alloc(presence->mem, sizeof *s)))
        return PC_ERR_NOMEM;
    memset(s, 0, sizeof *s);
    s->key = *key;
    PC__TRY(pc__hash_table_reserve(&presence->keys, presence->mem), fail);
    PC__TRY(pc__hash_table_reserve(&presence->contents, presence->mem), fail);
    if (entry)
        s->entry = *entry;
    else
        s->absent_until = absent_until;
    link_entry(presence, s);
    while (presence->keys.count > presence->most) {
        pc__remote_present *old = presence->oldest;
        *forgotten += !(old->absent_until > 0);
        unlink_entry(presence, old);
        pc__free(presence->mem, old);
    }
    return PC_OK;
fail:
    pc__free(presence->mem, s);
    return status;
}

void pc__remote_presence_free(pc__remote_presence *presence)
{
    for (pc__remote_present *s = presence->oldest, *newer; s; s = newer) {
        newer = s->newer;
        pc__free(presence->mem, s);
    }
    pc__hash_table_free(&presence->keys, presence->mem);
    pc__hash_table_free(&presence->contents, presence->mem);
}
