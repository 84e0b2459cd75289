/* Catches: replies that are parsed wrongly or beyond their end, invalid bytes that crash the reader
 * or make it allocate without limit, failed allocations that leak. */
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
static pc_status feed(pc__remote_reply_reader *reader, pc__remote_reply *reply, const char *data,
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
        pc__remote_reply_reader *reader;
        pc__remote_reply reply = pc__remote_reply_make(&mem);
        size_t used, next;
        CHECK_OK(pc__remote_reply_reader_new(&reader, &mem));
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
        pc__remote_reply_reader_free(reader);
    }
    CHECK_INT(memory.live_blocks, 0);
}

/* Bytes of answers, shuffled and changed: any status will do, but it ends, and what it takes stays
 * small. */
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
        pc__remote_reply_reader *reader;
        pc__remote_reply reply = pc__remote_reply_make(&mem);
        pc_status status;
        for (uint64_t n = 1 + pc_test_bits(&rng) % 9; n > 0; n--) {
            const char *part = parts[pc_test_bits(&rng) % (sizeof parts / sizeof *parts)];
            memcpy(text + size, part, strlen(part));
            size += strlen(part);
        }
        for (uint64_t n = pc_test_bits(&rng) % 3; n > 0; n--)
            text[pc_test_bits(&rng) % size] = (char)pc_test_bits(&rng);
        if (pc__remote_reply_reader_new(&reader, &mem) < 0)
            continue;
        status = feed(reader, &reply, text, size, 1 + pc_test_bits(&rng) % 64, &used);
        whole += status == PC_OK;
        wrong += status == PC_ERR_FORMAT;
        if (status != PC_OK && status != PC_AGAIN && status != PC_ERR_FORMAT)
            CHECK_STATUS(status, PC_ERR_FORMAT);
        if (status == PC_OK && !reply.count)
            CHECK(reply.count);
        most_bytes = memory.live_bytes > most_bytes ? memory.live_bytes : most_bytes;
        pc__remote_reply_free(&reply);
        pc__remote_reply_reader_free(reader);
    }
    CHECK(whole > 1000 && wrong > 1000);
    CHECK(most_bytes < 65536);
    CHECK_INT(memory.live_blocks, 0);
}

static void test_limit(void)
{
    static char line[65536];
    pc__remote_reply_reader *reader;
    pc__remote_reply reply = pc__remote_reply_make(&mem);
    pc_status status = PC_AGAIN;
    int i;
    memset(line, 'a', sizeof line);
    line[0] = '+';
    CHECK_OK(pc__remote_reply_reader_new(&reader, &mem));
    for (i = 0; i < 100 && status == PC_AGAIN; i++)
        status = pc__remote_reply_feed(reader, &reply, line, sizeof line);
    CHECK_STATUS(status, PC_ERR_FORMAT);
    CHECK_INT(i, PC__REMOTE_REPLY_MAX / sizeof line + 1);
    pc__remote_reply_free(&reply);
    pc__remote_reply_reader_free(reader);
}

static void test_memory(void)
{
    static const char text[] = "*3\r\n$5\r\nabcde\r\n:1\r\n-ERR\r\n";
    for (uint64_t at = 1; at < 20; at++) {
        pc__remote_reply_reader *reader;
        pc__remote_reply reply = pc__remote_reply_make(&mem);
        size_t used;
        pc_status status;
        memory.calls = 0;
        memory.fail_at = at;
        status = pc__remote_reply_reader_new(&reader, &mem);
        if (status == PC_OK)
            status = feed(reader, &reply, text, sizeof text - 1, 100, &used);
        memory.fail_at = 0;
        CHECK(status == (memory.calls >= at ? PC_ERR_NOMEM : PC_OK));
        pc__remote_reply_free(&reply);
        pc__remote_reply_reader_free(reader);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK(memory.calls > 1 && memory.calls < 19);
}

int main(void)
{
    mem = pc_test_allocator(&memory);
    test_items();
    test_nonsense();
    test_limit();
    test_memory();
    return pc_test_end();
}
#endif
