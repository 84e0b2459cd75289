/* Catches: addresses that are parsed wrongly or refused without a cause, passwords in error texts
 * or left in memory; a server that is not reached because it does not listen on the first address
 * of its name; an address that works and is not tried first the next time; a name that is not
 * resolved again although all its addresses fail. */
#include "store/remote/remote_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "testing.h"

static pc_test_memory memory;

static pc_status parse(pc__remote_address *out, const char *text)
{
    pc_allocator mem = pc_test_allocator(&memory);
    return pc__remote_address_parse(out, &mem, text);
}

static void check_one(const char *text, const char *server, int port, const char *user,
                      const char *password, int database)
{
    pc__remote_address a;
    if (!CHECK_OK(parse(&a, text)))
        return;
    CHECK_INT(a.count, 1);
    CHECK_STR(a.seeds[0].server, server);
    CHECK_INT(a.seeds[0].port, port);
    CHECK_INT(a.database, database);
    CHECK(!user == !a.user && (!user || !strcmp(a.user, user)));
    CHECK(!password == !a.password && (!password || !strcmp(a.password, password)));
    pc__remote_address_free(&a);
    CHECK_INT(memory.live_blocks, 0);
}

static void check_refused(const char *text, const char *why)
{
    pc__remote_address a;
    CHECK_STATUS(parse(&a, text), PC_ERR_INVALID);
    CHECK_ERROR_HAS(why);
    CHECK(!strstr(pc_error_text(), "secret"));
    CHECK_INT(memory.live_blocks, 0);
}

static void test_accepted(void)
{
    pc__remote_address a;
    check_one("redis://localhost", "localhost", 6379, NULL, NULL, 0);
    check_one("redis://10.0.0.1:7000/3", "10.0.0.1", 7000, NULL, NULL, 3);
    check_one("redis://h/", "h", 6379, NULL, NULL, 0);
    check_one("redis://:secret@h", "h", 6379, NULL, "secret", 0);
    check_one("redis://me:s%40c%3aret%2F@h:1", "h", 1, "me", "s@c:ret/", 0);
    check_one("redis://me:a:b@h", "h", 6379, "me", "a:b", 0);
    check_one("redis://[::1]", "::1", 6379, NULL, NULL, 0);
    check_one("redis://u:p@[fe80::1]:65535/15", "fe80::1", 65535, "u", "p", 15);
    check_one("redis+unix:///run/redis.sock", "/run/redis.sock", 0, NULL, NULL, 0);
    check_one("redis+unix://:pw@/run/re%20dis", "/run/re dis", 0, NULL, "pw", 0);
    CHECK_OK(parse(&a, "redis://u:p@a:1,b,[::2]:3"));
    CHECK_INT(a.count, 3);
    CHECK_STR(a.seeds[1].server, "b");
    CHECK_INT(a.seeds[1].port, 6379);
    CHECK_STR(a.seeds[2].server, "::2");
    CHECK_INT(a.seeds[2].port, 3);
    pc__remote_address_free(&a);
    pc__remote_address_free(&a); /* does nothing */
    check_one("redis://:a?b@h", "h", 6379, NULL, "a?b", 0);
    check_one("redis+unix:///run/a%3Fb", "/run/a?b", 0, NULL, NULL, 0);
    check_one("redis+unix://:p?w@/run/a?owner=0", "/run/a", 0, NULL, "p?w", 0);
    check_one("redis://:p?w@h?cluster=1", "h", 6379, NULL, "p?w", 0);
}

static void check_tls(const char *text, const char *authorities, const char *certificate,
                      const char *key, const char *name, int insecure)
{
    pc__remote_address a;
    const char *expected[4] = {authorities, certificate, key, name};
    if (!CHECK_OK(parse(&a, text)))
        return;
    CHECK_INT(a.tls.wanted, 1);
    CHECK_INT(a.tls.insecure, insecure);
    for (int i = 0; i < 4; i++) {
        const char *got = (const char *[]){a.tls.authorities, a.tls.certificate, a.tls.key,
                                           a.tls.name}[i];
        CHECK(!got == !expected[i] && (!got || !strcmp(got, expected[i])));
    }
    pc__remote_address_free(&a);
    CHECK_INT(memory.live_blocks, 0);
}

static void test_tls(void)
{
    pc__remote_address a;
    check_one("rediss://me:s%3fc%40%26ret@h:1/3", "h", 1, "me", "s?c@&ret", 3);
    check_one("rediss://:p%26w@[::1]:7/?insecure=1", "::1", 7, NULL, "p&w", 0);
    check_tls("rediss://h", NULL, NULL, NULL, NULL, 0);
    check_tls("rediss://h?insecure=1", NULL, NULL, NULL, NULL, 1);
    check_tls("rediss://a:1,b/?sni=c.example&cacert=/etc/my%20ca%26%3f%40.pem", "/etc/my ca&?@.pem",
              NULL, NULL, "c.example", 0);
    check_tls("rediss://u:p@h/2?key=k&cert=c=d", NULL, "c=d", "k", NULL, 0);
    CHECK_OK(parse(&a, "rediss://u:p@a:1,b/0?cacert=/x/y:z,w"));
    CHECK_INT(a.count, 2);
    CHECK_STR(a.seeds[1].server, "b");
    CHECK_STR(a.tls.authorities, "/x/y:z,w");
    pc__remote_address_free(&a);
    CHECK_OK(parse(&a, "redis://h"));
    CHECK_INT(a.tls.wanted, 0);
    pc__remote_address_free(&a);
    check_refused("rediss://", "the name of a server is missing");
    check_refused("rediss://?insecure=1", "the name of a server is missing");
    check_refused("redis://h?insecure=1", "redis:// has cluster=1");
    check_refused("redis://u:secret@h/1?cacert=x", "at byte 21: unknown option");
    check_refused("redis://h?cluster=0", "can only be 1");
    check_refused("redis://h/1?cluster=1", "database 0");
    check_refused("redis://h?owner=0", "unknown option");
    check_refused("redis+unix:///s?cluster=1", "a socket has owner=");
    check_refused("redis+unix:///s?owner=no-such-user-here", "no user");
    check_refused("redis+unix:///s?owner=99999999999", "no user");
    check_refused("rediss://h?", "unknown option");
    check_refused("rediss://h?insecure=1&", "unknown option");
    check_refused("rediss://h?secret=1", "unknown option; known: cacert=");
    check_refused("rediss://h?insecure", "unknown option");
    check_refused("rediss://h?insecure=0", "can only be 1");
    check_refused("rediss://h?insecure=1&insecure=1", "twice");
    check_refused("rediss://h?insecure=1&cacert=secret", "exclude each other");
    check_refused("rediss://h?cert=secret&cert=b", "twice");
    check_refused("rediss://h?key=secret", "key= needs cert=");
    check_refused("rediss://h?sni=", "no value");
    check_refused("rediss://h?cacert=secret%4", "hexadecimal");
    check_refused("rediss://h?cacert=secret%00", "hexadecimal");
    check_refused("rediss://u:se?secret@h", "%3F");
    check_refused("rediss://h?cacert=secret@b", "%40");
    check_refused("rediss://u:secret@h/x?insecure=1", "database");
}

static void test_refused(void)
{
    check_refused("", "redis://");
    check_refused("http://h", "redis://");
    check_refused("redis://", "the name of a server is missing");
    check_refused("redis://:secret@", "the name of a server is missing");
    check_refused("redis://u:secret@a,,b", "the name of a server is missing");
    check_refused("redis://secret@h", "a user needs a password");
    check_refused("redis://u:@h", "password is empty");
    check_refused("redis://u:secret%4@h", "hexadecimal");
    check_refused("redis://u:secret%00@h", "hexadecimal");
    check_refused("redis://u:secret@h:0", "port");
    check_refused("redis://u:secret@h:65536", "port");
    check_refused("redis://u:secret@h:99999999999999999999", "port");
    check_refused("redis://h:", "port");
    check_refused("redis://h:1x", "port");
    check_refused("redis://[::1", "]");
    check_refused("redis://[::1]x", "port");
    check_refused("redis://::1", "brackets");
    check_refused("redis://u:secret@h/x", "database");
    check_refused("redis://h/1/2", "database");
    check_refused("redis://h/-1", "database");
    check_refused("redis://a,b/1", "cluster");
    check_refused("redis+unix://run/redis", "begin with /");
}

static void test_memory(void)
{
    pc__remote_address a;
    for (uint64_t at = 1; at < 50; at++) {
        pc_status status;
        memory.calls = 0;
        memory.fail_at = at;
        status = parse(&a, "rediss://user:secret@a:1,b:2,c:3?cacert=a&cert=b&key=c&sni=d");
        memory.fail_at = 0;
        if (status == PC_OK) {
            pc__remote_address_free(&a);
            CHECK(at > 9);
            break;
        }
        CHECK_STATUS(status, PC_ERR_NOMEM);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK_INT(memory.live_blocks, 0);
}

/* What the allocator gets back must not hold the password any more. */
static pc_test_memory watched;
static int leaked;
static void look_and_free(void *user, void *ptr, size_t size, size_t align)
{
    pc_allocator mem = pc_test_allocator(&watched);
    (void)user;
    for (size_t i = 0; i + 6 <= size; i++)
        leaked |= !memcmp((char *)ptr + i, "secret", 6);
    mem.free(mem.user, ptr, size, align);
}

static void test_wipe(void)
{
    pc_allocator mem = pc_test_allocator(&watched);
    pc__remote_address a;
    mem.free = look_and_free;
    CHECK_OK(pc__remote_address_parse(&a, &mem, "redis://secret-user:secret@h"));
    pc__remote_address_free(&a);
    CHECK_STATUS(pc__remote_address_parse(&a, &mem, "redis://u:secret@h/x"), PC_ERR_INVALID);
    CHECK_INT(leaked, 0);
    CHECK_INT(watched.live_blocks, 0);
}

static int look_ups;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out);
void __wrap_freeaddrinfo(struct addrinfo *list);

/* A name with two addresses: 127.0.0.1 and 127.0.0.2. */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out)
{
    static struct sockaddr_in address[2];
    static struct addrinfo list[2];
    (void)host, (void)port;
    *out = NULL;
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    look_ups++;
    for (uint32_t i = 0; i < 2; i++) {
        address[i] = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_addr = {htonl(0x7f000001 + i)}};
        list[i] = (struct addrinfo){.ai_family = AF_INET,
                                    .ai_addr = (struct sockaddr *)&address[i],
                                    .ai_addrlen = sizeof *address,
                                    .ai_next = i ? NULL : &list[1]};
    }
    *out = list;
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

static pc__remote_socket_address next_address(pc__remote_resolver *resolver, uint32_t want)
{
    pc__remote_deadline limit = {pc__now() + 10, 0};
    pc__remote_socket_address found = {.size = 0};
    struct sockaddr_in address;
    CHECK_OK(pc__remote_resolver_get(resolver, &found, &limit));
    memcpy(&address, &found.storage, sizeof address);
    CHECK_INT(ntohl(address.sin_addr.s_addr), 0x7f000000 + want);
    return found;
}

static void test_resolver(void)
{
    pc__remote_resolver *resolver = NULL;
    CHECK_OK(pc__remote_resolver_new(&resolver, &pc__libc_allocator, "name", 6379));
    pc__remote_socket_address one = next_address(resolver, 1);
    CHECK_INT(pc__remote_resolver_failed(resolver, &one), 1);
    pc__remote_socket_address two = next_address(resolver, 2);
    CHECK_INT(pc__remote_resolver_failed(resolver, &one),
              1); /* of another thread: it changes nothing */
    next_address(resolver, 2);
    pc__remote_resolver_answered(resolver);
    next_address(resolver, 2);
    CHECK_INT(pc__remote_resolver_failed(resolver, &two), 1);
    one = next_address(resolver, 1);
    CHECK_INT(look_ups, 1);
    CHECK_INT(pc__remote_resolver_failed(resolver, &one), 0);
    next_address(resolver, 1);
    CHECK_INT(look_ups, 2);
    pc__remote_resolver_free(resolver);
}

int main(void)
{
    test_accepted();
    test_refused();
    test_tls();
    test_memory();
    test_wipe();
    test_resolver();
    return pc_test_end();
}
