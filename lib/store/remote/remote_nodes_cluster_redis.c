/* Which node has which hash slots, by CLUSTER SLOTS. */
#include "base/clock.h"
#include "base/fail.h"
#include "store/remote/remote_nodes_internal.h"
#include "store/remote/remote_slots.h"

#define REFRESH_SECONDS 0.05 /* at least, between two requests */

/* One entry of CLUSTER SLOTS, at items[*at]: [first, last, [host, port, …] of the master, then of
 * its replicas]. */
static pc_status read_range(pc__remote_nodes *nodes, const pc__remote_reply *reply, size_t *at,
                            const pc__remote_node *asked, uint16_t *slots)
{
    const pc__remote_reply_item *i = &reply->items[*at];
    size_t end = *at + 1, index;
    const char *server;
    pc_status status;
    /* find the end of the entry: arrays in it are followed by their elements */
    for (size_t left = i->elements; left && end < reply->count; left--)
        for (size_t inside = 1; inside && end < reply->count; end++)
            inside = inside + reply->items[end].elements - 1;
    if (i->kind != PC__REMOTE_ARRAY || i->elements < 3 || reply->count - *at < 6
        || i[1].kind != PC__REMOTE_INTEGER || i[2].kind != PC__REMOTE_INTEGER
        || i[3].kind != PC__REMOTE_ARRAY || i[3].elements < 2 || i[5].kind != PC__REMOTE_INTEGER
        || i[1].integer < 0 || i[2].integer >= PC__REMOTE_SLOTS || i[5].integer <= 0
        || i[5].integer > 65535)
        return pc__fail(PC_ERR_IO, "%s: the reply to CLUSTER SLOTS has an unknown form",
                        asked->name);
    server = i[4].kind == PC__REMOTE_TEXT && i[4].size ? pc__remote_reply_text(reply, &i[4])
                                                       : asked->server;
    status = pc__remote_node_get(nodes, server, (uint16_t)i[5].integer, &index);
    for (int64_t s = i[1].integer; status == PC_OK && s <= i[2].integer; s++)
        slots[s] = (uint16_t)(index + 1);
    *at = end;
    return status;
}

static pc_status read_slots(pc__remote_nodes *nodes, const pc__remote_reply *reply,
                            const pc__remote_node *asked)
{
    uint16_t *slots;
    pc_status status = PC_OK;
    size_t at = 1;
    if (reply->items[0].kind == PC__REMOTE_ERROR) { /* one server with several addresses */
        nodes->stale = 0;
        return PC_OK;
    }
    if (!(slots = pc__calloc(&nodes->mem, PC__REMOTE_SLOTS, sizeof *slots)))
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

/* The slots as one node knows them. */
static pc_status ask_slots(pc__remote_nodes *nodes, pc__remote_node *n, pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(&nodes->mem);
    pc__remote_reply reply = pc__remote_reply_make(&nodes->mem);
    pc__remote_connection *connection = pc__remote_node_pop_idle(nodes, n);
    pc_status status = PC_OK;
    pc__remote_request_command(&request, "CLUSTER", 1);
    pc__remote_request_text(&request, "SLOTS");
    PC__TRY(request.status, end);
    if (!connection)
        PC__TRY(pc__remote_node_connect(nodes, n, &connection, limit), end);
    PC__TRY(pc__remote_connection_send(connection, &request, limit), end);
    PC__TRY(pc__remote_connection_reply(connection, &reply, limit), end);
    pthread_mutex_lock(&nodes->lock);
    status = read_slots(nodes, &reply, n);
    pthread_mutex_unlock(&nodes->lock);
    pc__remote_node_release(nodes, n, connection);
    connection = NULL;
end:
    pc__remote_connection_close(connection);
    pc__remote_reply_free(&reply);
    pc__remote_request_free(&request);
    return status;
}

/* 1: the slots are known, or memory is short. */
static int refresh_from(pc__remote_nodes *nodes, pc__remote_node *n,
                        const pc__remote_deadline *limit)
{
    double now = pc__now();
    pc__remote_deadline part = {now + (limit->deadline - now) / 3, 0}; /* leaves time for others */
    int permit = pc__remote_node_enter(nodes, n);
    pc_status status;
    if (!permit)
        return 0;
    status = ask_slots(nodes, n, &part);
    if (status == PC_ERR_NOMEM)
        pc__remote_node_cancel(nodes, n, permit);
    else
        pc__remote_node_report(nodes, n, permit, status >= 0);
    return status >= 0 || status == PC_ERR_NOMEM;
}

void pc__remote_slots_refresh(pc__remote_nodes *nodes, const pc__remote_deadline *limit)
{
    size_t count;
    int done = 0;
    pthread_mutex_lock(&nodes->lock);
    if (!nodes->stale || nodes->refreshing || pc__now() - nodes->refreshed <= REFRESH_SECONDS) {
        pthread_mutex_unlock(&nodes->lock);
        return;
    }
    nodes->refreshing = 1;
    count = nodes->count;
    pthread_mutex_unlock(&nodes->lock);
    for (size_t i = 0; i < count && !done; i++) {
        pc__remote_node *n;
        pthread_mutex_lock(&nodes->lock);
        n = nodes->items[i];
        pthread_mutex_unlock(&nodes->lock);
        done = refresh_from(nodes, n, limit);
    }
    pthread_mutex_lock(&nodes->lock);
    nodes->refreshing = 0;
    nodes->refreshed = pc__now();
    pthread_mutex_unlock(&nodes->lock);
}
