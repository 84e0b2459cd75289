/* The servers behind an address: one, or the nodes of a cluster. Keeps connections, finds the node
 * of a slot (CLUSTER SLOTS, MOVED, ASK), leaves alone who fails. Internally locked; the lock is
 * never held while something is waited for. */
#ifndef PC_STORE_REMOTE_NODES_H
#define PC_STORE_REMOTE_NODES_H

#include "base/context.h"
#include "store/remote/remote_address.h"
#include "store/remote/remote_wire.h"

typedef struct pc__nodes pc__nodes;

/* Takes the address over in any case. Does not connect. `context` (may be NULL): for its log. */
pc_status pc__nodes_new(pc__nodes **out, const pc_allocator *mem, const pc_context *context,
                        pc__remote_address *address);
void pc__nodes_free(pc__nodes *nodes); /* NULL does nothing */

/* Whether a call about this slot would be tried now. */
int pc__nodes_may_ask(pc__nodes *nodes, uint32_t slot);

/* What a server says that is no failure of its own. */
enum {
    PC__SAYS_NOTHING = 0,
    PC__SAYS_FULL = 1 /* OOM */,
    PC__SAYS_OTHER_TYPE = 2 /* WRONGTYPE */,
    PC__SAYS_MOVING = 3 /* TRYAGAIN: a slot that is on its way */,
    PC__SAYS_ERROR = 4
};

typedef struct pc__answer {
    size_t got;     /* bytes of the bulk */
    int nil;        /* the last answer was none (the bulk: is not there), or has none in it */
    uint32_t says;  /* PC__SAYS_…: the first error among the answers; the error text is set */
    int left_alone; /* failed without trying */
} pc__answer;

/* A run of bytes that is on its way; it holds a connection. */
typedef struct pc__stream { /* zero-initialised: none */
    struct pc__node *node;
    pc__wire *wire;
    size_t left;
} pc__stream;

/* Where the answer to a single command goes, if it is a run of bytes. */
typedef struct pc__into {
    void *data; /* [capacity] */
    size_t capacity;
    pc__stream *stream; /* or: only its length is read, into stream->left */
} pc__into;

/* Sends all commands of a request, which may be repeated without harm, to the node of `slot` and
 * reads one answer for each. PC_OK: *answer. PC_ERR_IO: no answers, the server is left alone for a
 * while. */
pc_status pc__nodes_call(pc__nodes *nodes, uint32_t slot, const pc__request *request,
                         const pc__into *into, pc__limit *limit, pc__answer *answer);
/* The next bytes of a stream, at most stream->left. After a failure it is none any more. */
pc_status pc__nodes_stream_read(pc__nodes *nodes, pc__stream *stream, void *data, size_t size,
                                pc__limit *limit);
/* Wherever it stands. */
void pc__nodes_stream_end(pc__nodes *nodes, pc__stream *stream);
/* Closes connections that have rested for a while. */
void pc__nodes_sweep(pc__nodes *nodes);

#endif
