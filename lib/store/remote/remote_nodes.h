/* The nodes of an address: one server, or a cluster. Keeps idle connections, finds the node of a
 * hash slot (CLUSTER SLOTS, MOVED, ASK) and pauses nodes that fail (remote_breaker.h). Internally
 * locked; the lock is not held while a server is asked. Family: _redis (nodes and connections),
 * _call (one call), _cluster (slots), _internal.h. */
#ifndef PC_STORE_REMOTE_NODES_H
#define PC_STORE_REMOTE_NODES_H

#include "base/context.h"
#include "store/remote/remote_address.h"
#include "store/remote/remote_connection.h"

typedef struct pc__remote_nodes pc__remote_nodes;

/* Takes the address over, also on failure. Does not connect. `context`: for its log, may be NULL.
 */
pc_status pc__remote_nodes_new(pc__remote_nodes **out, const pc_allocator *mem,
                               const pc_context *context, pc__remote_address *address);
void pc__remote_nodes_free(pc__remote_nodes *nodes); /* NULL does nothing */

/* 0: the node of this slot is paused, a call would fail at once. */
int pc__remote_nodes_may_ask(pc__remote_nodes *nodes, uint32_t slot);

/* Errors that a server answers while it works as it should. */
enum {
    PC__REMOTE_NO_ERROR = 0,
    PC__REMOTE_OUT_OF_MEMORY = 1, /* OOM */
    PC__REMOTE_WRONG_TYPE = 2,    /* WRONGTYPE */
    PC__REMOTE_SLOT_MOVING = 3,   /* TRYAGAIN: the cluster moves the slot to another node */
    PC__REMOTE_OTHER_ERROR = 4
};

typedef struct pc__remote_answer {
    size_t got;     /* bytes of a bulk string */
    int nil;        /* the last reply is nil, or an array with a nil in it */
    uint32_t error; /* PC__REMOTE_…: of the first reply that is an error; the error text is set */
} pc__remote_answer;

/* A bulk string that is being received; it holds a connection. */
typedef struct pc__remote_stream { /* zero-initialised: none */
    struct pc__remote_node *node;
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
 * may be sent twice and must bear that. PC_OK: *answer. PC_ERR_IO: no replies; the node is paused.
 */
pc_status pc__remote_nodes_call(pc__remote_nodes *nodes, uint32_t slot,
                                const pc__remote_request *request,
                                const pc__remote_destination *into, pc__remote_deadline *limit,
                                pc__remote_answer *answer);
/* The next `size` <= stream->left bytes. A failure ends the stream. */
pc_status pc__remote_stream_read(pc__remote_nodes *nodes, pc__remote_stream *stream, void *data,
                                 size_t size, pc__remote_deadline *limit);
/* Drops the rest, and the connection with it. */
void pc__remote_stream_end(pc__remote_stream *stream);
/* Closes connections that have been idle for a minute. */
void pc__remote_nodes_sweep(pc__remote_nodes *nodes);

#endif
