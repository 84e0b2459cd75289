/* The nodes of an address: one server, or a cluster. Keeps idle connections, finds the node of a
 * hash slot (CLUSTER SLOTS, MOVED, ASK) and pauses nodes that fail. Internally locked; the lock is
 * not held while a server is asked. */
#ifndef PC_STORE_REMOTE_NODES_H
#define PC_STORE_REMOTE_NODES_H

#include "base/context.h"
#include "store/remote/remote_connection.h"

typedef struct pc__remote_nodes pc__remote_nodes;
/* One of them. The calls below that return a node hold it for the caller, who drops it. A node that
 * the cluster no longer names is forgotten, and freed when its last user drops it. */
typedef struct pc__remote_node pc__remote_node;

/* Takes the address over, also on failure. Does not connect. `context`: for its log, may be NULL.
 */
pc_status pc__remote_nodes_new(pc__remote_nodes **out, const pc_allocator *mem,
                               const pc_context *context, pc__remote_address *address);
void pc__remote_nodes_free(pc__remote_nodes *nodes); /* NULL does nothing */

/* 0: the node of this slot is paused, a call would fail at once. */
int pc__remote_nodes_may_ask(pc__remote_nodes *nodes, uint32_t slot);

/* Closes connections that have been idle for a minute. */
void pc__remote_nodes_sweep(pc__remote_nodes *nodes);

/* Asks the nodes in turn for the slots, if these are stale. May fail: old slots cost a redirection
 * at most. */
void pc__remote_nodes_refresh(pc__remote_nodes *nodes, const pc__remote_deadline *limit);
/* The node to ask about a slot; NULL: all candidates are paused. */
pc__remote_node *pc__remote_nodes_of_slot(pc__remote_nodes *nodes, uint32_t slot);
/* The node that "MOVED slot server:port" or ASK names, the reply of `from`. NULL: the error text is
 * set: not a cluster, or a host that the address does not cover. */
pc__remote_node *pc__remote_nodes_redirect(pc__remote_nodes *nodes, const pc__remote_node *from,
                                           const char *text);

pc__remote_node *pc__remote_node_hold(pc__remote_nodes *nodes, pc__remote_node *node);
void pc__remote_node_drop(pc__remote_nodes *nodes, pc__remote_node *node); /* NULL does nothing */
const char *pc__remote_node_name(const pc__remote_node *node);             /* for error texts */
/* 0: the node is paused. Else a permit for one attempt, for pc__remote_node_report. */
int pc__remote_node_enter(pc__remote_nodes *nodes, pc__remote_node *node);
/* The result of the attempt. A failure pauses the node and closes its idle connections; the error
 * text goes to the log. PC_ERR_NOMEM says nothing about the node. */
void pc__remote_node_report(pc__remote_nodes *nodes, pc__remote_node *node, int permit,
                            pc_status status);
/* An idle connection; NULL: none is usable. */
pc__remote_connection *pc__remote_node_pop_idle(pc__remote_nodes *nodes, pc__remote_node *node);
/* A new connection, logged in; NULL after a failure. */
pc_status pc__remote_node_connect(const pc__remote_nodes *nodes, const pc__remote_node *node,
                                  pc__remote_connection **out, pc__remote_deadline *limit);
/* Puts a good connection back among the idle ones. */
void pc__remote_node_release(pc__remote_nodes *nodes, pc__remote_node *node,
                             pc__remote_connection *connection);

/* ------------------------------------------------------------ the breaker of a node */

/* It pauses a server that fails. The first pause is 0.1 s; each failed attempt after it doubles the
 * pause, up to 30 s. Each is up to a quarter shorter or longer by chance, so that many clients do
 * not return at once. After a pause one attempt, the probe, decides. Not locked. */
typedef struct pc__remote_breaker { /* zero-initialised: closed, the server is used */
    double open_until;              /* pc__now clock */
    double open_seconds;            /* of the current pause; 0: closed */
    int probing;
} pc__remote_breaker;

enum { PC__REMOTE_BREAKER_CLOSED = 1, PC__REMOTE_BREAKER_PROBE = 2 };

/* 1: pc__remote_breaker_enter would allow an attempt. */
int pc__remote_breaker_allows(const pc__remote_breaker *breaker, double now);
/* 0: paused. Else a permit, PC__REMOTE_BREAKER_…, for pc__remote_breaker_done. */
int pc__remote_breaker_enter(pc__remote_breaker *breaker, double now);
/* The attempt succeeded or failed; PC_ERR_NOMEM says nothing about the server. `chance` in [0, 1).
 * 1: the breaker has opened or closed. */
int pc__remote_breaker_done(pc__remote_breaker *breaker, int permit, pc_status status, double now,
                            double chance);

#endif
