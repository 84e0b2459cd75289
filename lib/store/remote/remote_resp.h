/* RESP, the protocol of Redis. A request is commands as bytes ready to be sent; many take one round
 * trip. A reply is items in the order in which they come (an array, then its elements), parsed by
 * hiredis' reader. The size of a reply is limited, whatever lengths it announces. Hash slots of a
 * cluster, by the Redis cluster specification. */
#ifndef PC_STORE_REMOTE_RESP_H
#define PC_STORE_REMOTE_RESP_H

#include "base/mem.h"

struct pc__remote_reply;

typedef struct pc__remote_request {
    pc__bytes text;
    size_t *starts; /* [count] of each command in `text` */
    size_t count, capacity;
    const void *value; /* one long argument, borrowed; belongs at `split` of the text */
    size_t value_size, split;
    pc_status status; /* the first failure of all calls that add */
    /* Gets the reply of each command, and all of them again if the request is sent once more. NULL:
     * only pc__remote_answer matters. */
    void (*on_reply)(void *user, size_t index, const struct pc__remote_reply *reply);
    void *user;
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
    uint32_t kind;   /* PC__REMOTE_… */
    size_t elements; /* of an array */
    int64_t integer;
    size_t text, size; /* TEXT and ERROR: where in pc__remote_reply.text, NUL-terminated */
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

/* hiredis' reader, which allocates for itself. NULL: PC_ERR_NOMEM, the error text is set. */
struct redisReader *pc__remote_reader_new(void);
void pc__remote_reader_free(struct redisReader *reader); /* NULL does nothing */

pc__remote_reply pc__remote_reply_make(const pc_allocator *mem);
void pc__remote_reply_clear(pc__remote_reply *reply); /* for the next reply */
void pc__remote_reply_free(pc__remote_reply *reply);
/* Feeds bytes up to and including a line feed, so that they never reach beyond the reply's end.
 * PC_OK: the reply is complete; PC_AGAIN: it needs more bytes. After PC_ERR_FORMAT (no reply) and
 * PC_ERR_NOMEM the connection must be closed. */
pc_status pc__remote_reply_feed(struct redisReader *reader, pc__remote_reply *reply,
                                const char *line, size_t size);
static inline const char *pc__remote_reply_text(const pc__remote_reply *reply,
                                                const pc__remote_reply_item *item)
{
    return reply->text.data + item->text;
}

enum { PC__REMOTE_SLOTS = 16384 };

/* CRC16 (XMODEM) of the text in the key's first {}; of the whole key if there is none, or it is
 * empty. */
uint32_t pc__remote_slot_of_name(const char *key, size_t size);

/* Parses "3999 127.0.0.1:6381", the arguments of MOVED and ASK. server [256]; "": the node that
 * sent it. 0: another form. */
int pc__remote_slot_parse(const char *text, uint32_t *slot, char *server, uint16_t *port);

#endif
