/* One call to the node of a hash slot. */
#ifndef PC_STORE_REMOTE_CALL_H
#define PC_STORE_REMOTE_CALL_H

#include "store/remote/remote_nodes.h"

/* Errors in the replies of a server that works as it should. */
enum {
    PC__REMOTE_OUT_OF_MEMORY = 1, /* OOM */
    PC__REMOTE_WRONG_TYPE = 2,    /* WRONGTYPE */
    PC__REMOTE_SLOT_MOVING = 3,   /* TRYAGAIN: the cluster moves the slot to another node */
    PC__REMOTE_OTHER_ERROR = 4
};

typedef struct pc__remote_answer {
    size_t got;     /* bytes of a bulk string */
    int nil;        /* the last reply is nil, or an array with a nil in it */
    uint32_t error; /* PC__REMOTE_…: of the first reply that is an error, its text is set; or 0 */
} pc__remote_answer;

/* A bulk string that is being received; it holds a node and a connection. */
typedef struct pc__remote_stream { /* zero-initialised: none */
    pc__remote_node *node;
    pc__remote_connection *connection;
    size_t left; /* bytes */
} pc__remote_stream;

/* Where the reply of a single command goes, if it is a bulk string. */
typedef struct pc__remote_destination {
    void *data; /* [capacity] */
    size_t capacity;
    pc__remote_stream *stream; /* instead: only the length is read, into stream->left */
} pc__remote_destination;

/* Sends all commands of a request to the node of `slot` and reads one reply for each. The commands
 * may be sent twice, and then must do no harm. PC_OK: *answer. PC_ERR_IO: no replies; the node is
 * paused.
 */
pc_status pc__remote_call(pc__remote_nodes *nodes, uint32_t slot, const pc__remote_request *request,
                          const pc__remote_destination *into, pc__remote_deadline *limit,
                          pc__remote_answer *answer);
/* The next `size` <= stream->left bytes. A failure ends the stream. */
pc_status pc__remote_stream_read(pc__remote_nodes *nodes, pc__remote_stream *stream, void *data,
                                 size_t size, pc__remote_deadline *limit);
/* Drops the rest, and the connection with it. */
void pc__remote_stream_end(pc__remote_nodes *nodes, pc__remote_stream *stream);

#endif
