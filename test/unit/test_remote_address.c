/* Catches: addresses of servers that are read wrongly or refused without saying why, passwords that show up in error texts or stay in memory. */
#include "store/remote/remote_address.h"

#include <string.h>

#include "testing.h"

static pc_test_memory memory;

static pc_status parse(pc__remote_address *out, const char *text)
{
    pc_allocator mem = pc_test_allocator(&memory);
    return pc__remote_address_parse(out, &mem, text);
}

static void check_one(const char *text, const char *host, int port, const char *user, const char *password, int database)
{
    pc__remote_address a;
    if (!CHECK_OK(parse(&a, text)))
        return;
    CHECK_INT(a.count, 1);
    CHECK_STR(a.seeds[0].host, host);
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
    CHECK_STR(a.seeds[1].host, "b");
    CHECK_INT(a.seeds[1].port, 6379);
    CHECK_STR(a.seeds[2].host, "::2");
    CHECK_INT(a.seeds[2].port, 3);
    pc__remote_address_free(&a);
    pc__remote_address_free(&a); /* does nothing */
    CHECK_STATUS(parse(&a, "rediss://h"), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("TLS");
}

static void test_refused(void)
{
    check_refused("", "redis://");
    check_refused("http://h", "redis://");
    check_refused("redis://", "host is missing");
    check_refused("redis://:secret@", "host is missing");
    check_refused("redis://u:secret@a,,b", "host is missing");
    check_refused("redis://secret@h", "without a password");
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
        status = parse(&a, "redis://user:secret@a:1,b:2,c:3");
        memory.fail_at = 0;
        if (status == PC_OK) {
            pc__remote_address_free(&a);
            CHECK(at > 5);
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

int main(void)
{
    test_accepted();
    test_refused();
    test_memory();
    test_wipe();
    return pc_test_end();
}
