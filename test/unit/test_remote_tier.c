/* Catches: records that a server does not return bit for bit; damaged, foreign or incomplete
 * records that are used; entries that do not expire; counters that do not balance; logins that fail
 * or leave the password in memory; races between threads; leaks when memory is short. Against a
 * real redis-server. */
#include "store/tier.h"

#include <promptcache/cache.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include <xxhash.h>

#include "redis_server.h"
#include "remote_entries.h"
#include "strangers.h"
#include "store/remote/remote_tier.h"

static pc_test_memory memory;
static pc_allocator mem;
static pc__codecs *codecs;
static char log_text[8192];
static atomic_int events[8];

static void keep_log(void *user, uint32_t level, const char *line)
{
    (void)user;
    (void)level;
    strncat(log_text, line, sizeof log_text - strlen(log_text) - 1);
}

static void count_event(void *user, const pc_event *event)
{
    (void)user;
    atomic_fetch_add(&events[event->kind], 1);
}

static pc__tier_common common_of(pc_context *context, const uint8_t *seal_key, uint32_t read_only)
{
    pc__tier_common c;
    memset(&c, 0, sizeof c);
    c.mem = &mem;
    c.context = context;
    c.record.codecs = codecs;
    c.record.codec = PC_CODEC_RAW;
    c.record.seal_key = seal_key;
    c.callbacks.event = count_event;
    c.read_only = read_only;
    return c;
}

static pc__tier *open_tier(const char *address, const pc__tier_common *common)
{
    pc__tier *tier = NULL;
    CHECK_OK(pc__tier_remote_new(&tier, common, address));
    return tier;
}

static const char *address_of(const pc_redis *server, const char *login)
{
    static char text[300];
    snprintf(text, sizeof text, "redis://%s127.0.0.1:%d", login, server->port);
    return text;
}

static pc_tier_stats stats_of(pc__tier *tier)
{
    pc_tier_stats n = PC_TIER_STATS_INIT;
    tier->ops->stats(tier, &n);
    return n;
}

static pc_status load(pc__tier *tier, const pc__tier_common *c, const sample *s)
{
    int timed_out;
    return sample_load(tier, &mem, &c->record, s, 5, &timed_out);
}

static void test_round_trip(const pc_redis *server, const uint8_t *seal_key)
{
    pc__tier_common c = common_of(NULL, seal_key, 0);
    pc__tier *a = open_tier(address_of(server, ""), &c), *b = open_tier(address_of(server, ""), &c);
    uint32_t reason;
    uint64_t bytes;
    pc_redis_ask(server, "FLUSHALL");
    for (size_t i = 0; i < 6; i++) {
        sample s = sample_make(i, 1 + 3 * i, i == 5 ? 3000000 : i * 1000);
        CHECK(a->ops->may_have(a, &s.image.key, &bytes));
        CHECK_STATUS(load(a, &c, &s), PC_MISS);
        CHECK(!a->ops->may_have(a, &s.image.key, &bytes)); /* believed for a moment */
        CHECK_STATUS(sample_put(a, &s, 5, &reason), PC_OK);
        CHECK(a->ops->may_have(a, &s.image.key, &bytes) && bytes);
        CHECK(a->ops->has_content(a, &s.image.content));
        CHECK(!b->ops->has_content(b, &s.image.content));
        CHECK_STATUS(sample_put(b, &s, 5, &reason), PC_MISS);
        CHECK_INT(reason, PC_REASON_NONE);
        CHECK(b->ops->has_content(b, &s.image.content));
        CHECK_STATUS(load(a, &c, &s), PC_OK);
        CHECK_STATUS(load(b, &c, &s), PC_OK);
        sample_free(&s);
    }
    CHECK_INT(stats_of(a).stored, 6);
    CHECK_INT(stats_of(a).hits, 6);
    CHECK_INT(stats_of(a).misses, 6);
    CHECK_INT(stats_of(b).known, 6);
    CHECK_INT(stats_of(b).found, 6);
    CHECK_INT(stats_of(b).segment_bytes, stats_of(a).segment_bytes);
    CHECK_INT(stats_of(b).bytes_read, stats_of(a).bytes_written);
    {
        sample s = sample_make(5, 16, 3000000);
        a->ops->remove(a, &s.image.key);
        CHECK_STATUS(load(b, &c, &s), PC_MISS);
        CHECK_INT(stats_of(a).removed, 1);
        CHECK_INT(stats_of(b).lost, 1);
        sample_free(&s);
    }
    check_balance(a);
    check_balance(b);
    a->ops->clear(a);
    CHECK_INT(stats_of(a).segments, 0);
    CHECK_STR(pc_redis_ask(server, "DBSIZE"), "0");
    check_balance(a);
    a->ops->sweep(a);
    a->ops->free(a);
    b->ops->free(b);
}

static void test_read_only(const pc_redis *server)
{
    pc__tier_common c = common_of(NULL, NULL, 0), d = common_of(NULL, NULL, 1);
    pc__tier *a = open_tier(address_of(server, ""), &c), *b = open_tier(address_of(server, ""), &d);
    sample s = sample_make(1, 2, 100), t = sample_make(2, 2, 100);
    uint32_t reason;
    CHECK_OK(sample_put(a, &s, 5, &reason));
    CHECK_STATUS(load(b, &d, &s), PC_OK);
    CHECK_STATUS(sample_put(b, &t, 5, &reason), PC_MISS);
    b->ops->remove(b, &s.image.key);
    CHECK_STATUS(load(a, &c, &s), PC_OK);
    CHECK_STR(pc_redis_ask(server, "DBSIZE"), "3");
    CHECK_INT(stats_of(b).refused, 1);
    check_balance(b);
    a->ops->clear(a);
    a->ops->free(a);
    b->ops->free(b);
    sample_free(&s);
    sample_free(&t);
}

/* The one key of the server that does (want 1) or does not end in }. */
static const char *a_key(const pc_redis *server, int header)
{
    static char key[200];
    const char *at = pc_redis_ask(server, "KEYS pc1:*");
    for (; *at; at += strcspn(at, " "), at += *at == ' ') {
        size_t n = strcspn(at, " ");
        if ((at[n - 1] == '}') == header) {
            snprintf(key, sizeof key, "%.*s", (int)n, at);
            return key;
        }
    }
    return "-";
}

static void test_damage(const pc_redis *server)
{
    pc__tier_common c = common_of(NULL, NULL, 0);
    pc__tier *tier = open_tier(address_of(server, ""), &c);
    sample s = sample_make(3, 3, 5000), t;
    uint32_t reason;
    pc_status status;
    for (int way = 0; way < 9; way++) {
        CHECK_OK(sample_put(tier, &s, 5, &reason));
        CHECK_STR(pc_redis_ask(server, "DBSIZE"), "4");
        switch (way) {
        case 0:
            pc_redis_ask(server, "SETRANGE %s 4999 xx", a_key(server, 0));
            break; /* longer, its last byte another */
        case 1:
            pc_redis_ask(server, "SETRANGE %s 50 xx", a_key(server, 1));
            break; /* the envelope */
        case 2:
            pc_redis_ask(server, "SETRANGE %s 150 xx", a_key(server, 1));
            break; /* the record's header */
        case 3:
            pc_redis_ask(server, "DEL %s", a_key(server, 0));
            break; /* evicted */
        case 4:
            pc_redis_ask(server, "SET %s short", a_key(server, 0));
            break;
        case 5:
            pc_redis_ask(server, "SET %s short", a_key(server, 1));
            break;
        case 6:
            pc_redis_ask(server, "DEL %s", a_key(server, 0)),
                pc_redis_ask(server, "LPUSH %s x", a_key(server, 0));
            break;
        case 7: {
            char key[200];
            snprintf(key, sizeof key, "%s", a_key(server, 1));
            pc_redis_ask(server, "DEL %s", key);
            pc_redis_ask(server, "LPUSH %s x", key);
            break;
        }
        default:
            pc_redis_ask(server, "SET %s %s", a_key(server, 0), "");
            break;
        }
        status = load(tier, &c, &s);
        CHECK(status == (way == 3 || way == 6 ? PC_ERR_NOT_FOUND : PC_ERR_FORMAT) || way == 8);
        CHECK(way == 8 || !strcmp(a_key(server, 1), "-")); /* what cannot be read is taken away */
        pc_redis_ask(server, "FLUSHALL");
        load(tier, &c, &s);
        check_balance(tier);
    }
    /* another entry under this name */
    CHECK_OK(sample_put(tier, &s, 5, &reason));
    t = sample_make(4, 3, 5000);
    t.image.key = s.image.key;
    const uint64_t lost = stats_of(tier).lost;
    CHECK_STATUS(load(tier, &c, &t), PC_ERR_MISMATCH); /* the reader may be wrong: it stays */
    CHECK_STR(pc_redis_ask(server, "DBSIZE"), "4");
    CHECK_OK(load(tier, &c, &s));
    CHECK_STATUS(load(tier, &c, &t), PC_ERR_MISMATCH);
    CHECK_STATUS(sample_put(tier, &s, 5, &reason), PC_MISS); /* it agrees with the writer */
    CHECK_INT(reason, PC_REASON_NONE);
    CHECK_INT(stats_of(tier).lost, lost);
    CHECK_STATUS(load(tier, &c, &t), PC_ERR_MISMATCH);
    CHECK_OK(sample_put(tier, &t, 5, &reason)); /* with nobody: replaced */
    CHECK_OK(load(tier, &c, &t));
    check_balance(tier);
    tier->ops->free(tier);
    sample_free(&s);
    sample_free(&t);
}

/* Puts a record that this reader cannot open under the name that a writer with `key` uses. */
static void plant(const pc_redis *server, int kind, const uint8_t *key, const sample *s)
{
    pc__codecs *strange;
    pc__tier_common c = common_of(NULL, key, 0);
    uint32_t reason;
    const pc__record_options reader = c.record;
    c.record = stranger_options(kind, key, &strange);
    pc__tier *tier = open_tier(address_of(server, ""), &c);
    CHECK_OK(sample_put(tier, s, 5, &reason));
    tier->ops->free(tier);
    sample_move(server, s, &c.record, &reader);
    pc__codecs_free(strange);
}

/* An envelope of a later version, whole as far as its checksum goes. */
static void plant_later(const pc_redis *server, const sample *s)
{
    uint8_t envelope[PC__REMOTE_ENVELOPE_BYTES];
    char text[1024] = "";
    pc__remote_entry entry = {.pieces = 2};
    pc__record_name record_name = {.key = s->image.key};
    pc__remote_name name = pc__remote_entry_name(&record_name, 0, 0);
    pc__remote_envelope_write(envelope, &entry);
    envelope[4] = 2;
    pc__put_u64(envelope + sizeof envelope - 8, XXH3_64bits(envelope, sizeof envelope - 8));
    for (size_t i = 0; i < sizeof envelope; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? "," : "",
                 envelope[i]);
    CHECK_STR(pc_redis_ask(server, "EVAL return(redis.call([[SET]],KEYS[1],string.char(%s))) 1 %s",
                           text, name.text),
              "OK");
}

static const uint8_t a_seal[32] = {3, 1, 4, 1, 5};

/* What cannot be opened does not keep its name from a writer, whether it was read before or not. */
static void test_strangers(const pc_redis *server)
{
    sample s = sample_make(40, 3, 5000);
    for (int kind = 0; kind <= STRANGER_LATER; kind++)
        for (int way = 0; way < 4; way++) {
            const uint8_t *key = way & 1 && kind != STRANGER_LATER ? a_seal : NULL;
            pc__tier_common c = common_of(NULL, key, 0);
            pc__tier *tier = open_tier(address_of(server, ""), &c), *again;
            uint32_t reason;
            pc_redis_ask(server, "FLUSHALL");
            if (kind == STRANGER_LATER)
                plant_later(server, &s);
            else
                plant(server, kind, key, &s);
            if (way & 2)
                CHECK_STATUS(load(tier, &c, &s), PC_ERR_UNSUPPORTED);
            CHECK_INT(sample_put(tier, &s, 5, &reason), PC_OK);
            CHECK_OK(load(tier, &c, &s));
            CHECK_STATUS(sample_put(tier, &s, 5, &reason), PC_MISS);
            CHECK_INT(reason, PC_REASON_NONE);
            CHECK_STR(pc_redis_ask(server, "DBSIZE"), "4"); /* nothing is left of the other */
            again = open_tier(address_of(server, ""), &c);
            CHECK_STATUS(sample_put(again, &s, 5, &reason), PC_MISS);
            CHECK_OK(load(again, &c, &s));
            check_balance(tier);
            check_balance(again);
            again->ops->free(again);
            tier->ops->free(tier);
        }
    sample_free(&s);
}

/* Groups with different keys, and one without, share a server: none removes what another has
 * written. */
static void test_keys(const pc_redis *server)
{
    static const uint8_t other[32] = {1, 2, 3};
    const uint8_t *const keys[] = {a_seal, other, NULL};
    sample s = sample_make(41, 3, 5000);
    pc_redis_ask(server, "FLUSHALL");
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++) {
            pc__tier_common c = common_of(NULL, keys[i], 0);
            pc__tier *tier = open_tier(address_of(server, ""), &c);
            uint32_t reason;
            CHECK_STATUS(load(tier, &c, &s), round ? PC_OK : PC_MISS);
            CHECK_STATUS(sample_put(tier, &s, 5, &reason), round ? PC_MISS : PC_OK);
            CHECK_OK(load(tier, &c, &s));
            check_balance(tier);
            tier->ops->free(tier);
        }
    CHECK_STR(pc_redis_ask(server, "DBSIZE"), "12");
    pc_redis_ask(server, "FLUSHALL");
    sample_free(&s);
}

/* Two readers that accept only states of their own kernels, of two kinds, and one that accepts
 * any. */
static void test_kernels(const pc_redis *server)
{
    static const char *const kernels[] = {"avx2", "c+dnn3.1.1-7f", NULL};
    sample s = sample_make(42, 3, 5000);
    uint32_t reason;
    pc_redis_ask(server, "FLUSHALL");
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++) {
            pc__tier_common c = common_of(NULL, i ? NULL : a_seal, 0);
            c.record.kernels = kernels[i];
            strcpy(s.image.kernels, kernels[i] ? kernels[i] : "avx512");
            pc__tier *tier = open_tier(address_of(server, ""), &c);
            CHECK_STATUS(load(tier, &c, &s), round ? PC_OK : PC_MISS);
            CHECK_STATUS(sample_put(tier, &s, 5, &reason), round ? PC_MISS : PC_OK);
            check_balance(tier);
            tier->ops->free(tier);
        }
    CHECK_STR(pc_redis_ask(server, "DBSIZE"), "12");
    /* what others have computed is no use to him under his own name */
    pc__tier_common c = common_of(NULL, NULL, 0);
    c.record.kernels = kernels[0];
    pc__tier *tier = open_tier(address_of(server, ""), &c),
             *planter = open_tier(address_of(server, ""), &c);
    strcpy(s.image.kernels, "avx512");
    CHECK_OK(sample_put(planter, &s, 5, &reason));
    CHECK_STATUS(load(tier, &c, &s), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("computed with kernels avx512, not with avx2");
    strcpy(s.image.kernels, "avx2");
    CHECK_OK(sample_put(tier, &s, 5, &reason));
    CHECK_OK(load(tier, &c, &s));
    check_balance(tier);
    tier->ops->free(tier);
    planter->ops->free(planter);
    pc_redis_ask(server, "FLUSHALL");
    sample_free(&s);
}

static void test_expiry(const pc_redis *server)
{
    pc__tier_common c = common_of(NULL, NULL, 0);
    pc__tier *tier = open_tier(address_of(server, ""), &c);
    sample s = sample_make(5, 2, 100), t = sample_make(6, 2, 100), old = sample_make(7, 2, 100),
           long_one = sample_make(8, 2, 100);
    uint32_t reason;
    int ttl;
    s.image.expires = pc__now_date() + 2; /* a fixed end */
    t.image.ttl = 3; /* moved by each hit, and long enough for a machine that stalls */
    old.image.expires = pc__now_date() - 1;
    CHECK_OK(sample_put(tier, &s, 5, &reason));
    CHECK_OK(sample_put(tier, &t, 5, &reason));
    CHECK_OK(sample_put(tier, &long_one, 5, &reason));
    CHECK_STATUS(sample_put(tier, &old, 5, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_EXPIRED);
    for (int i = 0; i < 6; i++) {
        usleep(600000);
        CHECK_STATUS(load(tier, &c, &t), PC_OK);
    }
    CHECK_STATUS(load(tier, &c, &s), PC_MISS);
    CHECK_STATUS(load(tier, &c, &long_one), PC_OK);
    usleep(3200000);
    CHECK_STATUS(load(tier, &c, &t), PC_MISS);
    CHECK_STATUS(load(tier, &c, &long_one), PC_OK);
    CHECK_INT(atoi(pc_redis_ask(server, "TTL %s", a_key(server, 1))), -1);
    check_balance(tier);
    CHECK_INT(stats_of(tier).lost, 2);
    CHECK_INT(stats_of(tier).refused, 1);
    pc_redis_ask(server, "FLUSHALL");
    t.image.ttl = 100;
    CHECK_OK(sample_put(tier, &t, 5, &reason));
    ttl = atoi(pc_redis_ask(server, "TTL %s", a_key(server, 1)));
    CHECK(ttl > 90 && ttl <= 100);
    CHECK(atoi(pc_redis_ask(server, "TTL %s", a_key(server, 0))) > ttl); /* the header ends first */
    pc_redis_ask(server, "FLUSHALL");
    s.image.ttl = 1e17; /* no server's clock goes so far */
    s.image.expires = pc__date_after(pc__now_date(), s.image.ttl);
    CHECK_OK(sample_put(tier, &s, 5, &reason));
    CHECK(atoi(pc_redis_ask(server, "TTL %s", a_key(server, 1))) > 1900000000);
    CHECK_STATUS(load(tier, &c, &s), PC_OK);
    pc_redis_ask(server, "FLUSHALL");
    tier->ops->free(tier);
    sample_free(&s);
    sample_free(&t);
    sample_free(&old);
    sample_free(&long_one);
}

static void test_login(void)
{
    pc_redis server = pc_redis_start("--requirepass secret-1");
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    pc__tier_common c;
    pc__tier *tier;
    sample s = sample_make(1, 2, 100);
    uint32_t reason;
    options.log = keep_log;
    CHECK_OK(pc_context_new(&context, &options));
    c = common_of(context, NULL, 0);
    tier = open_tier(address_of(&server, ":secret-1@"), &c);
    CHECK_OK(sample_put(tier, &s, 5, &reason));
    CHECK_STATUS(load(tier, &c, &s), PC_OK);
    tier->ops->free(tier);
    tier = open_tier(address_of(&server, ""), &c);
    CHECK_STATUS(load(tier, &c, &s), PC_ERR_IO);
    CHECK_ERROR_HAS("NOAUTH");
    tier->ops->free(tier);
    tier = open_tier(address_of(&server, ":secret-2@"), &c);
    CHECK_STATUS(sample_put(tier, &s, 5, &reason), PC_ERR_IO);
    CHECK_ERROR_HAS("WRONGPASS");
    CHECK(!strstr(pc_error_text(), "secret"));
    CHECK_INT(stats_of(tier).failed, 1);
    check_balance(tier);
    tier->ops->free(tier);
    pc_redis_kill(&server);
    server = pc_redis_start("");
    CHECK_STR(pc_redis_ask(&server, "ACL SETUSER someone on >secret-3 ~pc1:* +@all"), "OK");
    tier = open_tier(address_of(&server, "someone:secret-3@"), &c);
    CHECK_OK(sample_put(tier, &s, 5, &reason));
    CHECK_STATUS(load(tier, &c, &s), PC_OK);
    CHECK_STR(pc_redis_ask(&server, "ACL SETUSER someone -set"), "OK");
    tier->ops->remove(tier, &s.image.key);
    CHECK_STATUS(sample_put(tier, &s, 5, &reason), PC_ERR_IO);
    CHECK_ERROR_HAS("NOPERM");
    tier->ops->free(tier);
    tier = open_tier(address_of(&server, "someone:secret-4@"), &c);
    CHECK_STATUS(load(tier, &c, &s), PC_ERR_IO);
    tier->ops->free(tier);
    CHECK(strstr(log_text, "paused"));
    CHECK(!strstr(log_text, "secret"));
    pc_context_free(context);
    pc_redis_kill(&server);
    sample_free(&s);
}

/* A server whose memory is full evicts entries; one that may not evict refuses new ones. */
static void test_full_server(void)
{
    pc_redis server = pc_redis_start("--maxmemory 8mb --maxmemory-policy allkeys-lru");
    pc__tier_common c = common_of(NULL, NULL, 0);
    pc__tier *tier = open_tier(address_of(&server, ""), &c);
    uint32_t reason;
    int ok = 0, gone = 0;
    for (uint64_t i = 0; i < 40; i++) {
        sample s = sample_make(i, 8, 50000);
        CHECK_OK(sample_put(tier, &s, 5, &reason));
        sample_free(&s);
    }
    for (uint64_t i = 0; i < 40; i++) {
        sample s = sample_make(i, 8, 50000);
        pc_status status = load(tier, &c, &s);
        CHECK(status == PC_OK || status == PC_MISS || status == PC_ERR_NOT_FOUND);
        ok += status == PC_OK;
        gone += status != PC_OK;
        if (status == PC_ERR_NOT_FOUND) {
            usleep(1);
            CHECK_STATUS(load(tier, &c, &s), PC_MISS);
        }
        sample_free(&s);
    }
    CHECK(ok > 0 && gone > 0);
    CHECK_INT(stats_of(tier).lost, gone);
    check_balance(tier);
    CHECK_STR(pc_redis_ask(&server, "CONFIG SET maxmemory-policy noeviction"), "OK");
    for (uint64_t i = 100; i < 140; i++) {
        sample s = sample_make(i, 8, 50000);
        pc_status status = sample_put(tier, &s, 5, &reason);
        sample_free(&s);
        if (status == PC_MISS) {
            CHECK_INT(reason, PC_REASON_NO_ROOM);
            break;
        }
        CHECK_OK(status);
    }
    CHECK(stats_of(tier).refused > 0);
    check_balance(tier);
    tier->ops->free(tier);
    pc_redis_kill(&server);
}

static void test_restart(void)
{
    pc_redis server = pc_redis_start("");
    pc__tier_common c = common_of(NULL, NULL, 0);
    pc__tier *tier = open_tier(address_of(&server, ""), &c);
    sample s = sample_make(1, 2, 100), t = sample_make(2, 2, 100);
    uint32_t reason;
    uint64_t bytes;
    double started;
    CHECK_OK(sample_put(tier, &s, 5, &reason));
    pc_redis_kill(&server);
    started = pc__now();
    CHECK_STATUS(load(tier, &c, &s), PC_ERR_IO);
    CHECK(!tier->ops->may_have(tier, &s.image.key, &bytes));
    CHECK_STATUS(load(tier, &c, &s), PC_ERR_IO); /* not even tried */
    CHECK_ERROR_HAS("paused");
    CHECK_STATUS(sample_put(tier, &t, 5, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_UNREACHABLE);
    CHECK(pc__now() - started < 1);
    pc_redis_again(&server);
    for (int i = 0; i < 100 && !tier->ops->may_have(tier, &s.image.key, &bytes); i++)
        usleep(10000);
    CHECK_STATUS(load(tier, &c, &s), PC_MISS); /* it has come back empty */
    CHECK_OK(sample_put(tier, &t, 5, &reason));
    CHECK_STATUS(load(tier, &c, &t), PC_OK);
    /* a restart between two requests, which the connections at rest do not know of */
    pc_redis_kill(&server);
    pc_redis_again(&server);
    CHECK_OK(sample_put(tier, &s, 5, &reason));
    CHECK_STATUS(load(tier, &c, &s), PC_OK);
    CHECK_INT(stats_of(tier).load_failed, 2);
    check_balance(tier);
    tier->ops->free(tier);
    pc_redis_kill(&server);
    sample_free(&s);
    sample_free(&t);
}

typedef struct worker {
    pthread_t thread;
    pc__tier *tier;
    const pc__tier_common *common;
    sample *samples;
    int index, wrong, hits;
} worker;

enum { WORKERS = 8, ENTRIES = 12, TURNS = 60 };

static pc_status load_quietly(worker *w, const sample *s)
{
    pc__source *source;
    pc__record *record = NULL;
    int timed_out;
    uint8_t out[4096];
    pc_status status = w->tier->ops->open(w->tier, &s->image.key, pc__now() + 5, &source,
                                          &timed_out);
    if (status != PC_OK)
        return status;
    status = pc__record_open(&record, &mem, &w->common->record, source);
    for (size_t b = 0; status == PC_OK && b < s->image.block_count; b++) {
        status = pc__record_block(record, b, out);
        if (status == PC_OK && memcmp(out, s->blocks[b], (size_t)s->sizes[b]))
            w->wrong++;
    }
    w->tier->ops->read_done(w->tier, &s->image.key, status, 0, 0);
    pc__record_free(record);
    source->close(source);
    return status;
}

static void *work(void *arg)
{
    worker *w = arg;
    pc_test_rng rng = {(uint64_t)w->index + 99};
    for (int i = 0; i < TURNS; i++) {
        sample *s = &w->samples[pc_test_bits(&rng) % ENTRIES];
        unsigned what = (unsigned)(pc_test_bits(&rng) % 8);
        uint32_t reason;
        uint64_t bytes;
        pc_status status = PC_OK;
        if (what == 0)
            w->tier->ops->remove(w->tier, &s->image.key);
        else if (what < 4)
            status = w->tier->ops->put(w->tier, &s->image, pc__now() + 5, &reason);
        else if (w->tier->ops->may_have(w->tier, &s->image.key, &bytes))
            w->hits += (status = load_quietly(w, s)) == PC_OK;
        w->wrong +=
            status < 0
            && status != PC_ERR_NOT_FOUND; /* another client removes the entry while it is read */
    }
    return NULL;
}

static void test_threads(const pc_redis *server)
{
    pc__tier_common c = common_of(NULL, NULL, 0);
    pc__tier *tiers[2] = {open_tier(address_of(server, ""), &c),
                          open_tier(address_of(server, ""), &c)};
    sample samples[ENTRIES];
    worker workers[WORKERS];
    int hits = 0;
    for (int i = 0; i < ENTRIES; i++)
        samples[i] = sample_make((uint64_t)i, 4, 4096);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.tier = tiers[i % 2], .common = &c, .samples = samples, .index = i};
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        CHECK_INT(workers[i].wrong, 0);
        hits += workers[i].hits;
    }
    CHECK(hits > 0);
    check_balance(tiers[0]);
    check_balance(tiers[1]);
    tiers[0]->ops->clear(tiers[0]);
    tiers[1]->ops->clear(tiers[1]);
    for (int i = 0; i < ENTRIES; i++) {
        tiers[0]->ops->remove(tiers[0], &samples[i].image.key);
        sample_free(&samples[i]);
    }
    CHECK_STR(pc_redis_ask(server, "DBSIZE"),
              "0"); /* losers of races have taken their blocks away */
    tiers[0]->ops->free(tiers[0]);
    tiers[1]->ops->free(tiers[1]);
}

static pc_status whole_life(const pc_redis *server, const sample *s)
{
    pc__tier_common c = common_of(NULL, NULL, 0);
    pc__tier *tier = NULL;
    uint32_t reason;
    pc_status status = pc__tier_remote_new(&tier, &c, address_of(server, "")), loaded;
    if (status < 0) {
        CHECK(!tier);
        return status;
    }
    status = sample_put(tier, s, 5, &reason);
    CHECK(status == PC_OK || status == PC_ERR_NOMEM);
    if (status == PC_ERR_NOMEM)
        CHECK_INT(stats_of(tier).failed, 1);
    loaded = load(tier, &c, s);
    if (!CHECK(loaded == PC_OK || loaded == PC_MISS || loaded == PC_ERR_NOMEM))
        fprintf(stderr, "    %s: %s\n", pc_status_name(loaded), pc_error_text());
    tier->ops->remove(tier, &s->image.key);
    check_balance(tier);
    tier->ops->free(tier);
    return status < 0 ? status : loaded;
}

static void test_memory(const pc_redis *server)
{
    sample s = sample_make(77, 3, 2000);
    int64_t before = memory.live_blocks;
    uint64_t at = 1;
    pc_redis_ask(server, "FLUSHALL");
    for (pc_status status = PC_ERR_NOMEM; status != PC_OK && at < 2000; at++) {
        memory.calls = 0;
        memory.fail_at = at;
        status = whole_life(server, &s);
        if (memory.calls < at) { /* nothing has failed any more */
            memory.fail_at = 0;
            CHECK_INT(status, PC_OK);
            break;
        }
        memory.fail_at = 0;
        CHECK_INT(memory.live_blocks, before);
        pc_redis_ask(server, "FLUSHALL");
        status = PC_ERR_NOMEM;
    }
    CHECK(at > 20 && at < 2000);
    sample_free(&s);
}

static void test_other_ways(const pc_redis *server)
{
    pc__tier_common c = common_of(NULL, NULL, 0);
    char text[400];
    sample s = sample_make(12, 3, 700);
    uint32_t reason;
    pc__tier *tier;
    pc_redis local;
    snprintf(text, sizeof text, "redis://localhost:%d/4",
             server->port); /* a name, and another database */
    tier = open_tier(text, &c);
    CHECK_OK(sample_put(tier, &s, 5, &reason));
    CHECK_STATUS(load(tier, &c, &s), PC_OK);
    CHECK_STR(pc_redis_ask(server, "DBSIZE"), "0");
    tier->ops->clear(tier);
    tier->ops->free(tier);
    snprintf(text, sizeof text, "redis://no-such-host.invalid:%d", server->port);
    tier = open_tier(text, &c);
    {
        int timed_out;
        double started = pc__now();
        CHECK_STATUS(sample_load(tier, &mem, &c.record, &s, 0.3, &timed_out), PC_ERR_IO);
        CHECK(pc__now() - started < 0.8);
    }
    tier->ops->free(tier);
    snprintf(text, sizeof text, "--unixsocket %s/s", pc_test_folder());
    local = pc_redis_start(text);
    snprintf(text, sizeof text, "redis+unix://%s", strchr(local.arguments, '/'));
    tier = open_tier(text, &c);
    CHECK_OK(sample_put(tier, &s, 5, &reason));
    CHECK_STATUS(load(tier, &c, &s), PC_OK);
    tier->ops->free(tier);
    pc_redis_kill(&local);
    sample_free(&s);
}

/* PC_TEST_SPEED: MB/s of putting and loading, beside a plain loop of GETs (redis-benchmark -t get
 * -d 8000000 -c 1). */
static void measure(const pc_redis *server)
{
    pc__tier_common c = common_of(NULL, NULL, 0);
    pc__tier *tier = open_tier(address_of(server, ""), &c);
    sample s = sample_make(1, 16, 8000000);
    uint32_t reason;
    for (int i = 0; i < 4; i++) {
        double t0 = pc__now(), t1, t2;
        CHECK_OK(sample_put(tier, &s, 60, &reason));
        t1 = pc__now();
        CHECK_STATUS(load(tier, &c, &s), PC_OK);
        t2 = pc__now();
        printf("put %.0f MB/s, load %.0f MB/s\n", 128 / (t1 - t0), 128 / (t2 - t1));
        tier->ops->remove(tier, &s.image.key);
    }
    {
        static uint8_t out[8000000];
        sample_put(tier, &s, 60, &reason);
        for (int i = 0; i < 3; i++) {
            pc__source *source;
            int timed_out;
            double t0 = pc__now();
            CHECK_OK(tier->ops->open(tier, &s.image.key, t0 + 60, &source, &timed_out));
            for (size_t b = 1; b <= 16; b++)
                CHECK_OK(source->read(source, b, 0, 0, out, sizeof out));
            printf("transfer alone %.0f MB/s\n", 128 / (pc__now() - t0));
            tier->ops->read_done(tier, &s.image.key, PC_OK, 0, 0);
            source->close(source);
        }
    }
    tier->ops->free(tier);
    sample_free(&s);
}

int main(void)
{
    static const uint8_t seal_key[32] = {1, 2, 3};
    mem = pc_test_allocator(&memory);
#if !defined(PC_HAVE_HIREDIS)
    {
        pc__tier_common c = common_of(NULL, NULL, 0);
        pc__tier *tier;
        CHECK_STATUS(pc__tier_remote_new(&tier, &c, "redis://127.0.0.1"), PC_ERR_UNSUPPORTED);
        CHECK_ERROR_HAS("hiredis");
        return pc_test_end();
    }
#endif
    CHECK_OK(pc__codecs_new(&codecs, &mem, NULL, 0));
    pc_redis server = pc_redis_start("");
    if (getenv("PC_TEST_SPEED")) {
        measure(&server);
        return pc_test_end();
    }
    test_round_trip(&server, NULL);
    test_round_trip(&server, seal_key);
    test_read_only(&server);
    test_damage(&server);
    test_strangers(&server);
    test_keys(&server);
    test_kernels(&server);
    test_expiry(&server);
    test_other_ways(&server);
    test_threads(&server);
    test_memory(&server);
    test_login();
    test_full_server();
    test_restart();
    CHECK(atomic_load(&events[PC_EVENT_STORE]) && atomic_load(&events[PC_EVENT_HIT])
          && atomic_load(&events[PC_EVENT_LOAD_FAILED]) && atomic_load(&events[PC_EVENT_REMOVE])
          && atomic_load(&events[PC_EVENT_STORE_FAILED]));
    pc__codecs_free(codecs);
    CHECK_INT(memory.live_blocks, 0);
    return pc_test_end();
}
