/* The struct of pc__remote_nodes and what its files share. */
#ifndef PC_STORE_REMOTE_NODES_INTERNAL_H
#define PC_STORE_REMOTE_NODES_INTERNAL_H

#include <pthread.h>

#include "store/remote/remote_breaker.h"
#include "store/remote/remote_nodes.h"
#include "store/remote/remote_resolver.h"

enum { PC__REMOTE_IDLE_CONNECTIONS = 16, PC__REMOTE_SERVER_NAME = 256 };

typedef struct pc__remote_node {
    char *server; /* name, number or path */
    uint16_t port;
    char name[PC__REMOTE_SERVER_NAME + 16]; /* "server:port", for error texts */
    pc__remote_resolver *resolver;
    pc__remote_breaker breaker;
    pc__remote_connection *idle[PC__REMOTE_IDLE_CONNECTIONS]; /* [idle_count] latest used last */
    double idle_since[PC__REMOTE_IDLE_CONNECTIONS];
    size_t idle_count;
} pc__remote_node;

struct pc__remote_nodes {
    pc_allocator mem;
    const pc_context *context;
    pc__remote_address address;
    pc__remote_tls *tls;     /* NULL: plain */
    pthread_mutex_t lock;    /* guards all below; nodes are added, never removed */
    pc__remote_node **items; /* [count] first those of the address */
    size_t count, capacity;
    uint16_t *slots; /* [PC__REMOTE_SLOTS] index of the node + 1, 0: unknown; NULL: no cluster */
    int stale;       /* `slots` must be asked for again */
    int refreshing;
    double refreshed;
};

/* Under the lock: the node of this name, added if it is new. */
pc_status pc__remote_node_get(pc__remote_nodes *nodes, const char *server, uint16_t port,
                              size_t *index);
/* Under the lock: the node to ask about a slot; NULL: all candidates are paused. */
pc__remote_node *pc__remote_node_of_slot(pc__remote_nodes *nodes, uint32_t slot, double now);

/* An idle connection; NULL: none is usable. */
pc__remote_connection *pc__remote_node_pop_idle(pc__remote_nodes *nodes, pc__remote_node *node);
/* A new connection, logged in. */
pc_status pc__remote_node_connect(pc__remote_nodes *nodes, pc__remote_node *node,
                                  pc__remote_connection **out, pc__remote_deadline *limit);
/* Puts a good connection back among the idle ones. */
void pc__remote_node_release(pc__remote_nodes *nodes, pc__remote_node *node,
                             pc__remote_connection *connection);

/* The node's breaker, under the lock: see remote_breaker.h. A failure closes idle connections, and
 * the error text goes to the log. */
int pc__remote_node_enter(pc__remote_nodes *nodes, pc__remote_node *node);
void pc__remote_node_report(pc__remote_nodes *nodes, pc__remote_node *node, int permit, int ok);
void pc__remote_node_cancel(pc__remote_nodes *nodes, pc__remote_node *node, int permit);

/* Asks the nodes in turn for the slots, if these are stale. May fail: old slots cost a redirection
 * at most. */
void pc__remote_slots_refresh(pc__remote_nodes *nodes, const pc__remote_deadline *limit);

#endif
