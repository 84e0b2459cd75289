/* Catches: a request that hangs, crashes, allocates without limit, returns wrong bytes or leaves
 * half an entry on the server, when the server stalls, trickles, sends wrong values, closes the
 * connection or sends invalid replies. A proxy between the tier and a real redis-server does all
 * that. */
#include "store/tier.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake_redis.h"
#include "redis_server.h"
#include "remote_entries.h"
#include "store/remote/remote_tier.h"

#if !defined(PC_HAVE_HIREDIS)
int main(void)
{
    pc_test_skip("built without hiredis");
    return 0;
}
#else

#define PATIENCE 0.12
#define EPSILON 0.43 /* this machine may be busy: in all within 0.55 s */

/* ---------------------------------------------------------------- the proxy */

enum { PASS, STALL, TRICKLE, SCRIPT, ENDLESS, CLOSE };
enum { CONNECTIONS = 64 };

typedef struct proxy {
    int listener, port, server_port;
    atomic_int mode, stop;
    atomic_long cut_down,
        cut_up; /* close a connection after this many bytes of answers or requests; -1: never */
    atomic_long flip;     /* one bit of this byte of the answers; -1: none */
    atomic_long down, up; /* bytes so far */
    const char *script;   /* answers everything: set while nobody is connected */
    size_t script_size;
    int skip; /* this many requests of a connection pass before that */
    int ends[CONNECTIONS][2], seen[CONNECTIONS];
    pthread_t thread;
} proxy;

static void drop(proxy *p, int i)
{
    close(p->ends[i][0]);
    close(p->ends[i][1]);
    p->ends[i][0] = p->ends[i][1] = -1;
}

static void take(proxy *p)
{
    struct sockaddr_in a = pc_redis_address(p->server_port);
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC), i = 0;
    while (i < CONNECTIONS && p->ends[i][0] >= 0)
        i++;
    if (i == CONNECTIONS || atomic_load(&p->mode) == CLOSE) {
        close(client);
        return;
    }
    p->ends[i][0] = client;
    p->ends[i][1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    p->seen[i] = 0;
    if (connect(p->ends[i][1], (struct sockaddr *)&a, sizeof a))
        drop(p, i);
}

static void answer_by_script(proxy *p, int i)
{
    int endless = atomic_load(&p->mode) == ENDLESS;
    do {
        if (!fake_send(p->ends[i][0], p->script, p->script_size)) {
            drop(p, i);
            return;
        }
    } while (endless && !atomic_load(&p->stop));
}

/* From one end to the other: direction 0 up (requests), 1 down (answers). */
static void move(proxy *p, int i, int direction)
{
    static char data[65536];
    int mode = atomic_load(&p->mode),
        scripted = (mode == SCRIPT || mode == ENDLESS) && p->seen[i] >= p->skip;
    ssize_t n = recv(p->ends[i][direction], data, mode == TRICKLE && direction ? 1 : sizeof data,
                     MSG_DONTWAIT);
    atomic_long *count = direction ? &p->down : &p->up;
    long before = atomic_load(count), cut = atomic_load(direction ? &p->cut_down : &p->cut_up),
         flip = atomic_load(&p->flip);
    int ends = 0;
    if (n <= 0) {
        drop(p, i);
        return;
    }
    if (!direction)
        p->seen[i]++;
    if (scripted && !direction) {
        answer_by_script(p, i);
        return;
    }
    if (mode == TRICKLE && direction)
        usleep(2000);
    if (cut >= 0 && before + n >= cut) {
        n = cut > before ? (ssize_t)(cut - before) : 0;
        ends = 1;
    }
    if (direction && flip >= before && flip < before + n)
        data[flip - before] ^= 4;
    atomic_fetch_add(count, n);
    if (!fake_send(p->ends[i][!direction], data, (size_t)n) || ends)
        drop(p, i);
}

static void *serve(void *arg)
{
    proxy *p = arg;
    while (!atomic_load(&p->stop)) {
        struct pollfd fds[1 + 2 * CONNECTIONS];
        int stalled = atomic_load(&p->mode) == STALL;
        fds[0] = (struct pollfd){p->listener, POLLIN, 0};
        for (int i = 0; i < 2 * CONNECTIONS; i++)
            fds[1 + i] = (struct pollfd){stalled ? -1 : p->ends[i / 2][i % 2], POLLIN, 0};
        if (poll(fds, 1 + 2 * CONNECTIONS, 5) <= 0)
            continue;
        if (fds[0].revents)
            take(p);
        for (int i = 0; i < 2 * CONNECTIONS; i++)
            if (fds[1 + i].revents && p->ends[i / 2][i % 2] == fds[1 + i].fd)
                move(p, i / 2, i % 2);
    }
    return NULL;
}

static void proxy_start(proxy *p, int server_port)
{
    struct sockaddr_in a = pc_redis_address(0);
    socklen_t size = sizeof a;
    memset(p, 0, sizeof *p);
    p->server_port = server_port;
    for (int i = 0; i < CONNECTIONS; i++)
        p->ends[i][0] = p->ends[i][1] = -1;
    atomic_store(&p->cut_down, -1);
    atomic_store(&p->cut_up, -1);
    atomic_store(&p->flip, -1);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(!bind(p->listener, (struct sockaddr *)&a, sizeof a) && !listen(p->listener, 64));
    CHECK(!getsockname(p->listener, (struct sockaddr *)&a, &size));
    p->port = ntohs(a.sin_port);
    pthread_create(&p->thread, NULL, serve, p);
}

static void proxy_stop(proxy *p)
{
    atomic_store(&p->stop, 1);
    pthread_join(p->thread, NULL);
    for (int i = 0; i < CONNECTIONS; i++)
        if (p->ends[i][0] >= 0)
            drop(p, i);
    close(p->listener);
}

/* ---------------------------------------------------------------- the cases */

static pc_test_memory memory;
static pc_allocator mem;
static pc__tier_common common;
static pc_redis server;
static sample small, big;

static pc__tier *tier_through(const proxy *p, const char *login)
{
    char address[100];
    pc__tier *tier;
    snprintf(address, sizeof address, "redis://%s127.0.0.1:%d", login, p->port);
    CHECK_OK(pc__tier_remote_new(&tier, &common, address));
    return tier;
}

static pc__tier *tier_direct(void)
{
    proxy p = {.port = server.port};
    return tier_through(&p, "");
}

static pc_status load(pc__tier *tier, const sample *s, double seconds, int *timed_out)
{
    *timed_out = 0;
    return sample_load(tier, &mem, &common.record, s, seconds, timed_out);
}

/* A load and a put must end in time in every case; the tier works again when the server does. */
static void check_case(const char *name, int mode, const char *script, size_t script_size, int skip,
                       const char *login)
{
    proxy p;
    pc__tier *tier;
    int timed_out;
    uint32_t reason;
    double started;
    pc_status status;
    sample other = sample_make(500, 2, 1000);
    proxy_start(&p, server.port);
    p.script = script;
    p.script_size = script_size;
    p.skip = skip;
    atomic_store(&p.mode, mode);
    tier = tier_through(&p, login);
    started = pc__now();
    status = load(tier, &big, PATIENCE, &timed_out);
    if (!CHECK(status != PC_OK) || !CHECK(pc__now() - started < PATIENCE + EPSILON))
        printf("case %s: load: %s after %.2f s\n", name, pc_status_name(status),
               pc__now() - started);
    if (status < 0 && login[0])
        CHECK(!strstr(pc_error_text(), "secret"));
    tier->ops->free(tier);
    tier = tier_through(&p, login); /* nothing known of the failure before */
    started = pc__now();
    status = sample_put(tier, &other, PATIENCE, &reason);
    if (!CHECK(pc__now() - started < PATIENCE + EPSILON))
        printf("case %s: put: %s after %.2f s\n", name, pc_status_name(status),
               pc__now() - started);
    CHECK(mode == SCRIPT || mode == TRICKLE || status != PC_OK);
    check_balance(tier);
    if (!login[0]) {
        atomic_store(&p.mode, PASS);
        status = PC_ERR_IO;
        for (int i = 0; i < 100 && status != PC_OK; i++) {
            usleep(10000);
            status = load(tier, &small, 2, &timed_out);
        }
        if (!CHECK_OK(status))
            printf("case %s: does not recover\n", name);
    }
    check_balance(tier);
    tier->ops->free(tier);
    proxy_stop(&p);
    tier = tier_direct(); /* what was published is whole */
    status = load(tier, &other, 2, &timed_out);
    CHECK(status == PC_OK || status == PC_MISS);
    tier->ops->remove(tier, &other.image.key);
    tier->ops->free(tier);
    sample_free(&other);
}

static void test_scripts(void)
{
    static const char *const scripts[] = {
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-WRONGTYPE Operation against a key\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
        "-TRYAGAIN Multiple keys\r\n",
        "-ERR max number of clients reached\r\n",
        "-ERR\r\n",
        "-\r\n",
        "+OK\r\n",
        ":5\r\n",
        "*1\r\n$1\r\na\r\n",
        "*0\r\n",
        "*-1\r\n",
        "$-1\r\n",
        "$-2\r\n",
        "$abc\r\n",
        "$\r\n",
        "$5\r\nabcdeXY",
        "$0\r\n\r\n",
        "$3\r\nabc\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "\r\n",
        "\n",
        "?",
        "+OK\r\n+OK\r\n+OK\r\n",
        "$70000\r\n",
        "$99999999999\r\n",
        "$18446744073709551615\r\n",
        "$184467440737095516150\r\n",
        "*2147483647\r\n",
        "*99999999999999\r\n",
        ":99999999999999999999999\r\n",
        "-MOVED\r\n",
        "-MOVED 1\r\n",
        "-MOVED x y:z\r\n",
        "-MOVED 99999 127.0.0.1:1\r\n",
        "-MOVED 1 127.0.0.1:1\r\n",
        "-ASK 1 127.0.0.1:1\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        check_case(scripts[i], SCRIPT, scripts[i], strlen(scripts[i]), 0, "");
    for (size_t i = 0; i < 12; i++) /* the header comes, then that */
        check_case(scripts[3 * i], SCRIPT, scripts[3 * i], strlen(scripts[3 * i]), 1, "");
    check_case("zeros", SCRIPT, "\0\0\0\0\0\0\0\0", 8, 0, "");
}

static void test_endless(void)
{
    static char zeros[65536], line[65536];
    static const char nested[] = "*2147483647\r\n";
    static const char elements[] =
        "*1000000000\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n";
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    memset(line, 'a', sizeof line);
    line[0] = '+';
    check_case("endless zeros", ENDLESS, zeros, sizeof zeros, 0, "");
    check_case("endless line", ENDLESS, line, sizeof line, 0, "");
    memcpy(line, "$99999999999\r\n", 14);
    check_case("endless bulk", ENDLESS, line, sizeof line, 0, "");
    check_case("endless arrays", ENDLESS, nested, sizeof nested - 1, 0, "");
    check_case("endless elements", ENDLESS, elements, sizeof elements - 1, 0, "");
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss
          < 300 * 1024); /* KiB; sanitizers hold back what was freed */
}

static void test_slow(void)
{
    static const char tells[] =
        "-ERR unknown command `AUTH`, with args beginning with: `secret`, \r\n";
    check_case("stall", STALL, "", 0, 0, "");
    check_case("trickle", TRICKLE, "", 0, 0, "");
    check_case("close", CLOSE, "", 0, 0, "");
    check_case("silence", SCRIPT, "", 0, 0, "");
    check_case("silence behind the header", SCRIPT, "", 0, 1, "");
    check_case("told password", SCRIPT, tells, sizeof tells - 1, 0, "someone:secret@");
}

/* SIGSTOP: the kernel still takes connections and bytes. */
static void test_frozen(void)
{
    pc__tier *tier = tier_direct();
    int timed_out;
    uint32_t reason;
    uint64_t bytes;
    double started;
    pc_status status = PC_ERR_IO;
    sample huge = sample_make(600, 1, 20000000);
    CHECK_STATUS(load(tier, &big, 5, &timed_out), PC_OK);
    pc_redis_freeze(&server);
    started = pc__now();
    CHECK_STATUS(load(tier, &big, PATIENCE, &timed_out), PC_ERR_IO);
    CHECK_INT(timed_out, 1);
    CHECK(pc__now() - started >= PATIENCE && pc__now() - started < PATIENCE + EPSILON);
    CHECK(!tier->ops->may_have(tier, &big.image.key, &bytes));
    while (!tier->ops->may_have(tier, &big.image.key, &bytes))
        usleep(5000);
    started = pc__now();
    CHECK_STATUS(sample_put(tier, &huge, PATIENCE, &reason), PC_ERR_IO);
    CHECK(pc__now() - started < PATIENCE + EPSILON);
    pc_redis_thaw(&server);
    for (int i = 0; i < 200 && status != PC_OK; i++) {
        usleep(10000);
        status = load(tier, &big, 5, &timed_out);
    }
    CHECK_OK(status);
    check_balance(tier);
    tier->ops->free(tier);
    sample_free(&huge);
}

/* Blocks that a writer could not take back must end by themselves. */
static void end_leftovers(void)
{
    static char keys[1 << 16];
    char small_hex[65], big_hex[65];
    pc__id_hex(&small.image.key, small_hex);
    pc__id_hex(&big.image.key, big_hex);
    snprintf(keys, sizeof keys, "%s", pc_redis_ask(&server, "KEYS pc1:*"));
    for (char *key = strtok(keys, " "); key; key = strtok(NULL, " ")) {
        int ttl;
        if (strstr(key, small_hex) || strstr(key, big_hex))
            continue;
        ttl = atoi(pc_redis_ask(&server, "TTL %s", key));
        CHECK(ttl > 0 && ttl <= 600);
        pc_redis_ask(&server, "DEL %s", key);
    }
}

/* The record of a writer with a key, under the name of one without. */
static void plant(const sample *s)
{
    static const uint8_t key[32] = {1, 2, 3};
    pc__tier_common c = common;
    pc__tier *tier = NULL;
    char address[64];
    uint32_t reason;
    c.record.seal_key = key;
    snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
    CHECK_OK(pc__tier_remote_new(&tier, &c, address));
    CHECK_OK(sample_put(tier, s, 5, &reason));
    tier->ops->free(tier);
    sample_move(&server, s, &c.record, &common.record);
}

/* A writer that replaces a record which it cannot open is killed after every few bytes that it
 * sends. */
static void test_replacing(void)
{
    sample other = sample_make(701, 3, 700);
    int timed_out, replaced = 0;
    uint32_t reason;
    for (long at = 0; at < 5200; at += 67) {
        int clients = pc_redis_clients(&server);
        pc_status status;
        proxy p;
        pc__tier *tier, *direct = tier_direct();
        plant(&other);
        proxy_start(&p, server.port);
        atomic_store(&p.cut_up, at);
        tier = tier_through(&p, "");
        status = sample_put(tier, &other, 0.5, &reason);
        replaced += status == PC_OK;
        check_balance(tier);
        tier->ops->free(tier);
        proxy_stop(&p);
        pc_redis_until(&server, clients);
        if (status == PC_OK)
            CHECK_STATUS(load(direct, &other, 5, &timed_out), PC_OK);
        else
            CHECK(sample_put(direct, &other, 5, &reason) >= 0); /* the next writer replaces it */
        CHECK_STATUS(load(direct, &other, 5, &timed_out), PC_OK);
        direct->ops->remove(direct, &other.image.key);
        check_balance(direct);
        direct->ops->free(direct);
        end_leftovers();
        if (!CHECK_STR(pc_redis_ask(&server, "DBSIZE"),
                       "16")) /* small and big: nothing without an end is left */
            printf("after the writer that breaks off after %ld bytes: %s\n", at,
                   pc_redis_ask(&server, "KEYS pc1:*"));
    }
    CHECK(replaced > 3 && replaced < 70);
    sample_free(&other);
}

/* Closes the connection after every few bytes, and flips a bit in every few. */
static void test_breaks(void)
{
    sample other = sample_make(700, 3, 700);
    pc__tier *direct = tier_direct();
    int timed_out, whole = 0;
    uint32_t reason;
    for (long at = 0; at < 3600; at += 37) {
        pc_status status;
        proxy p;
        pc__tier *tier;
        CHECK(sample_put(direct, &other, 5, &reason) >= 0);
        proxy_start(&p, server.port);
        atomic_store(at % 2 ? &p.flip : &p.cut_down, at);
        tier = tier_through(&p, "");
        status = load(tier, &other, PATIENCE, &timed_out); /* checks the bytes if it is PC_OK */
        whole += status == PC_OK;
        check_balance(tier);
        tier->ops->free(tier);
        proxy_stop(&p);
    }
    CHECK(whole > 0 && whole < 90);
    direct->ops->remove(direct, &other.image.key);
    end_leftovers(); /* of writers that were too slow, before */
    for (long at = 0; at < 3600; at += 61) {
        pc_status status;
        int clients = pc_redis_clients(&server);
        proxy p;
        pc__tier *tier;
        if (!CHECK_STR(pc_redis_ask(&server, "DBSIZE"),
                       "16")) /* small and big: nothing of `other` is left */
            printf("before the writer that breaks off after %ld bytes: %s\n", at,
                   pc_redis_ask(&server, "KEYS pc1:*"));
        proxy_start(&p, server.port);
        atomic_store(&p.cut_up, at);
        tier = tier_through(&p, "");
        status = sample_put(tier, &other, 0.1, &reason);
        check_balance(tier);
        tier->ops->free(tier);
        proxy_stop(&p);
        pc_redis_until(&server, clients);
        if (status == PC_OK)
            CHECK_STATUS(load(direct, &other, 5, &timed_out), PC_OK);
        else
            CHECK(load(direct, &other, 5, &timed_out) >= 0); /* there or not, but not half */
        direct->ops->remove(direct, &other.image.key);
        end_leftovers();
    }
    direct->ops->remove(direct, &other.image.key);
    check_balance(direct);
    direct->ops->free(direct);
    sample_free(&other);
}

int main(void)
{
    pc__codecs *codecs;
    pc__tier *tier;
    uint32_t reason;
    mem = pc_test_allocator(&memory);
    server = pc_redis_start("");
    CHECK_OK(pc__codecs_new(&codecs, &mem, NULL, 0));
    common.mem = &mem;
    common.record.codecs = codecs;
    common.record.codec = PC_CODEC_RAW;
    small = sample_make(1, 2, 500);
    big = sample_make(2, 12, 200000);
    tier = tier_direct();
    CHECK_OK(sample_put(tier, &small, 5, &reason));
    CHECK_OK(sample_put(tier, &big, 5, &reason));
    tier->ops->free(tier);
    test_slow();
    test_frozen();
    test_breaks();
    test_replacing();
    test_scripts();
    test_endless();
    sample_free(&small);
    sample_free(&big);
    pc__codecs_free(codecs);
    CHECK_INT(memory.live_blocks, 0);
    return pc_test_end();
}
#endif
