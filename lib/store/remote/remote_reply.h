/* What a server answers, taken apart by hiredis' reader: items in the order in which they come (an
 * array, then its elements). What one answer takes is limited, whatever lengths it announces. */
#ifndef PC_STORE_REMOTE_REPLY_H
#define PC_STORE_REMOTE_REPLY_H

#include "base/mem.h"

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
    size_t fed; /* bytes of this answer so far */
    pc_status status;
} pc__remote_reply;

enum { PC__REMOTE_REPLY_MAX = 1 << 20 }; /* bytes: the map of a cluster of some thousand nodes */

typedef struct pc__remote_reply_reader pc__remote_reply_reader;
pc_status pc__remote_reply_reader_new(pc__remote_reply_reader **out, const pc_allocator *mem);
void pc__remote_reply_reader_free(pc__remote_reply_reader *reader); /* NULL does nothing */

pc__remote_reply pc__remote_reply_make(const pc_allocator *mem);
void pc__remote_reply_clear(pc__remote_reply *reply); /* for the next answer */
void pc__remote_reply_free(pc__remote_reply *reply);
/* Bytes up to and including a line feed, so that they never reach beyond the end of an answer.
 * PC_OK: the answer is whole; PC_AGAIN: more is needed; PC_ERR_FORMAT: not an answer, the
 * connection is of no more use; PC_ERR_NOMEM: likewise. */
pc_status pc__remote_reply_feed(pc__remote_reply_reader *reader, pc__remote_reply *reply,
                                const char *line, size_t size);
static inline const char *pc__remote_reply_text(const pc__remote_reply *reply,
                                                const pc__remote_reply_item *item)
{
    return reply->text.data + item->text;
}

#endif
