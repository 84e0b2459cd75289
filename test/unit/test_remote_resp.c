/* Catches: replies that are parsed wrongly or beyond their end, invalid bytes that crash the reader
 * or make it allocate without limit, failed allocations that leak, wrong hash slots of keys,
 * redirections that are parsed wrongly. */
#include "store/remote/remote_resp.h"

#include <stdlib.h>
#include <string.h>

#include "testing.h"

#if !defined(PC_HAVE_HIREDIS)
int main(void)
{
    pc_test_skip("built without hiredis");
    return 0;
}
#else

static pc_test_memory memory;
static pc_allocator mem;

/* Feeds bytes as a connection does: up to each line feed, at most `most` at once. *used: bytes of
 * the reply. */
static pc_status feed(struct redisReader *reader, pc__remote_reply *reply, const char *data,
                      size_t size, size_t most, size_t *used)
{
    pc_status status = PC_AGAIN;
    pc__remote_reply_clear(reply);
    for (*used = 0; status == PC_AGAIN && *used < size;) {
        const char *from = data + *used, *line;
        size_t n = size - *used < most ? size - *used : most;
        if ((line = memchr(from, '\n', n)))
            n = (size_t)(line + 1 - from);
        *used += n;
        status = pc__remote_reply_feed(reader, reply, from, n);
    }
    return status;
}

static void test_items(void)
{
    static const char text[] =
        "*5\r\n:-7\r\n$5\r\na\r\nbc\r\n*2\r\n+OK\r\n$-1\r\n-ERR no\r\n*-1\r\n+next\r\n";
    static const uint32_t kinds[] = {PC__REMOTE_ARRAY, PC__REMOTE_INTEGER, PC__REMOTE_TEXT,
                                     PC__REMOTE_ARRAY, PC__REMOTE_TEXT,    PC__REMOTE_NIL,
                                     PC__REMOTE_ERROR, PC__REMOTE_NIL};
    for (size_t most = 1; most < 40; most++) {
        struct redisReader *reader = pc__remote_reader_new();
        pc__remote_reply reply = pc__remote_reply_make(&mem);
        size_t used, next;
        CHECK_OK(feed(reader, &reply, text, sizeof text - 1, most, &used));
        CHECK_INT(used, sizeof text - 1 - 7);
        if (CHECK_INT(reply.count, 8)) {
            for (size_t i = 0; i < 8; i++)
                CHECK_INT(reply.items[i].kind, kinds[i]);
            CHECK_INT(reply.items[0].elements, 5);
            CHECK_INT(reply.items[1].integer, -7);
            CHECK_INT(reply.items[2].size, 5);
            CHECK(!memcmp(pc__remote_reply_text(&reply, &reply.items[2]), "a\r\nbc", 6));
            CHECK_STR(pc__remote_reply_text(&reply, &reply.items[6]), "ERR no");
        }
        CHECK_OK(feed(reader, &reply, text + used, sizeof text - 1 - used, most, &next));
        CHECK_INT(reply.count, 1);
        CHECK_STR(pc__remote_reply_text(&reply, &reply.items[0]), "next");
        pc__remote_reply_free(&reply);
        pc__remote_reader_free(reader);
    }
    CHECK_INT(memory.live_blocks, 0);
}

/* Bytes of answers, shuffled and changed: any status is right, but reading ends and allocates
 * little. */
static void test_nonsense(void)
{
    static const char *const parts[] = {"*3\r\n",
                                        "*0\r\n",
                                        "*-1\r\n",
                                        "*2147483647\r\n",
                                        "*99999999999\r\n",
                                        "$3\r\nabc\r\n",
                                        "$-1\r\n",
                                        "$-9\r\n",
                                        "$99999999999\r\n",
                                        "$0\r\n\r\n",
                                        ":12\r\n",
                                        ":x\r\n",
                                        ":\r\n",
                                        "+OK\r\n",
                                        "-ERR\r\n",
                                        "\r\n",
                                        "\n",
                                        "%2\r\n",
                                        "_\r\n",
                                        ",1.5\r\n",
                                        "#t\r\n",
                                        "=5\r\ntxt:a\r\n",
                                        "(123\r\n",
                                        "~1\r\n",
                                        "|1\r\n"};
    pc_test_rng rng = {7};
    int64_t most_bytes = 0;
    int whole = 0, wrong = 0;
    for (int i = 0; i < 60000; i++) {
        char text[256];
        size_t size = 0, used;
        struct redisReader *reader = pc__remote_reader_new();
        pc__remote_reply reply = pc__remote_reply_make(&mem);
        pc_status status;
        for (uint64_t n = 1 + pc_test_bits(&rng) % 9; n > 0; n--) {
            const char *part = parts[pc_test_bits(&rng) % (sizeof parts / sizeof *parts)];
            memcpy(text + size, part, strlen(part));
            size += strlen(part);
        }
        for (uint64_t n = pc_test_bits(&rng) % 3; n > 0; n--)
            text[pc_test_bits(&rng) % size] = (char)pc_test_bits(&rng);
        status = feed(reader, &reply, text, size, 1 + pc_test_bits(&rng) % 64, &used);
        whole += status == PC_OK;
        wrong += status == PC_ERR_FORMAT;
        if (status != PC_OK && status != PC_AGAIN && status != PC_ERR_FORMAT)
            CHECK_STATUS(status, PC_ERR_FORMAT);
        if (status == PC_OK && !reply.count)
            CHECK(reply.count);
        most_bytes = memory.live_bytes > most_bytes ? memory.live_bytes : most_bytes;
        pc__remote_reply_free(&reply);
        pc__remote_reader_free(reader);
    }
    CHECK(whole > 1000 && wrong > 1000);
    CHECK(most_bytes < 65536);
    CHECK_INT(memory.live_blocks, 0);
}

static void test_limit(void)
{
    static char line[65536];
    struct redisReader *reader = pc__remote_reader_new();
    pc__remote_reply reply = pc__remote_reply_make(&mem);
    pc_status status = PC_AGAIN;
    int i;
    memset(line, 'a', sizeof line);
    line[0] = '+';
    for (i = 0; i < 100 && status == PC_AGAIN; i++)
        status = pc__remote_reply_feed(reader, &reply, line, sizeof line);
    CHECK_STATUS(status, PC_ERR_FORMAT);
    CHECK_INT(i, PC__REMOTE_REPLY_MAX / sizeof line + 1);
    pc__remote_reply_free(&reply);
    pc__remote_reader_free(reader);
}

static void test_memory(void)
{
    static const char text[] = "*3\r\n$5\r\nabcde\r\n:1\r\n-ERR\r\n";
    for (uint64_t at = 1; at < 20; at++) {
        struct redisReader *reader = pc__remote_reader_new();
        pc__remote_reply reply = pc__remote_reply_make(&mem);
        size_t used;
        pc_status status;
        memory.calls = 0;
        memory.fail_at = at;
        status = feed(reader, &reply, text, sizeof text - 1, 100, &used);
        memory.fail_at = 0;
        CHECK(status == (memory.calls >= at ? PC_ERR_NOMEM : PC_OK));
        pc__remote_reply_free(&reply);
        pc__remote_reader_free(reader);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK(memory.calls > 1 && memory.calls < 19);
}

static uint32_t slot(const char *key)
{
    return pc__remote_slot_of_name(key, strlen(key));
}

static void test_slots(void)
{
    char server[256], text[600];
    uint32_t at;
    uint16_t port;
    CHECK_INT(slot("123456789"), 0x31c3); /* the check value of CRC16/XMODEM, less than 16384 */
    CHECK_INT(slot("foo"), 12182);        /* CLUSTER KEYSLOT foo */
    CHECK_INT(slot("pc1:{foo}:1"), 12182);
    CHECK_INT(slot("{}foo"), slot("{}foo"));
    CHECK(slot("{}foo") != slot("foo"));
    CHECK_INT(slot("a{foo}{bar}"), 12182);
    CHECK(slot("{foo") != 12182);
    CHECK(pc__remote_slot_parse("3999 127.0.0.1:6381", &at, server, &port));
    CHECK_INT(at, 3999);
    CHECK_STR(server, "127.0.0.1");
    CHECK_INT(port, 6381);
    CHECK(pc__remote_slot_parse("0 :6381", &at, server, &port));
    CHECK_STR(server, "");
    CHECK(pc__remote_slot_parse("16383 ::1:1", &at, server, &port));
    CHECK_STR(server, "::1");
    CHECK(!pc__remote_slot_parse("", &at, server, &port));
    CHECK(!pc__remote_slot_parse("1", &at, server, &port));
    CHECK(!pc__remote_slot_parse("16384 h:1", &at, server, &port));
    CHECK(!pc__remote_slot_parse("-1 h:1", &at, server, &port));
    CHECK(!pc__remote_slot_parse("1 h:0", &at, server, &port));
    CHECK(!pc__remote_slot_parse("1 h:65536", &at, server, &port));
    CHECK(!pc__remote_slot_parse("1 h:1x", &at, server, &port));
    CHECK(!pc__remote_slot_parse("1 h:", &at, server, &port));
    CHECK(!pc__remote_slot_parse(":1 2", &at, server, &port));
    memset(text, 'h', sizeof text);
    memcpy(text, "1 ", 2);
    memcpy(text + sizeof text - 3, ":1", 3);
    CHECK(!pc__remote_slot_parse(text, &at, server, &port));
    memcpy(text + 2 + 255, ":1", 3);
    CHECK(pc__remote_slot_parse(text, &at, server, &port));
    CHECK_INT(strlen(server), 255);
}

int main(void)
{
    mem = pc_test_allocator(&memory);
    test_items();
    test_nonsense();
    test_limit();
    test_memory();
    test_slots();
    return pc_test_end();
}
#endif
