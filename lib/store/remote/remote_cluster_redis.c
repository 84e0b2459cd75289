/* The map of a cluster: which node holds which slots. */
#include "base/clock.h"
#include "base/fail.h"
#include "store/remote/remote_nodes_body.h"
#include "store/remote/remote_slots.h"

#define REFRESH_SECONDS 0.05 /* between two looks */

/* One entry of CLUSTER SLOTS, at items[*at]: [first, last, [host, port, …] of the master, then of
 * its replicas]. */
static pc_status read_range(pc__nodes *nodes, const pc__reply *reply, size_t *at,
                            const pc__node *asked, uint16_t *slots)
{
    const pc__reply_item *i = &reply->items[*at];
    size_t end = *at + 1, index;
    const char *host;
    pc_status status;
    for (size_t left = i->elements; left && end < reply->count;
         left--) /* where the entry ends: arrays in it count with their elements */
        for (size_t inside = 1; inside && end < reply->count; end++)
            inside = inside + reply->items[end].elements - 1;
    if (i->kind != PC__ITEM_ARRAY || i->elements < 3 || reply->count - *at < 6
        || i[1].kind != PC__ITEM_INTEGER || i[2].kind != PC__ITEM_INTEGER
        || i[3].kind != PC__ITEM_ARRAY || i[3].elements < 2 || i[5].kind != PC__ITEM_INTEGER
        || i[1].integer < 0 || i[2].integer >= PC__SLOTS || i[5].integer <= 0
        || i[5].integer > 65535)
        return pc__fail(PC_ERR_IO, "%s: CLUSTER SLOTS is not understood", asked->name);
    host = i[4].kind == PC__ITEM_TEXT && i[4].size ? pc__reply_text(reply, &i[4]) : asked->host;
    status = pc__node_find(nodes, host, (uint16_t)i[5].integer, &index);
    for (int64_t s = i[1].integer; status == PC_OK && s <= i[2].integer; s++)
        slots[s] = (uint16_t)(index + 1);
    *at = end;
    return status;
}

static pc_status read_map(pc__nodes *nodes, const pc__reply *reply, const pc__node *asked)
{
    uint16_t *slots;
    pc_status status = PC_OK;
    size_t at = 1;
    if (reply->items[0].kind
        == PC__ITEM_ERROR) { /* no cluster: one server under several addresses */
        nodes->stale = 0;
        return PC_OK;
    }
    if (!(slots = pc__calloc(&nodes->mem, PC__SLOTS, sizeof *slots)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < reply->items[0].elements && at < reply->count && status == PC_OK; i++)
        status = read_range(nodes, reply, &at, asked, slots);
    if (status < 0) {
        pc__free(&nodes->mem, slots);
        return status;
    }
    pc__free(&nodes->mem, nodes->slots);
    nodes->slots = slots;
    nodes->stale = 0;
    return PC_OK;
}

/* The map as one node knows it. */
static pc_status ask_map(pc__nodes *nodes, pc__node *n, pc__limit *limit)
{
    pc__request request = pc__request_make(&nodes->mem);
    pc__reply reply = pc__reply_make(&nodes->mem);
    pc__wire *wire = pc__node_take_idle(nodes, n);
    pc_status status = PC_OK;
    pc__request_command(&request, 2);
    pc__request_text(&request, "CLUSTER");
    pc__request_text(&request, "SLOTS");
    PC__TRY(request.status, end);
    if (!wire)
        PC__TRY(pc__node_connect(nodes, n, &wire, limit), end);
    PC__TRY(pc__wire_send(wire, &request, limit), end);
    PC__TRY(pc__wire_reply(wire, &reply, limit), end);
    pthread_mutex_lock(&nodes->lock);
    status = read_map(nodes, &reply, n);
    pthread_mutex_unlock(&nodes->lock);
    pc__node_give_back(nodes, n, wire);
    wire = NULL;
end:
    pc__wire_close(wire);
    pc__reply_free(&reply);
    pc__request_free(&request);
    return status;
}

void pc__cluster_refresh(pc__nodes *nodes, const pc__limit *limit)
{
    size_t count;
    int due;
    pthread_mutex_lock(&nodes->lock);
    due = nodes->stale && !nodes->refreshing && pc__now() - nodes->refreshed > REFRESH_SECONDS;
    if (due)
        nodes->refreshing = 1;
    count = nodes->count;
    pthread_mutex_unlock(&nodes->lock);
    for (size_t i = 0; due && i < count; i++) {
        double now = pc__now();
        pc__limit part = {now + (limit->deadline - now) / 3,
                          0}; /* a node that hangs leaves time for another */
        pc_status status;
        int entered;
        pc__node *n;
        pthread_mutex_lock(&nodes->lock);
        n = nodes->items[i];
        entered = pc__breaker_enter(&n->breaker, now);
        pthread_mutex_unlock(&nodes->lock);
        if (!entered)
            continue;
        status = ask_map(nodes, n, &part);
        if (status == PC_ERR_NOMEM) {
            pthread_mutex_lock(&nodes->lock);
            pc__breaker_leave(&n->breaker, entered);
            pthread_mutex_unlock(&nodes->lock);
            break;
        }
        pc__node_settle(nodes, n, entered, status >= 0);
        if (status >= 0)
            break;
    }
    if (due) {
        pthread_mutex_lock(&nodes->lock);
        nodes->refreshing = 0;
        nodes->refreshed = pc__now();
        pthread_mutex_unlock(&nodes->lock);
    }
}
