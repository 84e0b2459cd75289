/* Catches: states that do not come back bit for bit over TLS; a server that is accepted without a
 * certificate, or with one that is expired, of another authority or of another name; a handshake
 * that exceeds the deadline or fails without a clear error; a breaker that stays open; missing
 * client certificates; plain connections to nodes of a cluster; leaks. It uses a real redis-server
 * and certificates that the openssl program makes. */
#include "store/tier.h"

#include <promptcache/cache.h>
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "redis_server.h"
#include "remote_entries.h"

#define PATIENCE 0.1
#define EPSILON 0.5 /* this machine may be busy */

static pc_test_memory memory;
static pc_allocator mem;
static pc__tier_common common;
static pc_redis server;
static int tls_port;
static char folder[200];
static sample small, big;
static atomic_uint last_reason; /* of a load or store that has failed */

/* OpenSSL is not instrumented. Its threads communicate by atomics alone (for example, the first
 * reader parses a certificate's extensions), which looks unordered to ThreadSanitizer. Options of
 * this program; nobody else calls this. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:libcrypto.so\nrace:libssl.so\n";
}

static void note_event(void *user, const pc_event *event)
{
    (void)user;
    if (event->kind == PC_EVENT_LOAD_FAILED || event->kind == PC_EVENT_STORE_FAILED)
        atomic_store(&last_reason, event->reason);
}

/* Two authorities; of the first: a server's certificate, an expired one, one of another name, a
 * client's. */
static void make_certificates(void)
{
    static const char script[] =
        "cd %s && {\n"
        "key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $1.key; }\n"
        "authority() { key $1 && openssl req -x509 -new -key $1.key -subj \"/CN=$1\" -days 2 -out "
        "$1.pem; }\n"
        "sign() { echo \"subjectAltName=$3\" >names && openssl x509 -req -in leaf.csr -CA ca.pem "
        "-CAkey ca.key -CAcreateserial -days $2 -extfile names -out $1.pem; }\n"
        /* OpenSSL 3.4 and later have dates in place of days before today */
        "expired() { sign expired -1 $1 || openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key "
        "-CAcreateserial -not_before 20200101000000Z\\\n"
        " -not_after 20200102000000Z -extfile names -out expired.pem; }\n"
        "authority ca && authority other && key leaf && openssl req -new -key leaf.key -subj "
        "/CN=leaf -out leaf.csr &&\n"
        "sign server 2 DNS:localhost,IP:127.0.0.1 && expired DNS:localhost,IP:127.0.0.1 && sign "
        "elsewhere 2 DNS:elsewhere.invalid &&\n"
        "openssl ec -in leaf.key -aes128 -passout pass:locked -out locked.key && cat server.pem "
        "leaf.key >both.pem && echo nonsense >nonsense.pem &&\n"
        "mkdir authorities && cp ca.pem authorities/$(openssl x509 -hash -noout -in ca.pem).0; } "
        ">log 2>&1";
    char command[2048];
    snprintf(folder, sizeof folder, "%s", pc_test_folder());
    snprintf(command, sizeof command, script, folder);
    if (system("command -v openssl >/dev/null 2>&1"))
        pc_test_skip("the openssl program is not installed");
    CHECK_INT(system(command), 0);
}

static void show(const char *certificate, const char *clients)
{
    CHECK_STR(pc_redis_ask(&server,
                           "CONFIG SET tls-cert-file %s/%s.pem tls-key-file %s/leaf.key "
                           "tls-ca-cert-file %s/ca.pem tls-auth-clients %s",
                           folder, certificate, folder, folder, clients),
              "OK");
}

static void turn_on(void)
{
    if (!strncmp(pc_redis_ask(&server, "CONFIG SET tls-auth-clients no"), "-", 1))
        pc_test_skip("redis-server is built without TLS");
    show("server", "no");
    CHECK_STR(pc_redis_ask(&server, "CONFIG SET tls-port %d", tls_port), "OK");
}

/* %F in the options is the folder of the certificates. */
static pc__tier *tier_at(const char *host, int port, const char *options)
{
    char address[1024];
    size_t size = (size_t)snprintf(address, sizeof address, "rediss://%s:%d", host, port);
    pc__tier *tier = NULL;
    for (const char *c = options; *c; c++)
        if (!strncmp(c, "%F", 2)) {
            size += (size_t)snprintf(address + size, sizeof address - size, "%s", folder);
            c++;
        } else {
            address[size++] = *c;
            address[size] = 0;
        }
    if (!CHECK_OK(pc__tier_remote_new(&tier, &common, address)))
        printf("%s\n", address);
    return tier;
}

static pc_status load(pc__tier *tier, const sample *s, double seconds, int *timed_out)
{
    return sample_load(tier, &mem, &common.record, s, seconds, timed_out);
}

static void check_works(const char *host, int port, const char *options)
{
    pc__tier *tier = tier_at(host, port, options);
    sample mine = sample_make(77, 3, 50000);
    uint32_t reason;
    int timed_out;
    if (!CHECK_STATUS(load(tier, &big, 5, &timed_out), PC_OK))
        printf("%s %s: %s\n", host, options, pc_error_text());
    CHECK_STATUS(load(tier, &small, 5, &timed_out), PC_OK);
    CHECK_STATUS(sample_put(tier, &mine, 5, &reason), PC_OK);
    CHECK_STATUS(load(tier, &mine, 5, &timed_out), PC_OK);
    tier->ops->remove(tier, &mine.image.key);
    check_balance(tier);
    tier->ops->free(tier);
    sample_free(&mine);
}

/* A load and a put fail in time, with these words and with a reason for computing; then the server
 * is not asked again. */
static void check_fails(const char *host, int port, const char *options, double seconds,
                        const char *words)
{
    for (int put = 0; put < 2; put++) {
        pc__tier *tier = tier_at(host, port, options);
        double started = pc__now();
        int timed_out;
        uint32_t reason;
        uint64_t bytes;
        pc_status status;
        atomic_store(&last_reason, 0);
        status = put ? sample_put(tier, &small, seconds, &reason)
                     : load(tier, &big, seconds, &timed_out);
        if (!CHECK_STATUS(status, PC_ERR_IO) || !CHECK(pc__now() - started < seconds + EPSILON)
            || !CHECK_ERROR_HAS(words))
            printf("%s:%d%s: %s after %.2f s: %s\n", host, port, options, pc_status_name(status),
                   pc__now() - started, pc_error_text());
        reason = atomic_load(&last_reason);
        CHECK(reason == PC_REASON_UNREACHABLE || reason == PC_REASON_DEADLINE
              || (put && reason == PC_REASON_IO));
        CHECK(!tier->ops->may_have(tier, &big.image.key, &bytes));
        check_balance(tier);
        tier->ops->free(tier);
    }
}

static void test_certificates(void)
{
    char path[300];
    check_works("127.0.0.1", tls_port, "?cacert=%F/ca.pem");
    check_works("localhost", tls_port, "?cacert=%F/ca%2Epem");
    check_works("localhost", tls_port, "/0?cacert=%F/authorities&sni=localhost.");
    check_works("127.0.0.1", tls_port, "?cacert=%F/ca.pem&sni=localhost");
    check_works("127.0.0.1", tls_port, "?insecure=1");
    check_fails("127.0.0.1", tls_port, "", 2, "certificate is refused");
    check_fails("127.0.0.1", tls_port, "?cacert=%F/other.pem", 2, "certificate is refused");
    check_fails("127.0.0.1", tls_port, "?cacert=%F/ca.pem&sni=other.invalid", 2,
                "not made out to 'other.invalid'");
    snprintf(path, sizeof path, "%s/ca.pem", folder);
    setenv("SSL_CERT_FILE", path, 1); /* the system's, for OpenSSL */
    check_works("localhost", tls_port, "");
    unsetenv("SSL_CERT_FILE");
    show("expired", "no");
    check_fails("localhost", tls_port, "?cacert=%F/ca.pem", 2, "expired");
    show("elsewhere", "no");
    check_fails("localhost", tls_port, "?cacert=%F/ca.pem", 2, "not made out to 'localhost'");
    check_fails("127.0.0.1", tls_port, "?cacert=%F/ca.pem", 2, "not made out to '127.0.0.1'");
    check_works("127.0.0.1", tls_port, "?cacert=%F/ca.pem&sni=elsewhere.invalid");
    show("server", "yes");
    check_fails("localhost", tls_port, "?cacert=%F/ca.pem", 2, "TLS: ");
    check_fails("localhost", tls_port, "?cacert=%F/ca.pem&cert=%F/other.pem&key=%F/other.key", 2,
                "TLS: ");
    check_works("localhost", tls_port, "?cacert=%F/ca.pem&cert=%F/server.pem&key=%F/leaf.key");
    check_works("localhost", tls_port, "?cert=%F/both.pem&cacert=%F/ca.pem");
    show("server", "no");
}

static void check_refused(const char *options, pc_status expected, const char *words)
{
    char address[1024];
    pc__tier *tier;
    long blocks = (long)memory.live_blocks;
    snprintf(address, sizeof address, "rediss://u:secret@localhost?");
    for (const char *c = options; *c; c++)
        if (*c == '%')
            snprintf(address + strlen(address), sizeof address - strlen(address), "%s/", folder);
        else
            snprintf(address + strlen(address), sizeof address - strlen(address), "%c", *c);
    CHECK_STATUS(pc__tier_remote_new(&tier, &common, address), expected);
    CHECK(!tier);
    CHECK_ERROR_HAS(words);
    CHECK(!strstr(pc_error_text(), "secret"));
    CHECK_INT(memory.live_blocks, blocks);
}

static void test_files(void)
{
    check_refused("cacert=%nothing.pem", PC_ERR_IO, "nothing.pem: No such file");
    check_refused("cacert=%nonsense.pem", PC_ERR_INVALID, "nonsense.pem");
    check_refused("cert=%nothing.pem", PC_ERR_IO, "cert: ");
    check_refused("cert=%nonsense.pem", PC_ERR_INVALID, "nonsense.pem");
    check_refused("cert=%server.pem", PC_ERR_INVALID, "key: ");
    check_refused("cert=%server.pem&key=%nothing.key", PC_ERR_IO, "nothing.key: No such file");
    check_refused("cert=%server.pem&key=%other.key", PC_ERR_INVALID, "mismatch");
    check_refused("cert=%server.pem&key=%locked.key", PC_ERR_INVALID, "locked with a password");
}

/* One side with TLS, the other without. */
static void test_plain(void)
{
    char address[100];
    pc__tier *tier;
    int timed_out;
    double started = pc__now();
    check_fails("127.0.0.1", server.port, "?cacert=%F/ca.pem", PATIENCE, "TLS: ");
    snprintf(address, sizeof address, "redis://127.0.0.1:%d", tls_port);
    CHECK_OK(pc__tier_remote_new(&tier, &common, address));
    CHECK_STATUS(load(tier, &big, 2, &timed_out), PC_ERR_IO);
    CHECK_ERROR_HAS("rediss://");
    CHECK(pc__now() - started < 2);
    tier->ops->free(tier);
}

/* ---------------------------------------------------------------- between the two */

typedef struct relay {
    int listener, port;
    atomic_int stop, stalls;
    atomic_long cut, flip; /* of the answers: this many pass, then the connection ends or stalls;
                              one bit of this byte is flipped. -1: none */
    pthread_t thread;
} relay;

static void pass(relay *r, int client, int up)
{
    long down = 0;
    char data[16384];
    while (!atomic_load(&r->stop)) {
        struct pollfd p[2] = {{client, POLLIN, 0}, {up, POLLIN, 0}};
        long cut = atomic_load(&r->cut), flip = atomic_load(&r->flip);
        int stalled = cut >= 0 && down >= cut, from;
        ssize_t n;
        if (stalled && !atomic_load(&r->stalls))
            return;
        if (poll(p, stalled ? 1 : 2, 20) <= 0)
            continue;
        from = p[0].revents ? 0 : 1;
        n = recv(p[from].fd, data, sizeof data, 0);
        if (n <= 0)
            return;
        if (from && cut >= 0 && n > cut - down)
            n = cut - down;
        if (from && flip >= down && flip < down + n)
            data[flip - down] ^= 4;
        down += from ? n : 0;
        if (send(p[!from].fd, data, (size_t)n, MSG_NOSIGNAL) != n)
            return;
    }
}

static void *serve(void *arg)
{
    relay *r = arg;
    while (!atomic_load(&r->stop)) {
        struct sockaddr_in a = pc_redis_address(tls_port);
        struct pollfd p = {r->listener, POLLIN, 0};
        int client, up;
        if (poll(&p, 1, 20) <= 0)
            continue;
        client = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
        up = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (!connect(up, (struct sockaddr *)&a, sizeof a))
            pass(r, client, up);
        close(client);
        close(up);
    }
    return NULL;
}

/* Closed connections, stalls and flipped bits at every stage of the handshake, and after it. */
static void test_handshake(void)
{
    struct sockaddr_in a = pc_redis_address(0);
    socklen_t size = sizeof a;
    relay r = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int timed_out, whole = 0;
    CHECK(!bind(r.listener, (struct sockaddr *)&a, sizeof a) && !listen(r.listener, 16)
          && !getsockname(r.listener, (struct sockaddr *)&a, &size));
    r.port = ntohs(a.sin_port);
    check_fails("127.0.0.1", r.port, "?cacert=%F/ca.pem", PATIENCE,
                "no end of the handshake"); /* nobody has accepted the connection */
    atomic_store(&r.flip, -1);
    atomic_store(&r.cut, 0);
    pthread_create(&r.thread, NULL, serve, &r);
    for (long at = 0; at < 3000; at += 211) {
        pc__tier *tier = tier_at("127.0.0.1", r.port, "?cacert=%F/ca.pem");
        pc_status status;
        atomic_store(at % 2 ? &r.flip : &r.cut, at);
        atomic_store(at % 2 ? &r.cut : &r.flip, -1);
        status = load(tier, &small, at % 2 ? 0.5 : 2,
                      &timed_out); /* checks the bytes if it is PC_OK */
        CHECK(status == PC_OK || status == PC_ERR_IO);
        CHECK(status == PC_OK || strstr(pc_error_text(), "TLS: "));
        CHECK(!timed_out || at % 2); /* a length may have been made larger */
        CHECK(at > 300 || status != PC_OK);
        whole += status == PC_OK;
        check_balance(tier);
        tier->ops->free(tier);
    }
    CHECK(whole < 12);
    atomic_store(&r.stalls, 1);
    atomic_store(&r.flip, -1);
    for (long at = 1; at < 600; at += 400) {
        atomic_store(&r.cut, at);
        check_fails("127.0.0.1", r.port, "?cacert=%F/ca.pem", PATIENCE,
                    "no end of the handshake before the deadline");
    }
    atomic_store(&r.stop, 1);
    pthread_join(r.thread, NULL);
    close(r.listener);
}

static void *kill_soon(void *arg)
{
    usleep(50000);
    pc_redis_kill(arg);
    return NULL;
}

/* Killed while a client waits for the server's side of the handshake; restarted after that. */
static void test_killed(void)
{
    pc__tier *tier = tier_at("127.0.0.1", tls_port, "?cacert=%F/ca.pem");
    double started = pc__now();
    pthread_t thread;
    int timed_out;
    uint32_t reason;
    pc_status status = PC_ERR_IO;
    pc_redis_freeze(&server);
    pthread_create(&thread, NULL, kill_soon, &server);
    CHECK_STATUS(load(tier, &big, 5, &timed_out), PC_ERR_IO);
    CHECK_ERROR_HAS("TLS: handshake");
    CHECK(!timed_out && pc__now() - started < 2);
    pthread_join(thread, NULL);
    pc_redis_again(&server);
    turn_on();
    for (int i = 0; i < 200 && status != PC_OK; i++) {
        usleep(10000);
        status = sample_put(tier, &big, 5, &reason);
    }
    CHECK_STATUS(status, PC_OK);
    CHECK_STATUS(load(tier, &big, 5, &timed_out), PC_OK);
    CHECK_OK(sample_put(tier, &small, 5, &reason));
    check_balance(tier);
    tier->ops->free(tier);
}

/* ---------------------------------------------------------------- connections */

static int connections(void)
{
    const char *at = strstr(pc_redis_ask(&server, "INFO stats"), "total_connections_received:");
    return at ? atoi(strchr(at, ':') + 1) : -1;
}

/* Messages of TLS itself (tickets) do not make a connection look used up; a login and a database
 * are sent over it too. */
static void test_kept(void)
{
    pc__tier *tier = tier_at("default:any@127.0.0.1", tls_port, "/3?cacert=%F/ca.pem");
    uint32_t reason;
    int timed_out, before;
    CHECK_OK(sample_put(tier, &small, 5, &reason));
    before = connections();
    for (int i = 0; i < 5; i++)
        CHECK_STATUS(load(tier, &small, 5, &timed_out), PC_OK);
    CHECK_INT(connections(), before + 1); /* this question itself */
    CHECK_STR(pc_redis_ask(&server, "CLIENT KILL TYPE normal SKIPME yes"),
              "1"); /* it is closed while it is idle */
    usleep(20000);
    CHECK_STATUS(load(tier, &small, 5, &timed_out), PC_OK);
    tier->ops->remove(tier, &small.image.key);
    check_balance(tier);
    tier->ops->free(tier);
}

static atomic_int loaded;

/* As sample_load, which counts its checks for one thread only. */
static int load_quietly(pc__tier *tier, const sample *s)
{
    pc__source *source = NULL;
    pc__record *record = NULL;
    uint8_t *data = malloc((size_t)s->sizes[0] + 1);
    int timed_out, whole = 0;
    pc_status status = tier->ops->open(tier, &s->image.key, pc__now() + 10, &source, &timed_out);
    if (status == PC_OK)
        status = pc__record_open(&record, &mem, &common.record, source);
    for (size_t b = 0; b < s->image.block_count && status == PC_OK; b++) {
        status = pc__record_block(record, b, data);
        whole += status == PC_OK && !memcmp(data, s->blocks[b], (size_t)s->sizes[b]);
    }
    tier->ops->read_done(tier, &s->image.key, status, 0, 0);
    pc__record_free(record);
    if (source)
        source->close(source);
    free(data);
    return whole == (int)s->image.block_count;
}

static void *work(void *arg)
{
    for (int i = 0; i < 5; i++)
        atomic_fetch_add(&loaded, load_quietly(arg, i % 2 ? &big : &small));
    return NULL;
}

static void test_threads(void)
{
    pc__tier *tier = tier_at("localhost", tls_port, "?cacert=%F/ca.pem");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, tier);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(atomic_load(&loaded), 20);
    check_balance(tier);
    tier->ops->free(tier);
}

/* A child opens connections of its own. */
static void test_fork(void)
{
    pid_t child = fork();
    int status = 1, timed_out;
    if (!child) {
        pc__tier *tier = tier_at("localhost", tls_port, "?cacert=%F/ca.pem");
        status = load(tier, &small, 5, &timed_out) != PC_OK;
        tier->ops->free(tier);
        _exit(status);
    }
    waitpid(child, &status, 0);
    CHECK_INT(status, 0);
}

/* A node's map of slots that leads to another port: the node with the entries, which must be asked
 * over TLS too. */
static void test_cluster(void)
{
    pc_redis node = server;
    int port = pc_redis_free_port();
    char seeds[64];
    server = pc_redis_start("--cluster-enabled yes");
    CHECK_STR(pc_redis_ask(&server, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    CHECK_STR(pc_redis_ask(&server,
                           "CONFIG SET cluster-announce-port %d cluster-announce-tls-port %d "
                           "cluster-announce-ip 127.0.0.1",
                           tls_port, tls_port),
              "OK");
    show("server", "no");
    CHECK_STR(pc_redis_ask(&server, "CONFIG SET tls-port %d", port), "OK");
    snprintf(seeds, sizeof seeds, "localhost:%d,127.0.0.1", port);
    check_works(seeds, 1, "?cacert=%F/ca.pem");
    CHECK(atoi(pc_redis_ask(&server, "DBSIZE")) == 0);
    pc_redis_kill(&server);
    server = node;
}

static void test_memory(void)
{
    char address[600];
    long blocks = (long)memory.live_blocks;
    int failures = 0;
    snprintf(address, sizeof address,
             "rediss://127.0.0.1:%d?cacert=%s/ca.pem&cert=%s/both.pem&sni=localhost", tls_port,
             folder, folder);
    for (uint64_t at = 1; at < 200; at++) {
        pc__tier *tier = NULL;
        int timed_out;
        pc_status status;
        memory.calls = 0;
        memory.fail_at = at;
        status = pc__tier_remote_new(&tier, &common, address);
        if (status == PC_OK) {
            status = load(tier, &small, 5, &timed_out);
            memory.fail_at = 0;
            tier->ops->free(tier);
        }
        memory.fail_at = 0;
        CHECK_INT(memory.live_blocks, blocks);
        if (status == PC_OK)
            break;
        CHECK_STATUS(status, PC_ERR_NOMEM);
        failures++;
    }
    CHECK(failures > 15 && failures < 199);
}

int main(void)
{
    pc__codecs *codecs;
    pc__tier *tier;
    char address[100];
    uint32_t reason;
    mem = pc_test_allocator(&memory);
    common.mem = &mem;
#if !defined(PC_HAVE_OPENSSL)
    CHECK_STATUS(pc__tier_remote_new(&tier, &common, "rediss://:secret@localhost"),
                 PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("built without");
    CHECK_INT(memory.live_blocks, 0);
    if (pc_test_end())
        return 1;
    pc_test_skip("built without hiredis or OpenSSL");
#endif
    if (getenv("PC_TEST_NO_MODULES")) {
        CHECK_STATUS(pc__tier_remote_new(&tier, &common, "rediss://:secret@localhost"),
                     PC_ERR_UNSUPPORTED);
        CHECK_ERROR_HAS("remote: the plug-in module libpromptcache_remote.so was not found in ");
        CHECK(!tier && !memory.live_blocks);
        CHECK_STATUS(pc__tier_remote_new(&tier, &common, "http://localhost"), PC_ERR_INVALID);
        return pc_test_end();
    }
    make_certificates();
    server = pc_redis_start("");
    tls_port = pc_redis_free_port();
    turn_on();
    CHECK_OK(pc__codecs_new(&codecs, &mem, NULL, 0));
    common.record.codecs = codecs;
    common.record.codec = PC_CODEC_RAW;
    common.callbacks.event = note_event;
    small = sample_make(1, 2, 500);
    big = sample_make(2, 6, 400000);
    snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
    CHECK_OK(pc__tier_remote_new(&tier, &common, address));
    CHECK_OK(sample_put(tier, &small, 5, &reason));
    CHECK_OK(sample_put(tier, &big, 5, &reason));
    tier->ops->free(tier);
    test_certificates();
    test_files();
    test_plain();
    test_handshake();
    test_killed();
    test_kept();
    test_threads();
    test_fork();
    test_cluster();
    test_memory();
    sample_free(&small);
    sample_free(&big);
    pc__codecs_free(codecs);
    CHECK_INT(memory.live_blocks, 0);
    return pc_test_end();
}
