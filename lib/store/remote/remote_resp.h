/* RESP, the protocol of Redis. A request is commands as bytes ready to be sent; many take one round
 * trip. A reply is items in the order in which they come (an array, then its elements), parsed by
 * hiredis' reader. The size of a reply is limited, whatever lengths it announces. */
#ifndef PC_STORE_REMOTE_RESP_H
#define PC_STORE_REMOTE_RESP_H

#include "base/mem.h"

typedef struct pc__remote_request {
    pc__bytes text;
    size_t *starts; /* [count] of each command in `text` */
    size_t count, capacity;
    const void *value; /* one long argument, borrowed; belongs at `split` of the text */
    size_t value_size, split;
    pc_status status; /* the first failure of all calls that add */
} pc__remote_request;

pc__remote_request pc__remote_request_make(const pc_allocator *mem);
/* Begins a command; exactly `arguments` of the following must be added to it. */
void pc__remote_request_command(pc__remote_request *request, const char *name, size_t arguments);
void pc__remote_request_bytes(pc__remote_request *request, const void *data, size_t size);
void pc__remote_request_text(pc__remote_request *request, const char *text);
void pc__remote_request_number(pc__remote_request *request, int64_t number);
/* Not copied; at most one in a request. */
void pc__remote_request_value(pc__remote_request *request, const void *data, size_t size);
void pc__remote_request_free(pc__remote_request *request);

enum {
    PC__REMOTE_TEXT = 1,
    PC__REMOTE_ERROR = 2,
    PC__REMOTE_INTEGER = 3,
    PC__REMOTE_NIL = 4,
    PC__REMOTE_ARRAY = 5
};

typedef struct pc__remote_reply_item {
    uint32_t kind;   /* PC__ITEM_… */
    size_t elements; /* of an array */
    int64_t integer;
    size_t text, size; /* TEXT and ERROR: where in pc__reply.text, NUL-terminated */
} pc__remote_reply_item;

typedef struct pc__remote_reply {
    pc__remote_reply_item *items;
    size_t count, capacity;
    pc__bytes text;
    size_t fed; /* bytes of this reply so far */
    pc_status status;
} pc__remote_reply;

/* Bytes: enough for the slots of a cluster of some thousand nodes. */
enum { PC__REMOTE_REPLY_MAX = 1 << 20 };

typedef struct pc__remote_reply_reader pc__remote_reply_reader;
pc_status pc__remote_reply_reader_new(pc__remote_reply_reader **out, const pc_allocator *mem);
void pc__remote_reply_reader_free(pc__remote_reply_reader *reader); /* NULL does nothing */

pc__remote_reply pc__remote_reply_make(const pc_allocator *mem);
void pc__remote_reply_clear(pc__remote_reply *reply); /* for the next reply */
void pc__remote_reply_free(pc__remote_reply *reply);
/* Feeds bytes up to and including a line feed, so that they never reach beyond the reply's end.
 * PC_OK: the reply is complete; PC_AGAIN: it needs more bytes. After PC_ERR_FORMAT (no reply) and
 * PC_ERR_NOMEM the connection must be closed. */
pc_status pc__remote_reply_feed(pc__remote_reply_reader *reader, pc__remote_reply *reply,
                                const char *line, size_t size);
static inline const char *pc__remote_reply_text(const pc__remote_reply *reply,
                                                const pc__remote_reply_item *item)
{
    return reply->text.data + item->text;
}

#endif
