/* What the files of pc__nodes share. */
#ifndef PC_STORE_REMOTE_NODES_INTERNAL_H
#define PC_STORE_REMOTE_NODES_INTERNAL_H

#include <pthread.h>

#include "store/remote/remote_breaker.h"
#include "store/remote/remote_nodes.h"
#include "store/remote/remote_resolver.h"

enum { PC__REMOTE_IDLE_CONNECTIONS = 16, PC__REMOTE_SERVER_NAME = 256 };

typedef struct pc__remote_node {
    char *server;
    uint16_t port;
    char name[PC__REMOTE_SERVER_NAME + 16];
    pc__remote_resolver *resolver;
    pc__remote_breaker breaker;
    pc__remote_connection
        *idle[PC__REMOTE_IDLE_CONNECTIONS]; /* [idle_count] the last one used last */
    double idle_since[PC__REMOTE_IDLE_CONNECTIONS];
    size_t idle_count;
} pc__remote_node;

struct pc__remote_nodes {
    pc_allocator mem;
    const pc_context *context;
    pc__remote_address address;
    pc__remote_tls *tls;     /* NULL: plain */
    pthread_mutex_t lock;    /* guards all below; nodes are only ever added */
    pc__remote_node **items; /* [count] the seeds first */
    size_t count, capacity;
    uint16_t *slots; /* [PC__SLOTS] number of the node + 1, 0: unknown; NULL: no cluster as far as
                        is known */
    int stale;       /* the map is to be asked for */
    int refreshing;
    double refreshed;
};

/* With the lock held: the node of this name, made if it is new. */
pc_status pc__remote_node_get(pc__remote_nodes *nodes, const char *server, uint16_t port,
                              size_t *index);
/* With the lock held: the node that a slot is asked of; NULL: all that could be are left alone. */
pc__remote_node *pc__remote_node_of_slot(pc__remote_nodes *nodes, uint32_t slot, double now);

/* A connection that has rested; NULL: none that is good. */
pc__remote_connection *pc__remote_node_pop_idle(pc__remote_nodes *nodes, pc__remote_node *node);
/* A new one, logged in. */
pc_status pc__remote_node_connect(pc__remote_nodes *nodes, pc__remote_node *node,
                                  pc__remote_connection **out, pc__remote_deadline *limit);
/* It is good, and rests. */
void pc__remote_node_release(pc__remote_nodes *nodes, pc__remote_node *node,
                             pc__remote_connection *connection);
/* What became of a try (`entered`: of its breaker). The error text is that of the failure. */
void pc__remote_node_report(pc__remote_nodes *nodes, pc__remote_node *node, int permit, int ok);

/* Asks the nodes in turn for the map of the cluster, if that is due. Nothing depends on success:
 * the old map leads to a redirection at worst. */
void pc__remote_slots_refresh(pc__remote_nodes *nodes, const pc__remote_deadline *limit);

#endif
