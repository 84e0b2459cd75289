/* The servers behind an address: one, or the nodes of a cluster. Keeps connections, finds the node
 * of a slot (CLUSTER SLOTS, MOVED, ASK), leaves alone who fails. Internally locked; the lock is
 * never held while something is waited for. */
#ifndef PC_STORE_REMOTE_NODES_H
#define PC_STORE_REMOTE_NODES_H

#include "base/context.h"
#include "store/remote/remote_address.h"
#include "store/remote/remote_connection.h"

typedef struct pc__remote_nodes pc__remote_nodes;

/* Takes the address over in any case. Does not connect. `context` (may be NULL): for its log. */
pc_status pc__remote_nodes_new(pc__remote_nodes **out, const pc_allocator *mem,
                               const pc_context *context, pc__remote_address *address);
void pc__remote_nodes_free(pc__remote_nodes *nodes); /* NULL does nothing */

/* Whether a call about this slot would be tried now. */
int pc__remote_nodes_may_ask(pc__remote_nodes *nodes, uint32_t slot);

/* What a server says that is no failure of its own. */
enum {
    PC__REMOTE_NO_ERROR = 0,
    PC__REMOTE_OUT_OF_MEMORY = 1 /* OOM */,
    PC__REMOTE_WRONG_TYPE = 2 /* WRONGTYPE */,
    PC__REMOTE_SLOT_MOVING = 3 /* TRYAGAIN: a slot that is on its way */,
    PC__REMOTE_OTHER_ERROR = 4
};

typedef struct pc__remote_answer {
    size_t got;     /* bytes of the bulk */
    int nil;        /* the last answer was none (the bulk: is not there), or has none in it */
    uint32_t error; /* PC__SAYS_…: the first error among the answers; the error text is set */
    int not_tried;  /* failed without trying */
} pc__remote_answer;

/* A run of bytes that is on its way; it holds a connection. */
typedef struct pc__remote_stream { /* zero-initialised: none */
    struct pc__remote_node *node;
    pc__remote_connection *connection;
    size_t left;
} pc__remote_stream;

/* Where the answer to a single command goes, if it is a run of bytes. */
typedef struct pc__remote_destination {
    void *data; /* [capacity] */
    size_t capacity;
    pc__remote_stream *stream; /* or: only its length is read, into stream->left */
} pc__remote_destination;

/* Sends all commands of a request, which may be repeated without harm, to the node of `slot` and
 * reads one answer for each. PC_OK: *answer. PC_ERR_IO: no answers, the server is left alone for a
 * while. */
pc_status pc__remote_nodes_call(pc__remote_nodes *nodes, uint32_t slot,
                                const pc__remote_request *request,
                                const pc__remote_destination *into, pc__remote_deadline *limit,
                                pc__remote_answer *answer);
/* The next bytes of a stream, at most stream->left. After a failure it is none any more. */
pc_status pc__remote_stream_read(pc__remote_nodes *nodes, pc__remote_stream *stream, void *data,
                                 size_t size, pc__remote_deadline *limit);
/* Wherever it stands. */
void pc__remote_stream_end(pc__remote_nodes *nodes, pc__remote_stream *stream);
/* Closes connections that have rested for a while. */
void pc__remote_nodes_sweep(pc__remote_nodes *nodes);

#endif
