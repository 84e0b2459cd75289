/* Requests as bytes, and replies by hiredis' reader. The reader makes objects through a table of
 * functions; ours put items into pc__remote_reply, with the caller's allocator, instead of
 * allocating what the length of an array announces. */
#include "store/remote/remote_resp.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* ------------------------------------------------------------ requests */

pc__remote_request pc__remote_request_make(const pc_allocator *mem)
{
    return (pc__remote_request){.text.mem = mem};
}

static void add_bytes(pc__remote_request *r, const void *data, size_t size)
{
    if (r->status == PC_OK)
        r->status = pc__bytes_add(&r->text, data, size);
}

static void add_length(pc__remote_request *r, char kind, size_t length)
{
    char line[32];
    add_bytes(r, line, (size_t)snprintf(line, sizeof line, "%c%zu\r\n", kind, length));
}

void pc__remote_request_command(pc__remote_request *request, const char *name, size_t arguments)
{
    if (request->status == PC_OK)
        request->status = pc__grow(request->text.mem, (void **)&request->starts, &request->capacity,
                                   request->count + 1, sizeof *request->starts);
    if (request->status == PC_OK)
        request->starts[request->count++] = request->text.size;
    add_length(request, '*', arguments + 1);
    pc__remote_request_text(request, name);
}

void pc__remote_request_bytes(pc__remote_request *request, const void *data, size_t size)
{
    add_length(request, '$', size);
    add_bytes(request, data, size);
    add_bytes(request, "\r\n", 2);
}

void pc__remote_request_text(pc__remote_request *request, const char *text)
{
    pc__remote_request_bytes(request, text, strlen(text));
}

void pc__remote_request_number(pc__remote_request *request, int64_t number)
{
    char text[24];
    pc__remote_request_bytes(request, text,
                             (size_t)snprintf(text, sizeof text, "%" PRId64, number));
}

void pc__remote_request_value(pc__remote_request *request, const void *data, size_t size)
{
    if (request->value && request->status == PC_OK)
        request->status = pc__fail(PC_ERR_INTERNAL, "remote: a request has two long arguments");
    add_length(request, '$', size);
    request->value = data;
    request->value_size = size;
    request->split = request->text.size;
    add_bytes(request, "\r\n", 2);
}

void pc__remote_request_free(pc__remote_request *request)
{
    pc__free(request->text.mem, request->starts);
    pc__bytes_free(&request->text);
}

/* ------------------------------------------------------------ replies */

/* A transaction of all blocks of a record has 65538 items. */
enum { MOST_DEPTH = 6, MOST_ITEMS = 1 << 17 };

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

pc__remote_reply pc__remote_reply_make(const pc_allocator *mem)
{
    return (pc__remote_reply){.text.mem = mem};
}

void pc__remote_reply_clear(pc__remote_reply *reply)
{
    reply->count = reply->text.size = reply->fed = 0;
    reply->status = PC_OK;
}

void pc__remote_reply_free(pc__remote_reply *reply)
{
    pc__free(reply->text.mem, reply->items);
    pc__bytes_free(&reply->text);
}

/* Arrays in arrays. Ours: entries of a transaction, of CLUSTER SLOTS with what belongs to a node.
 */
static int depth_of(const redisReadTask *task)
{
    int depth = 0;
    for (; task; task = task->parent)
        depth++;
    return depth;
}

/* NULL: the reader fails with REDIS_ERR_OOM. */
static void *add_item(const redisReadTask *task, pc__remote_reply_item item)
{
    pc__remote_reply *r = task->privdata;
    if (r->status == PC_OK && (depth_of(task) > MOST_DEPTH || r->count >= MOST_ITEMS))
        r->status = pc__fail(PC_ERR_FORMAT,
                             "a reply has more than %d items, or arrays in more than %d arrays",
                             MOST_ITEMS, MOST_DEPTH);
    if (r->status == PC_OK)
        r->status = pc__grow(r->text.mem, (void **)&r->items, &r->capacity, r->count + 1,
                             sizeof *r->items);
    if (r->status < 0)
        return NULL;
    r->items[r->count++] = item;
    return r;
}

static void *make_string(const redisReadTask *task, char *text, size_t size)
{
    pc__remote_reply *r = task->privdata;
    size_t at = r->text.size;
    if (r->status == PC_OK)
        r->status = pc__bytes_add(&r->text, text, size);
    if (r->status == PC_OK)
        r->status = pc__bytes_add(&r->text, "", 1);
    return add_item(task, (pc__remote_reply_item){.kind = task->type == REDIS_REPLY_ERROR
                                                              ? PC__REMOTE_ERROR
                                                              : PC__REMOTE_TEXT,
                                                  .text = at,
                                                  .size = size});
}

static void *make_array(const redisReadTask *task, element_count elements)
{
    return add_item(
        task, (pc__remote_reply_item){.kind = PC__REMOTE_ARRAY, .elements = (size_t)elements});
}

static void *make_integer(const redisReadTask *task, long long value)
{
    return add_item(task, (pc__remote_reply_item){.kind = PC__REMOTE_INTEGER, .integer = value});
}

static void *make_nil(const redisReadTask *task)
{
    return add_item(task, (pc__remote_reply_item){.kind = PC__REMOTE_NIL});
}

#if HIREDIS_MAJOR >= 1
/* RESP3 types, which we do not ask for. Without these two functions the reader skips such items. */
static void *refuse_resp3(const redisReadTask *task)
{
    pc__remote_reply *r = task->privdata;
    if (r->status == PC_OK)
        r->status = pc__fail(PC_ERR_FORMAT, "the server sends RESP3, which was not asked for");
    return NULL;
}

static void *refuse_double(const redisReadTask *task, double value, char *text, size_t size)
{
    (void)value, (void)text, (void)size;
    return refuse_resp3(task);
}

static void *refuse_bool(const redisReadTask *task, int value)
{
    (void)value;
    return refuse_resp3(task);
}
#endif

static void free_object(void *object)
{
    (void)object; /* the items belong to pc__remote_reply */
}

struct redisReader *pc__remote_reader_new(void)
{
    /* never written, although hiredis 0.14 takes a pointer that is not const */
    static redisReplyObjectFunctions functions = {
        .createString = make_string,
        .createArray = make_array,
        .createInteger = make_integer,
        .createNil = make_nil,
        .freeObject = free_object,
#if HIREDIS_MAJOR >= 1
        .createDouble = refuse_double,
        .createBool = refuse_bool,
#endif
    };
    redisReader *reader = redisReaderCreateWithFunctions(&functions);
    if (!reader)
        pc__fail(PC_ERR_NOMEM, "remote: out of memory for the reader of replies");
    return reader;
}

void pc__remote_reader_free(struct redisReader *reader)
{
    if (reader)
        redisReaderFree(reader);
}

pc_status pc__remote_reply_feed(struct redisReader *reader, pc__remote_reply *reply,
                                const char *line, size_t size)
{
    void *object = NULL;
    int failed;
    reply->fed += size;
    if (reply->fed > PC__REMOTE_REPLY_MAX)
        return pc__fail(PC_ERR_FORMAT, "a reply is longer than %d bytes", PC__REMOTE_REPLY_MAX);
    reader->privdata = reply;
    failed = redisReaderFeed(reader, line, size) != REDIS_OK
             || redisReaderGetReply(reader, &object) != REDIS_OK;
    reader->privdata = NULL;
    if (reply->status < 0)
        return reply->status;
    if (failed)
        return pc__fail(reader->err == REDIS_ERR_OOM ? PC_ERR_NOMEM : PC_ERR_FORMAT,
                        "the server's reply is not RESP: %s", reader->errstr);
    return object ? PC_OK : PC_AGAIN;
}

/* ------------------------------------------------------------ hash slots of a cluster */

static uint32_t crc16(const char *data, size_t size)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc ^= (uint32_t)(unsigned char)data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
    }
    return crc;
}

uint32_t pc__remote_slot_of_name(const char *key, size_t size)
{
    const char *open = memchr(key, '{', size);
    const char *close = open ? memchr(open + 1, '}', size - (size_t)(open + 1 - key)) : NULL;
    if (close && close > open + 1)
        return crc16(open + 1, (size_t)(close - open - 1)) % PC__REMOTE_SLOTS;
    return crc16(key, size) % PC__REMOTE_SLOTS;
}

int pc__remote_slot_parse(const char *text, uint32_t *slot, char *server, uint16_t *port)
{
    char *end;
    const char *colon = strrchr(text, ':');
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end != ' ' || value >= PC__REMOTE_SLOTS || !colon || colon < end
        || colon - end > 256)
        return 0;
    *slot = (uint32_t)value;
    memcpy(server, end + 1, (size_t)(colon - end - 1));
    server[colon - end - 1] = 0;
    value = strtoul(colon + 1, &end, 10);
    *port = (uint16_t)value;
    return end > colon + 1 && !*end && value > 0 && value < 65536;
}
