/* One call: its attempts, redirections, and the meaning of a server's errors. */
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "store/remote/remote_nodes_internal.h"
#include "store/remote/remote_slots.h"

enum { MAX_REDIRECTIONS = 8 };

typedef enum call_outcome { ANSWERED, REDIRECTED, REFUSED } call_outcome;

typedef struct node_call {
    const pc__remote_request *request;
    const pc__remote_destination *into; /* or NULL */
    pc__remote_deadline *limit;
    pc__remote_answer *answer;
    pc__remote_node *node, *next; /* next: the target of a redirection */
    int asking;                   /* the next attempt sends ASKING */
    int is_stream;                /* the reply is read through into->stream */
    int has_received;             /* this attempt has received bytes */
} node_call;

static int has_code(const char *text, const char *code)
{
    size_t size = strlen(code);
    return !strncmp(text, code, size) && (text[size] == ' ' || !text[size]);
}

/* "MOVED slot server:port", or ASK. */
static call_outcome redirect(pc__remote_nodes *nodes, node_call *c, const char *text)
{
    char server[PC__REMOTE_SERVER_NAME];
    const char *target = strchr(text, ' ');
    uint16_t port;
    uint32_t slot;
    size_t index;
    pc_status status;
    int moved = text[0] == 'M';
    if (!target || !pc__remote_slot_parse(target + 1, &slot, server, &port)) {
        pc__fail(PC_ERR_IO, "%s: a redirection without a server: %.200s", c->node->name, text);
        return REFUSED;
    }
    pthread_mutex_lock(&nodes->lock);
    status = pc__remote_node_get(nodes, server[0] ? server : c->node->server, port, &index);
    if (moved && !nodes->slots) /* without memory the next call is redirected too */
        nodes->slots = pc__calloc(&nodes->mem, PC__REMOTE_SLOTS, sizeof *nodes->slots);
    if (moved && status == PC_OK && nodes->slots)
        nodes->slots[slot] = (uint16_t)(index + 1);
    if (moved)
        nodes->stale = 1;
    c->next = status == PC_OK ? nodes->items[index] : NULL;
    pthread_mutex_unlock(&nodes->lock);
    c->asking = !moved;
    return status == PC_OK ? REDIRECTED : REFUSED;
}

/* The first word of an error is its code. */
static call_outcome interpret_error(pc__remote_nodes *nodes, node_call *c, const char *text)
{
    static const char *const refusals[] = {"CLUSTERDOWN", "LOADING", "MASTERDOWN", "BUSY",
                                           "READONLY",    "NOAUTH",  "WRONGPASS",  "NOPERM",
                                           "NOREPLICAS",  "MISCONF", "UNBLOCKED"};
    if (has_code(text, "MOVED") || has_code(text, "ASK"))
        return redirect(nodes, c, text);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (has_code(text, refusals[i])) {
            pthread_mutex_lock(&nodes->lock);
            nodes->stale |= nodes->slots != NULL; /* a node that has lost its slots answers so */
            pthread_mutex_unlock(&nodes->lock);
            pc__fail(PC_ERR_IO, "%s: the server answers %.200s", c->node->name, text);
            return REFUSED;
        }
    if (c->answer->error == PC__REMOTE_NO_ERROR) {
        c->answer->error = has_code(text, "OOM")         ? PC__REMOTE_OUT_OF_MEMORY
                           : has_code(text, "WRONGTYPE") ? PC__REMOTE_WRONG_TYPE
                           : has_code(text, "TRYAGAIN")  ? PC__REMOTE_SLOT_MOVING
                                                         : PC__REMOTE_OTHER_ERROR;
        pc__fail(PC_ERR_IO, "%s: the server answers %.200s", c->node->name, text);
    }
    return ANSWERED;
}

static call_outcome interpret_reply(pc__remote_nodes *nodes, node_call *c,
                                    const pc__remote_reply *reply)
{
    call_outcome outcome = ANSWERED;
    c->answer->nil = 0;
    for (size_t i = 0; i < reply->count; i++) { /* a transaction's replies are one array */
        const pc__remote_reply_item *item = &reply->items[i];
        c->answer->nil |= item->kind == PC__REMOTE_NIL;
        if (item->kind == PC__REMOTE_ERROR && outcome == ANSWERED)
            outcome = interpret_error(nodes, c, pc__remote_reply_text(reply, item));
    }
    return outcome;
}

static pc_status read_answer(pc__remote_nodes *nodes, node_call *c,
                             pc__remote_connection *connection, pc__remote_reply *reply,
                             call_outcome *outcome)
{
    pc_status status = PC_MISS;
    call_outcome now;
    if (c->into && c->into->stream) {
        status = pc__remote_connection_bulk_start(connection, &c->answer->got, reply, c->limit);
        c->is_stream = status == PC_OK;
    } else if (c->into) {
        status = pc__remote_connection_bulk(connection, c->into->data, c->into->capacity,
                                            &c->answer->got, reply, c->limit);
    } else {
        pc_status received = pc__remote_connection_reply(connection, reply, c->limit);
        status = received < 0 ? received : PC_MISS;
    }
    if (status != PC_MISS)
        return status;
    now = interpret_reply(nodes, c, reply);
    if (*outcome == ANSWERED)
        *outcome = now;
    return PC_OK;
}

/* One attempt on one connection. Reads all replies, errors too: the connection stays usable. */
static pc_status exchange(pc__remote_nodes *nodes, node_call *c, pc__remote_connection *connection,
                          call_outcome *outcome)
{
    pc__remote_reply reply = pc__remote_reply_make(&nodes->mem);
    pc_status status = PC_OK;
    int asking = c->asking;
    *outcome = ANSWERED;
    memset(c->answer, 0, sizeof *c->answer);
    pc__remote_connection_received(connection);
    if (!asking)
        status = pc__remote_connection_send(connection, c->request, c->limit);
    for (size_t i = 0; i < c->request->count && status == PC_OK; i++) {
        if (asking) {
            PC__TRY(pc__remote_connection_send_asking(connection, c->request, i, c->limit), end);
            PC__TRY(pc__remote_connection_reply(connection, &reply, c->limit), end); /* ASKING's */
        }
        status = read_answer(nodes, c, connection, &reply, outcome);
    }
end:
    c->has_received = pc__remote_connection_received(connection) > 0;
    pc__remote_reply_free(&reply);
    return status;
}

/* On an idle connection, then on a new one: the server may have closed the idle one meanwhile. */
static pc_status try_connections(pc__remote_nodes *nodes, node_call *c, call_outcome *outcome)
{
    pc__remote_node *n = c->node;
    for (;;) {
        pc__remote_connection *connection = pc__remote_node_pop_idle(nodes, n);
        int was_idle = connection != NULL;
        pc_status status = was_idle ? PC_OK
                                    : pc__remote_node_connect(nodes, n, &connection, c->limit);
        if (status < 0)
            return status;
        status = exchange(nodes, c, connection, outcome);
        if (status >= 0 && c->is_stream)
            *c->into->stream = (pc__remote_stream){n, connection, c->answer->got};
        else if (status >= 0)
            pc__remote_node_release(nodes, n, connection);
        if (status >= 0)
            return status;
        pc__remote_connection_close(connection);
        if (!was_idle || c->has_received || c->limit->timed_out || status != PC_ERR_IO)
            return status;
    }
}

static pc_status try_node(pc__remote_nodes *nodes, node_call *c, call_outcome *outcome)
{
    int permit = pc__remote_node_enter(nodes, c->node);
    pc_status status;
    if (!permit)
        return pc__fail(PC_ERR_IO, "%s: paused for a while after a failure", c->node->name);
    status = try_connections(nodes, c, outcome);
    if (status == PC_ERR_NOMEM) {
        pc__remote_node_cancel(nodes, c->node, permit);
        return status;
    }
    if (status == PC_ERR_FORMAT)
        status = PC_ERR_IO; /* the connection is bad, not a record */
    pc__remote_node_report(nodes, c->node, permit, status >= 0 && *outcome != REFUSED);
    return status >= 0 && *outcome == REFUSED ? PC_ERR_IO : status;
}

pc_status pc__remote_nodes_call(pc__remote_nodes *nodes, uint32_t slot,
                                const pc__remote_request *request,
                                const pc__remote_destination *into, pc__remote_deadline *limit,
                                pc__remote_answer *answer)
{
    node_call c = {.request = request, .into = into, .limit = limit, .answer = answer};
    memset(answer, 0, sizeof *answer);
    if (request->status < 0)
        return request->status;
    if (pc__now() >= limit->deadline) {
        limit->timed_out = 1;
        return pc__fail(PC_ERR_IO, "remote: the deadline has passed before the server was asked");
    }
    pc__remote_slots_refresh(nodes, limit);
    pthread_mutex_lock(&nodes->lock);
    c.node = pc__remote_node_of_slot(nodes, slot, pc__now());
    pthread_mutex_unlock(&nodes->lock);
    if (!c.node)
        return pc__fail(PC_ERR_IO, "remote: the server is paused for a while after a failure");
    for (int i = 0; i < MAX_REDIRECTIONS; i++) {
        call_outcome outcome = ANSWERED;
        pc_status status = try_node(nodes, &c, &outcome);
        if (status < 0 || outcome == ANSWERED)
            return status;
        c.node = c.next;
    }
    return pc__fail(PC_ERR_IO, "%s: redirected more than %d times", c.node->name, MAX_REDIRECTIONS);
}

pc_status pc__remote_stream_read(pc__remote_nodes *nodes, pc__remote_stream *stream, void *data,
                                 size_t size, pc__remote_deadline *limit)
{
    pc_status status = pc__remote_connection_bulk_part(stream->connection, data, size, limit);
    stream->left -= size;
    if (status == PC_OK && !stream->left)
        status = pc__remote_connection_bulk_end(stream->connection, limit);
    if (status == PC_OK && stream->left)
        return status;
    if (status == PC_OK)
        pc__remote_node_release(nodes, stream->node, stream->connection);
    else {
        pc__remote_connection_close(stream->connection);
        pc__remote_node_report(nodes, stream->node, PC__REMOTE_BREAKER_CLOSED, 0);
        status = PC_ERR_IO; /* FORMAT: the connection is bad, not a record */
    }
    memset(stream, 0, sizeof *stream);
    return status;
}

void pc__remote_stream_end(pc__remote_stream *stream)
{
    pc__remote_connection_close(stream->connection);
    memset(stream, 0, sizeof *stream);
}
