#include "store/remote/remote_seen.h"

#include <string.h>

#include "base/fail.h"
#include "base/mem.h"

static pc__sighting *find(const pc__seen *seen, const pc__id *key)
{
    for (pc__hash_link *l = pc__hash_table_find(&seen->keys, pc__id_hash(key)); l;
         l = pc__hash_table_find_next(l)) {
        pc__sighting *s = PC__AROUND(l, pc__sighting, by_key);
        if (pc__id_equal(&s->key, key))
            return s;
    }
    return NULL;
}

const pc__sighting *pc__seen_find(const pc__seen *seen, const pc__id *key)
{
    return find(seen, key);
}

int pc__seen_content(const pc__seen *seen, const pc__id *content)
{
    for (pc__hash_link *l = pc__hash_table_find(&seen->contents, pc__id_hash(content)); l;
         l = pc__hash_table_find_next(l))
        if (pc__id_equal(&PC__AROUND(l, pc__sighting, by_content)->entry.content, content))
            return 1;
    return 0;
}

static void leave(pc__seen *seen, pc__sighting *s)
{
    pc__hash_table_remove(&seen->keys, &s->by_key);
    if (!(s->absent_until > 0)) {
        if (s->entry.has_content)
            pc__hash_table_remove(&seen->contents, &s->by_content);
        seen->present--;
        seen->present_bytes -= s->entry.bytes;
    }
    *(s->older ? &s->older->newer : &seen->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &seen->newest) = s->older;
}

static void enter(pc__seen *seen, pc__sighting *s)
{
    pc__hash_table_add(&seen->keys, &s->by_key, pc__id_hash(&s->key));
    if (!(s->absent_until > 0)) {
        if (s->entry.has_content)
            pc__hash_table_add(&seen->contents, &s->by_content, pc__id_hash(&s->entry.content));
        seen->present++;
        seen->present_bytes += s->entry.bytes;
    }
    s->older = seen->newest;
    s->newer = NULL;
    *(seen->newest ? &seen->newest->newer : &seen->oldest) = s;
    seen->newest = s;
}

pc_status pc__seen_note(pc__seen *seen, const pc__id *key, const pc__entry *entry,
                        double absent_until, size_t *forgotten)
{
    pc__sighting *s = find(seen, key);
    pc_status status = PC_OK;
    *forgotten = 0;
    if (s)
        leave(seen, s);
    else if (!(s = pc__alloc(seen->mem, sizeof *s)))
        return PC_ERR_NOMEM;
    memset(s, 0, sizeof *s);
    s->key = *key;
    PC__TRY(pc__hash_table_reserve(&seen->keys, seen->mem), fail);
    PC__TRY(pc__hash_table_reserve(&seen->contents, seen->mem), fail);
    if (entry)
        s->entry = *entry;
    else
        s->absent_until = absent_until;
    enter(seen, s);
    while (seen->keys.count > seen->most) {
        pc__sighting *old = seen->oldest;
        *forgotten += !(old->absent_until > 0);
        leave(seen, old);
        pc__free(seen->mem, old);
    }
    return PC_OK;
fail:
    pc__free(seen->mem, s);
    return status;
}

void pc__seen_free(pc__seen *seen)
{
    for (pc__sighting *s = seen->oldest, *newer; s; s = newer) {
        newer = s->newer;
        pc__free(seen->mem, s);
    }
    pc__hash_table_free(&seen->keys, seen->mem);
    pc__hash_table_free(&seen->contents, seen->mem);
}
