/* The tier in host memory. Eviction is GreedyDual-Size-Frequency (Cherkasova 1998): an entry is worth
 *     clock at its last use + uses * seconds to compute it / its bytes,
 * the cheapest goes first, and the clock moves up to what was evicted, so that old worth fades. Entries that somebody holds, or that
 * are pinned, stay: taking them out would free nothing. */
#include "store/resident.h"

#include <pthread.h>
#include <string.h>

typedef struct entry {
    pc__id key, content;
    int has_content;
    pc_segment *segment;
    uint64_t bytes;
    uint64_t uses;
    uint64_t pins;
    double cost_per_byte;
    double worth;
    size_t heap_index;
    struct entry *next, *next_content; /* of the same bucket */
} entry;

struct pc__resident {
    pc_allocator mem;
    pthread_mutex_t lock;
    uint64_t budget, bytes, pinned_bytes;
    double clock;
    entry **buckets, **content_buckets; /* [bucket_count], a power of two */
    size_t bucket_count;
    entry **heap; /* [count] the least worth first */
    size_t count, capacity;
    uint64_t stored, refused, evicted, removed;
};

static size_t bucket_of(const pc__resident *t, const pc__id *id)
{
    uint64_t low;
    memcpy(&low, id->bytes, sizeof low); /* digests are uniform */
    return (size_t)low & (t->bucket_count - 1);
}

static entry *find(const pc__resident *t, const pc__id *key)
{
    entry *e = t->bucket_count ? t->buckets[bucket_of(t, key)] : NULL;
    while (e && !pc__id_equal(&e->key, key))
        e = e->next;
    return e;
}

static void heap_set(pc__resident *t, size_t i, entry *e)
{
    t->heap[i] = e;
    e->heap_index = i;
}

static void heap_fix(pc__resident *t, size_t i)
{
    entry *e = t->heap[i];
    for (; i && t->heap[(i - 1) / 2]->worth > e->worth; i = (i - 1) / 2)
        heap_set(t, i, t->heap[(i - 1) / 2]);
    for (size_t child = 2 * i + 1; child < t->count; child = 2 * i + 1) {
        if (child + 1 < t->count && t->heap[child + 1]->worth < t->heap[child]->worth)
            child++;
        if (t->heap[child]->worth >= e->worth)
            break;
        heap_set(t, i, t->heap[child]);
        i = child;
    }
    heap_set(t, i, e);
}

static void heap_remove(pc__resident *t, entry *e)
{
    size_t i = e->heap_index;
    entry *last = t->heap[--t->count];
    if (last != e) {
        heap_set(t, i, last);
        heap_fix(t, i);
    }
}

static void touch(pc__resident *t, entry *e)
{
    e->uses++;
    e->worth = t->clock + (double)e->uses * e->cost_per_byte;
    heap_fix(t, e->heap_index);
}

static pc_status grow_buckets(pc__resident *t)
{
    size_t count = t->bucket_count ? t->bucket_count * 2 : 64;
    entry **buckets, **contents;
    if (t->count < t->bucket_count)
        return PC_OK;
    buckets = pc__calloc(&t->mem, count, sizeof(*buckets));
    contents = pc__calloc(&t->mem, count, sizeof(*contents));
    if (!buckets || !contents) {
        pc__free(&t->mem, buckets);
        pc__free(&t->mem, contents);
        return t->bucket_count ? PC_OK : PC_ERR_NOMEM; /* longer chains are no error */
    }
    pc__free(&t->mem, t->buckets);
    pc__free(&t->mem, t->content_buckets);
    t->buckets = buckets;
    t->content_buckets = contents;
    t->bucket_count = count;
    for (size_t i = 0; i < t->count; i++) {
        entry *e = t->heap[i], **at = &buckets[bucket_of(t, &e->key)];
        e->next = *at;
        *at = e;
        if (e->has_content) {
            at = &contents[bucket_of(t, &e->content)];
            e->next_content = *at;
            *at = e;
        }
    }
    return PC_OK;
}

/* Out of the table and the heap; its reference is the caller's. */
static void unlink_entry(pc__resident *t, entry *e)
{
    entry **at = &t->buckets[bucket_of(t, &e->key)];
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (e->has_content) {
        at = &t->content_buckets[bucket_of(t, &e->content)];
        while (*at != e)
            at = &(*at)->next_content;
        *at = e->next_content;
    }
    heap_remove(t, e);
    t->bytes -= e->bytes;
}

static int may_leave(const entry *e)
{
    return !e->pins && pc__segment_is_single(e->segment);
}

static int leaves_room(const pc__resident *t, uint64_t need)
{
    return need <= t->budget && t->bytes <= t->budget - need;
}

/* Takes the least worth entries out until `need` bytes fit, onto *victims. All or none. */
static int make_room(pc__resident *t, uint64_t need, entry **victims)
{
    uint64_t free_bytes = 0, have = t->budget - t->bytes;
    size_t pick;
    if (leaves_room(t, need))
        return 1;
    if (need > t->budget)
        return 0;
    for (size_t i = 0; i < t->count && have + free_bytes < need; i++)
        free_bytes += may_leave(t->heap[i]) ? t->heap[i]->bytes : 0;
    if (have + free_bytes < need)
        return 0;
    while (!leaves_room(t, need)) {
        entry *least = NULL;
        if (may_leave(t->heap[0])) {
            least = t->heap[0];
        } else { /* the top is in use: look for the least among the others */
            for (pick = 1; pick < t->count; pick++)
                if (may_leave(t->heap[pick]) && (!least || t->heap[pick]->worth < least->worth))
                    least = t->heap[pick];
        }
        if (!least)
            return 0; /* cannot be: references only grow through us or through their holders */
        t->clock = least->worth > t->clock ? least->worth : t->clock;
        unlink_entry(t, least);
        t->evicted++;
        least->next = *victims;
        *victims = least;
    }
    return 1;
}

static void release_all(pc__resident *t, entry *list)
{
    while (list) {
        entry *next = list->next;
        pc__segment_unref(list->segment);
        pc__free(&t->mem, list);
        list = next;
    }
}

static void insert(pc__resident *t, entry *e)
{
    entry **at = &t->buckets[bucket_of(t, &e->key)];
    e->next = *at;
    *at = e;
    if (e->has_content) {
        at = &t->content_buckets[bucket_of(t, &e->content)];
        e->next_content = *at;
        *at = e;
    }
    e->worth = t->clock + e->cost_per_byte;
    heap_set(t, t->count++, e);
    heap_fix(t, t->count - 1);
    t->bytes += e->bytes;
    t->stored++;
}

pc_status pc__resident_get(pc__resident *t, const pc__id *key, const int32_t *tokens, size_t count, pc_segment **out, uint32_t *reason)
{
    pc_status status = PC_MISS;
    entry *e;
    *out = NULL;
    *reason = PC_REASON_FIRST_USE;
    pthread_mutex_lock(&t->lock);
    e = find(t, key);
    if (e && e->segment->tokens == count && !(count && memcmp(e->segment->token_ids, tokens, count * sizeof *tokens))) {
        *out = pc__segment_ref(e->segment);
        touch(t, e);
        status = PC_OK;
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

static entry *make_entry(pc__resident *t, const pc__naming *naming, pc_segment *segment)
{
    entry *e = pc__calloc(&t->mem, 1, sizeof *e);
    if (!e)
        return NULL;
    e->key = naming->key;
    e->has_content = naming->content != NULL;
    if (naming->content)
        e->content = *naming->content;
    e->segment = pc__segment_ref(segment);
    e->bytes = segment->bytes + segment->tokens * sizeof *segment->token_ids + sizeof *segment + sizeof *e;
    e->uses = 1;
    e->cost_per_byte = (naming->cost > 0 ? naming->cost : 0) / (double)e->bytes;
    return e;
}

pc_status pc__resident_put(pc__resident *t, const pc__naming *naming, pc_segment *segment, pc_segment **winner, uint32_t *reason)
{
    const pc__id *key = &naming->key;
    entry *fresh = make_entry(t, naming, segment), *there, *victims = NULL;
    pc_status status = fresh ? PC_OK : PC_ERR_NOMEM;
    if (winner)
        *winner = NULL;
    if (!fresh)
        return status;
    pthread_mutex_lock(&t->lock);
    there = find(t, key);
    if (!there) {
        status = grow_buckets(t);
        if (status >= 0)
            status = pc__grow(&t->mem, (void **)&t->heap, &t->capacity, t->count + 1, sizeof(*t->heap));
        if (status >= 0 && !make_room(t, fresh->bytes, &victims)) {
            t->refused++;
            status = PC_MISS;
            *reason = PC_REASON_NO_ROOM;
        }
        if (status == PC_OK) {
            insert(t, fresh);
            there = fresh;
            fresh = NULL;
        }
    }
    if (there && winner)
        *winner = pc__segment_ref(there->segment);
    pthread_mutex_unlock(&t->lock);
    if (fresh)
        fresh->next = NULL;
    release_all(t, fresh);
    release_all(t, victims);
    return status;
}

int pc__resident_knows(pc__resident *t, const pc__id *content)
{
    entry *e;
    pthread_mutex_lock(&t->lock);
    e = t->bucket_count ? t->content_buckets[bucket_of(t, content)] : NULL;
    while (e && !pc__id_equal(&e->content, content))
        e = e->next_content;
    pthread_mutex_unlock(&t->lock);
    return e != NULL;
}

static pc_status pin(pc__resident *t, const pc__id *key, int by)
{
    pc_status status = PC_OK;
    entry *e;
    pthread_mutex_lock(&t->lock);
    e = find(t, key);
    if (!e) {
        status = PC_MISS;
    } else if (by > 0) {
        t->pinned_bytes += e->pins++ ? 0 : e->bytes;
    } else if (!e->pins) {
        status = pc__fail(PC_ERR_STATE, "cache: a segment that is not pinned cannot be unpinned");
    } else {
        t->pinned_bytes -= --e->pins ? 0 : e->bytes;
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

void pc__resident_clear(pc__resident *t)
{
    entry *victims = NULL;
    pthread_mutex_lock(&t->lock);
    for (size_t b = 0; b < t->bucket_count; b++)
        for (entry *e = t->buckets[b], *next; e; e = next) {
            next = e->next;
            if (!may_leave(e))
                continue;
            unlink_entry(t, e);
            t->removed++;
            e->next = victims;
            victims = e;
        }
    pthread_mutex_unlock(&t->lock);
    release_all(t, victims);
}

void pc__resident_stats(pc__resident *t, pc_tier_stats *stats)
{
    pthread_mutex_lock(&t->lock);
    stats->stored += t->stored;
    stats->refused += t->refused;
    stats->evicted += t->evicted;
    stats->removed += t->removed;
    stats->resident += t->count;
    stats->resident_bytes += t->bytes;
    stats->pinned_bytes += t->pinned_bytes;
    stats->budget_bytes += t->budget;
    pthread_mutex_unlock(&t->lock);
}

int pc__resident_has(pc__resident *t, const pc__id *key)
{
    int there;
    pthread_mutex_lock(&t->lock);
    there = find(t, key) != NULL;
    pthread_mutex_unlock(&t->lock);
    return there;
}

pc_status pc__resident_pin(pc__resident *t, const pc__id *key, uint64_t owner, double seconds)
{
    (void)owner;
    (void)seconds;
    return pin(t, key, 1);
}

pc_status pc__resident_unpin(pc__resident *t, const pc__id *key, uint64_t owner)
{
    (void)owner;
    return pin(t, key, -1);
}

void pc__resident_free(pc__resident *t)
{
    if (!t)
        return;
    pc_allocator mem = t->mem;
    for (size_t i = 0; i < t->count; i++) {
        pc__segment_unref(t->heap[i]->segment);
        pc__free(&mem, t->heap[i]);
    }
    pc__free(&mem, t->heap);
    pc__free(&mem, t->buckets);
    pc__free(&mem, t->content_buckets);
    pthread_mutex_destroy(&t->lock);
    pc__free(&mem, t);
}

pc_status pc__resident_new(pc__resident **out, const pc_allocator *mem, const pc__resident_options *options)
{
    pc__resident *t = pc__calloc(mem, 1, sizeof *t);
    *out = NULL;
    if (!t)
        return PC_ERR_NOMEM;
    t->mem = *mem;
    t->budget = options->budget;
    pthread_mutex_init(&t->lock, NULL);
    *out = t;
    return PC_OK;
}
