/* What the files of pc__nodes share. */
#ifndef PC_STORE_REMOTE_NODES_BODY_H
#define PC_STORE_REMOTE_NODES_BODY_H

#include <pthread.h>

#include "store/remote/remote_breaker.h"
#include "store/remote/remote_nodes.h"
#include "store/remote/remote_resolve.h"

enum { PC__NODE_IDLE = 16, PC__NODE_HOST = 256 };

typedef struct pc__node {
    char *host;
    uint16_t port;
    char name[PC__NODE_HOST + 16];
    pc__resolver *resolver;
    pc__breaker breaker;
    pc__wire *idle[PC__NODE_IDLE]; /* [idle_count] the last one used last */
    double rested[PC__NODE_IDLE];
    size_t idle_count;
} pc__node;

struct pc__nodes {
    pc_allocator mem;
    const pc_context *context;
    pc__remote_address address;
    pc__tls *tls;         /* NULL: plain */
    pthread_mutex_t lock; /* guards all below; nodes are only ever added */
    pc__node **items;     /* [count] the seeds first */
    size_t count, capacity;
    uint16_t *slots; /* [PC__SLOTS] number of the node + 1, 0: unknown; NULL: no cluster as far as
                        is known */
    int stale;       /* the map is to be asked for */
    int refreshing;
    double refreshed;
};

/* With the lock held: the node of this name, made if it is new. */
pc_status pc__node_find(pc__nodes *nodes, const char *host, uint16_t port, size_t *index);
/* With the lock held: the node that a slot is asked of; NULL: all that could be are left alone. */
pc__node *pc__node_of_slot(pc__nodes *nodes, uint32_t slot, double now);

/* A connection that has rested; NULL: none that is good. */
pc__wire *pc__node_take_idle(pc__nodes *nodes, pc__node *node);
/* A new one, logged in. */
pc_status pc__node_connect(pc__nodes *nodes, pc__node *node, pc__wire **out, pc__limit *limit);
/* It is good, and rests. */
void pc__node_give_back(pc__nodes *nodes, pc__node *node, pc__wire *wire);
/* What became of a try (`entered`: of its breaker). The error text is that of the failure. */
void pc__node_settle(pc__nodes *nodes, pc__node *node, int entered, int ok);

/* Asks the nodes in turn for the map of the cluster, if that is due. Nothing depends on success:
 * the old map leads to a redirection at worst. */
void pc__cluster_refresh(pc__nodes *nodes, const pc__limit *limit);

#endif
