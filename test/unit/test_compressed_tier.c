/* Catches: a COMPRESSED tier that gives other states than it got; exceeds its budget while writing
 * or reading; evicts a record that is being read; loses an open record when it is removed; returns
 * expired or damaged records; lets a tenant over its quota displace others; does not zero freed
 * memory; calls the application under its lock; counts wrongly; leaks when memory is short; or is
 * not safe between threads (tools/test.sh --all runs it under ThreadSanitizer). */
#include "store/tier.h"

#include <promptcache/cache.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "testing.h"

enum { BLOCKS = 3, BLOCK = 4000 };

typedef struct sample {
    pc__image image;
    int32_t token;
    uint8_t *blocks[BLOCKS];
    uint64_t sizes[BLOCKS];
} sample;

static pc__id id_of(int32_t n)
{
    pc__id id = {{0}};
    memcpy(id.bytes, &n, sizeof n);
    return id;
}

static void make(sample *s, int32_t n, size_t bytes)
{
    pc_test_rng rng = {(uint64_t)n + 1};
    memset(s, 0, sizeof *s);
    s->token = n;
    for (int b = 0; b < BLOCKS; b++) {
        s->sizes[b] = bytes;
        s->blocks[b] = malloc(bytes + 1);
        for (size_t i = 0; i < bytes; i++)
            s->blocks[b][i] = (uint8_t)pc_test_bits(&rng);
    }
    s->image.key = id_of(n);
    memcpy(s->image.form.architecture, "llama", 6);
    s->image.form.shape.dtype = PC_DTYPE_BF16;
    s->image.form.layout = PC_LAYOUT_APPLICATION;
    s->image.cost = 1;
    s->image.tokens = 1;
    s->image.token_ids = &s->token;
    s->image.block_count = BLOCKS;
    s->image.blocks = s->blocks;
    s->image.block_bytes = s->sizes;
}

static void done_with(sample *s)
{
    for (int b = 0; b < BLOCKS; b++)
        free(s->blocks[b]);
}

static pc__tier *new_tier(uint64_t budget, const pc_allocator *mem,
                          const pc__tier_callbacks *callbacks)
{
    static pc_allocator kept;
    pc__tier_common common = {.mem = mem ? mem : &pc__libc_allocator, .budget = budget};
    pc__tier *tier = NULL;
    pc_status status;
    kept = *common.mem;
    common.mem = &kept;
    common.record.codec = PC_CODEC_RAW;
    if (callbacks)
        common.callbacks = *callbacks;
    status = pc__tier_compressed_new(&tier, &common);
    CHECK(status == PC_OK ? tier != NULL : status == PC_ERR_NOMEM && !tier);
    return tier;
}

static pc_status put_bytes(pc__tier *tier, int32_t n, size_t bytes, uint32_t *reason)
{
    sample s;
    make(&s, n, bytes);
    pc_status status = tier->ops->put(tier, &s.image, 0, reason);
    done_with(&s);
    return status;
}

static pc_status put(pc__tier *tier, int32_t n)
{
    uint32_t reason;
    return put_bytes(tier, n, BLOCK, &reason);
}

static pc_status open_it(pc__tier *tier, int32_t n, pc__source **source)
{
    pc__id key = id_of(n);
    int timed_out = 1;
    pc_status status = tier->ops->open(tier, &key, 0, source, &timed_out);
    CHECK_INT(timed_out, 0);
    CHECK((status == PC_OK) == (*source != NULL));
    return status;
}

/* Through the record: what comes back equals what went in. */
static pc_status check_source(pc__source *source, int32_t n, size_t bytes)
{
    pc__record_options options = {0};
    pc__record *record = NULL;
    sample s;
    uint8_t *block = malloc(bytes + 1);
    pc_status status = pc__record_open(&record, &pc__libc_allocator, &options, source);
    make(&s, n, bytes);
    for (size_t b = 0; b < BLOCKS && status == PC_OK; b++) {
        status = pc__record_block(record, b, block);
        CHECK(status < 0 || !memcmp(block, s.blocks[b], bytes));
        const void *lent = pc__record_block_address(record, b);
        if (status == PC_OK)
            CHECK_OK(pc__record_check(record, b));
        CHECK(status < 0 || (lent && !memcmp(lent, s.blocks[b], bytes)));
    }
    pc__record_free(record);
    done_with(&s);
    free(block);
    return status;
}

static int has(pc__tier *tier, int32_t n)
{
    pc__id key = id_of(n);
    uint64_t bytes;
    return tier->ops->may_have(tier, &key, &bytes);
}

static pc_status get(pc__tier *tier, int32_t n, size_t bytes)
{
    pc__source *source;
    pc__id key = id_of(n);
    pc_status status = open_it(tier, n, &source);
    if (status != PC_OK)
        return status;
    CHECK(source->bytes >= BLOCKS * bytes);
    status = check_source(source, n, bytes);
    tier->ops->read_done(tier, &key, status, source->bytes, 0.5);
    source->close(source);
    return status;
}

static pc_tier_stats balanced(pc__tier *tier)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    tier->ops->stats(tier, &s);
    CHECK_INT(s.struct_size, sizeof s);
    CHECK_INT(s.stored + s.refused + s.failed + s.known, s.offered);
    CHECK_INT(s.segments + s.evicted + s.removed + s.lost, s.stored);
    CHECK_INT(s.hits + s.misses + s.load_failed, s.lookups);
    CHECK(s.segment_bytes <= s.budget_bytes && s.staging_bytes <= s.segment_bytes);
    return s;
}

static void comes_back(void)
{
    pc__tier *tier = new_tier(1 << 20, NULL, NULL);
    pc__id key = id_of(1), content = id_of(77);
    uint64_t bytes = 1;
    uint32_t reason = 9;
    sample s;
    CHECK_INT(tier->ops->id, PC_TIER_COMPRESSED);
    CHECK_STATUS(get(tier, 1, BLOCK), PC_MISS);
    CHECK(!tier->ops->may_have(tier, &key, &bytes) && bytes == 0);
    make(&s, 1, BLOCK);
    s.image.has_content = 1;
    s.image.content = content;
    CHECK(!tier->ops->has_content(tier, &content));
    CHECK_OK(tier->ops->put(tier, &s.image, 0, &reason));
    CHECK_STATUS(tier->ops->put(tier, &s.image, 0, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_NONE);
    done_with(&s);
    CHECK(tier->ops->has_content(tier, &content));
    CHECK(tier->ops->may_have(tier, &key, &bytes) && bytes > BLOCKS * BLOCK);
    CHECK_OK(get(tier, 1, BLOCK));
    CHECK_OK(put_bytes(tier, 2, 0, &reason)); /* of nothing */
    CHECK_OK(get(tier, 1, BLOCK));
    pc_tier_stats st = balanced(tier);
    CHECK_INT(st.stored, 2);
    CHECK_INT(st.known, 1);
    CHECK_INT(st.hits, 2);
    CHECK_INT(st.bytes_read, 2 * bytes);
    CHECK(st.bytes_written > bytes && st.seconds_read > 0.9);
    tier->ops->remove(tier, &key);
    tier->ops->remove(tier, &key);
    CHECK(!has(tier, 1) && !tier->ops->has_content(tier, &content));
    tier->ops->clear(tier);
    CHECK_INT(balanced(tier).removed, 2);
    CHECK_INT(balanced(tier).segment_bytes, 0);
    tier->ops->free(tier);
}

static void budget(void)
{
    pc__tier *tier = new_tier(65000, NULL, NULL);
    pc__source *source;
    uint32_t reason;
    for (int32_t n = 0; n < 4; n++)
        CHECK_OK(put(tier, n));
    CHECK_OK(get(tier, 0, BLOCK));
    CHECK_OK(put(tier, 4)); /* 1 has been used least */
    CHECK(has(tier, 0) && !has(tier, 1) && has(tier, 2) && has(tier, 4));
    CHECK_INT(balanced(tier).evicted, 1);
    CHECK_STATUS(put_bytes(tier, 5, 30000, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_NO_ROOM);
    CHECK_INT(balanced(tier).segments, 4); /* it would not have fitted: nothing has gone */
    /* a record that is being read stays readable when it is removed; its bytes count until then */
    CHECK_OK(open_it(tier, 2, &source));
    for (int32_t n = 10; n < 30; n++)
        CHECK_OK(put(tier, n));
    CHECK(has(tier, 2));
    tier->ops->clear(tier);
    CHECK(!has(tier, 2));
    CHECK(balanced(tier).segment_bytes > BLOCKS * BLOCK);
    for (int32_t n = 30; n < 50; n++)
        CHECK_OK(put(tier, n));
    CHECK_INT(balanced(tier).segments, 3);
    CHECK_OK(check_source(source, 2, BLOCK));
    source->close(source);
    CHECK_OK(put(tier, 50));
    CHECK_INT(balanced(tier).segments, 4);
    tier->ops->free(tier);
}

static void all_open(void)
{
    pc__tier *tier = new_tier(50000, NULL, NULL);
    pc__source *sources[3];
    for (int32_t n = 0; n < 3; n++) {
        CHECK_OK(put(tier, n));
        CHECK_OK(open_it(tier, n, &sources[n]));
    }
    CHECK_STATUS(put(tier, 9), PC_MISS);
    CHECK_INT(balanced(tier).refused, 1);
    for (int32_t n = 0; n < 3; n++)
        sources[n]->close(sources[n]);
    CHECK_OK(put(tier, 9));
    balanced(tier);
    tier->ops->free(tier);
}

static pc_status put_for(pc__tier *tier, int32_t tenant, int32_t n, uint32_t *reason)
{
    sample s;
    pc_status status;
    make(&s, n, 600);
    s.image.salt = id_of(tenant);
    status = tier->ops->put(tier, &s.image, 0, reason);
    done_with(&s);
    return status;
}

static int count_of(pc__tier *tier, int32_t first)
{
    uint64_t bytes;
    int count = 0;
    for (int32_t n = first; n < first + 100; n++) {
        pc__id key = id_of(n);
        count += tier->ops->may_have(tier, &key, &bytes);
    }
    return count;
}

static void tenants(void)
{
    pc__tier *tier = new_tier(60000, NULL, NULL);
    pc__id one = id_of(7001), two = id_of(7002);
    uint32_t reason;
    int all;
    for (int32_t n = 1000; n < 1100; n++)
        CHECK_OK(put_for(tier, 7001, n, &reason));
    all = count_of(tier, 1000);
    CHECK(all > 10 && all < 100);
    CHECK_OK(tier->ops->set_quota(tier, &one, 30000)); /* what is over goes at once */
    CHECK(count_of(tier, 1000) >= all / 2 - 1 && count_of(tier, 1000) <= all / 2 + 1);
    CHECK_OK(tier->ops->set_quota(tier, &two, 20000));
    all = count_of(tier, 1000);
    for (int32_t n = 2000; n < 2100; n++)
        CHECK_OK(put_for(tier, 7002, n, &reason));
    CHECK_INT(count_of(tier, 1000), all);
    CHECK(count_of(tier, 2000) >= all / 2 - 1 && count_of(tier, 2000) <= all * 3 / 4);
    CHECK_OK(tier->ops->set_quota(tier, &two, 100));
    CHECK_INT(count_of(tier, 2000), 0);
    CHECK_STATUS(put_for(tier, 7002, 2000, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_QUOTA);
    CHECK_INT(count_of(tier, 1000), all);
    balanced(tier);
    tier->ops->free(tier);
}

static void times_and_priorities(void)
{
    pc__tier *tier = new_tier(65000, NULL, NULL);
    struct timespec nap = {0, 510000000};
    uint32_t reason;
    sample s;
    make(&s, 1, BLOCK);
    s.image.ttl = 0.5; /* a busy machine may stall */
    CHECK_OK(tier->ops->put(tier, &s.image, 0, &reason));
    done_with(&s);
    make(&s, 2, BLOCK);
    s.image.expires = pc__now_date() - 5;
    CHECK_OK(tier->ops->put(tier, &s.image, 0, &reason));
    done_with(&s);
    CHECK(has(tier, 1) && !has(tier, 2));
    CHECK_OK(get(tier, 1, BLOCK));
    nanosleep(&nap, NULL);
    pc__id first = id_of(1);
    CHECK(!has(tier, 1)); /* and a miss can tell why */
    CHECK_INT(tier->ops->absence_reason(tier, &first), PC_REASON_EXPIRED);
    CHECK_INT(tier->ops->absence_reason(tier, &first), PC_REASON_NONE);
    CHECK_STATUS(get(tier, 1, BLOCK), PC_MISS);
    tier->ops->sweep(tier);
    CHECK_INT(balanced(tier).removed, 2);
    for (int32_t n = 10; n < 14; n++) {
        make(&s, n, BLOCK);
        s.image.priority = n == 12 ? 0 : 5;
        CHECK_OK(tier->ops->put(tier, &s.image, 0, &reason));
        done_with(&s);
    }
    CHECK_OK(put(tier, 20));
    CHECK(!has(tier, 12) && has(tier, 20));
    make(&s, 21, BLOCK);
    s.image.priority = -1;
    CHECK_STATUS(tier->ops->put(tier, &s.image, 0, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_NO_ROOM);
    done_with(&s);
    tier->ops->free(tier);
}

static void damaged(void)
{
    pc__tier *tier = new_tier(65000, NULL, NULL);
    pc__id key = id_of(1);
    pc__source *source;
    char byte;
    CHECK_OK(put(tier, 1));
    CHECK_OK(open_it(tier, 1, &source));
    CHECK_STATUS(source->read(source, BLOCKS + 1, 0, 0, &byte, 1), PC_ERR_NOT_FOUND);
    CHECK_STATUS(source->read(source, 0, 0, UINT64_MAX, &byte, 1), PC_ERR_FORMAT);
    CHECK_STATUS(source->read(source, 0, 7, 0, &byte, 1), PC_ERR_FORMAT);
    CHECK(source->borrow(source, 0, 0, 0, 1) && !source->borrow(source, 0, 0, 0, (size_t)1 << 40));
    ((uint8_t *)(uintptr_t)source->borrow(source, 0, 0, 0, 1))[3] ^= 1;
    CHECK_STATUS(check_source(source, 1, BLOCK), PC_ERR_FORMAT);
    tier->ops->read_done(tier, &key, PC_ERR_FORMAT, 0, 0);
    CHECK(!has(tier, 1));
    source->close(source);
    CHECK_OK(put(tier, 1));
    CHECK_OK(open_it(tier, 1, &source));
    tier->ops->read_done(tier, &key, PC_ERR_IO, 0, 0); /* that says nothing about the record */
    source->close(source);
    CHECK_OK(get(tier, 1, BLOCK));
    pc_tier_stats st = balanced(tier);
    CHECK_INT(st.lost, 1);
    CHECK_INT(st.load_failed, 2);
    tier->ops->free(tier);
}

/* -------------------------------------------------------------------- news */

typedef struct news {
    pc__tier *tier;
    int kinds[8];
    uint64_t bytes;
} news;

static void on_event(void *user, const pc_event *event)
{
    news *n = user;
    n->kinds[event->kind]++;
    CHECK_INT(event->tier, PC_TIER_COMPRESSED);
    CHECK_INT(event->tokens, 1);
    has(n->tier, 1); /* would deadlock under the lock */
}

static void on_bytes(void *user, uint32_t tier, uint64_t bytes, uint64_t budget_bytes)
{
    news *n = user;
    CHECK_INT(tier, PC_TIER_COMPRESSED);
    CHECK(bytes <= budget_bytes);
    n->bytes = bytes;
    has(n->tier, 1);
}

static void telling(void)
{
    news n = {0};
    pc__tier *tier = n.tier = new_tier(40000, NULL, &(pc__tier_callbacks){on_event, on_bytes, &n});
    uint32_t reason;
    for (int32_t i = 0; i < 3; i++)
        CHECK_OK(put(tier, i));
    CHECK_OK(get(tier, 2, BLOCK));
    CHECK_STATUS(put_bytes(tier, 9, 40000, &reason), PC_MISS);
    CHECK_INT(n.bytes, balanced(tier).segment_bytes);
    tier->ops->clear(tier);
    CHECK_INT(n.bytes, 0);
    CHECK_INT(n.kinds[PC_EVENT_STORE], 3);
    CHECK_INT(n.kinds[PC_EVENT_EVICT], 1);
    CHECK_INT(n.kinds[PC_EVENT_HIT], 1);
    CHECK_INT(n.kinds[PC_EVENT_REMOVE], 2);
    CHECK_INT(n.kinds[PC_EVENT_STORE_FAILED], 1);
    tier->ops->free(tier);
}

/* ------------------------------------------------------------------- overwriting */

static int not_zero; /* blocks of states that were given back as they were */

static void *plain_alloc(void *user, size_t size, size_t align)
{
    void *ptr = NULL;
    (void)user;
    return posix_memalign(&ptr, align < sizeof(void *) ? sizeof(void *) : align, size) ? NULL : ptr;
}

static void looking_free(void *user, void *ptr, size_t size, size_t align)
{
    const uint8_t *bytes = ptr;
    (void)user;
    if (align == 64 && size > BLOCK) { /* a piece; its first 64 bytes are the allocator's */
        int any = 0;
        for (size_t i = 64; i < size; i++)
            any |= bytes[i];
        not_zero += any != 0;
    }
    free(ptr);
}

static void overwriting(void)
{
    pc_allocator mem = {sizeof(pc_allocator), NULL, plain_alloc, looking_free};
    pc__zeroing wiping;
    pc__zeroing_init(&wiping, &mem);
    for (uint32_t zero_memory = 0; zero_memory < 2; zero_memory++) {
        pc__tier *tier = new_tier(40000, zero_memory ? &wiping.mem : &mem, NULL);
        pc__source *source;
        not_zero = 0;
        for (int32_t n = 0; n < 4; n++)
            CHECK_OK(put(tier, n)); /* two evicted */
        CHECK_OK(open_it(tier, 3, &source));
        tier->ops->clear(tier);
        source->close(source);
        CHECK_OK(put(tier, 5));
        tier->ops->free(tier);
        CHECK(zero_memory ? not_zero == 0 : not_zero >= 5 * BLOCKS);
    }
}

/* --------------------------------------------------------------- memory, threads */

static void without_memory(void)
{
    for (uint64_t at = 1, reached = 1; reached; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__tier *tier = new_tier(100000, &mem, NULL);
        for (int32_t n = 0; n < 12 && tier; n++) {
            pc_status status = put(tier, n);
            CHECK(status == PC_OK || status == PC_ERR_NOMEM);
            status = get(tier, n, BLOCK);
            CHECK(status == PC_OK || status == PC_MISS || status == PC_ERR_NOMEM);
        }
        if (tier) {
            CHECK_INT(balanced(tier).staging_bytes, 0);
            tier->ops->free(tier);
        }
        CHECK_INT(memory.live_blocks, 0);
        reached = memory.calls >= at;
    }
}

enum { THREADS = 8, ROUNDS = 400 };

/* Without checks, which are not for several threads. */
static pc_status get_quietly(pc__tier *tier, int32_t n, size_t bytes)
{
    pc__record_options options = {0};
    pc__record *record = NULL;
    pc__source *source;
    pc__id key = id_of(n);
    uint8_t block[1000];
    sample s;
    int timed_out;
    pc_status status = tier->ops->open(tier, &key, 0, &source, &timed_out);
    if (status != PC_OK)
        return status;
    make(&s, n, bytes);
    status = pc__record_open(&record, &pc__libc_allocator, &options, source);
    for (size_t b = 0; b < BLOCKS && status == PC_OK; b++) {
        status = pc__record_block(record, b, block);
        if (status == PC_OK && memcmp(block, s.blocks[b], bytes))
            status = PC_ERR_INTERNAL;
    }
    pc__record_free(record);
    tier->ops->read_done(tier, &key, status, source->bytes, 0);
    source->close(source);
    done_with(&s);
    return status;
}

static void *race(void *arg)
{
    pc__tier *tier = arg;
    static atomic_uint seeds;
    pc_test_rng rng = {100 + atomic_fetch_add(&seeds, 1)};
    uint32_t reason;
    for (int i = 0; i < ROUNDS; i++) {
        int32_t n = (int32_t)(pc_test_bits(&rng) % 30);
        pc__id key = id_of(n);
        pc_status status = get_quietly(tier, n, 500);
        if (status < 0 || (status == PC_MISS && put_bytes(tier, n, 500, &reason) < 0))
            return arg;
        if (i % 16 == 3)
            tier->ops->remove(tier, &key);
        if (i % 100 == 50)
            tier->ops->clear(tier);
        tier->ops->sweep(tier);
    }
    return NULL;
}

static void threads(void)
{
    pc__tier *tier = new_tier(30000, NULL, NULL);
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&ids[i], NULL, race, tier), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = tier;
        pthread_join(ids[i], &wrong);
        CHECK(wrong == NULL);
    }
    CHECK_INT(balanced(tier).lookups, THREADS * ROUNDS);
    CHECK_INT(balanced(tier).staging_bytes, 0);
    tier->ops->clear(tier);
    CHECK_INT(balanced(tier).segment_bytes, 0);
    tier->ops->free(tier);
}

int main(void)
{
    comes_back();
    budget();
    all_open();
    tenants();
    times_and_priorities();
    damaged();
    telling();
    overwriting();
    without_memory();
    threads();
    return pc_test_end();
}
