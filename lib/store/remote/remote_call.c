/* One call: its attempts, redirections, and the meaning of a server's errors. */
#include "store/remote/remote_call.h"

#include <string.h>

#include "base/clock.h"
#include "base/fail.h"

enum { MAX_REDIRECTIONS = 8 };

typedef enum call_outcome { ANSWERED, REDIRECTED, REFUSED } call_outcome;

typedef struct node_call {
    pc__remote_nodes *nodes;
    const pc__remote_request *request;
    const pc__remote_destination *into; /* or NULL */
    pc__remote_deadline *limit;
    pc__remote_answer *answer;
    pc__remote_node *node, *next; /* next: the target of a redirection */
    call_outcome outcome;         /* of this attempt */
    int asking;                   /* the next attempt sends ASKING */
    int is_stream;                /* the reply is read through into->stream */
    int has_received;             /* this attempt has received bytes */
} node_call;

static int has_code(const char *text, const char *code)
{
    size_t size = strlen(code);
    return !strncmp(text, code, size) && (text[size] == ' ' || !text[size]);
}

/* The first word of an error is its code. */
static call_outcome interpret_error(node_call *c, const char *text)
{
    static const char *const refusals[] = {"CLUSTERDOWN", "LOADING", "MASTERDOWN", "BUSY",
                                           "READONLY",    "NOAUTH",  "WRONGPASS",  "NOPERM",
                                           "NOREPLICAS",  "MISCONF", "UNBLOCKED"};
    int refused = 0;
    if (has_code(text, "MOVED") || has_code(text, "ASK")) {
        pc__remote_node_drop(c->nodes, c->next); /* of an attempt that failed afterwards */
        c->next = pc__remote_nodes_redirect(c->nodes, c->node, text);
        c->asking = text[0] == 'A';
        return c->next ? REDIRECTED : REFUSED;
    }
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        refused |= has_code(text, refusals[i]);
    if (!refused && c->answer->error)
        return ANSWERED;
    pc__fail(PC_ERR_IO, "%s: the server answers %.200s", pc__remote_node_name(c->node), text);
    if (refused)
        return REFUSED;
    c->answer->error = has_code(text, "OOM")         ? PC__REMOTE_OUT_OF_MEMORY
                       : has_code(text, "WRONGTYPE") ? PC__REMOTE_WRONG_TYPE
                       : has_code(text, "TRYAGAIN")  ? PC__REMOTE_SLOT_MOVING
                                                     : PC__REMOTE_OTHER_ERROR;
    return ANSWERED;
}

static void interpret_reply(node_call *c, const pc__remote_reply *reply)
{
    c->answer->nil = 0;
    for (size_t i = 0; i < reply->count; i++) { /* a transaction's replies are one array */
        const pc__remote_reply_item *item = &reply->items[i];
        c->answer->nil |= item->kind == PC__REMOTE_NIL;
        if (item->kind == PC__REMOTE_ERROR && c->outcome == ANSWERED)
            c->outcome = interpret_error(c, pc__remote_reply_text(reply, item));
    }
}

/* The bulk string that has begun. */
static pc_status read_bulk(node_call *c, pc__remote_connection *connection)
{
    size_t size = c->answer->got;
    c->is_stream = c->into->stream != NULL;
    if (c->is_stream)
        return PC_OK;
    if (size > c->into->capacity)
        return pc__fail(PC_ERR_FORMAT, "%s: the server sends %zu bytes, %zu were asked for",
                        pc__remote_node_name(c->node), size, c->into->capacity);
    return pc__remote_connection_bulk_part(connection, c->into->data, size, 1, c->limit);
}

static pc_status read_answer(node_call *c, pc__remote_connection *connection,
                             pc__remote_reply *reply)
{
    pc_status status = PC_MISS;
    if (c->into)
        status = pc__remote_connection_bulk_start(connection, &c->answer->got, reply, c->limit);
    else
        PC__TRY_RETURN(pc__remote_connection_reply(connection, reply, c->limit));
    if (status == PC_OK)
        return read_bulk(c, connection);
    if (status == PC_MISS)
        interpret_reply(c, reply);
    return status < 0 ? status : PC_OK;
}

/* One attempt on one connection. Reads all replies, errors too: the connection stays usable. */
static pc_status exchange(node_call *c, pc__remote_connection *connection)
{
    pc__remote_reply reply = pc__remote_reply_make(c->request->text.mem);
    pc_status status = PC_OK;
    int asking = c->asking;
    c->outcome = ANSWERED;
    memset(c->answer, 0, sizeof *c->answer);
    pc__remote_connection_received(connection);
    if (!asking)
        status = pc__remote_connection_send(connection, c->request, c->limit);
    for (size_t i = 0; i < c->request->count && status == PC_OK; i++) {
        if (asking) {
            PC__TRY(pc__remote_connection_send_asking(connection, c->request, i, c->limit), end);
            PC__TRY(pc__remote_connection_reply(connection, &reply, c->limit), end); /* ASKING's */
        }
        status = read_answer(c, connection, &reply);
        if (status == PC_OK && c->request->on_reply)
            c->request->on_reply(c->request->user, i, &reply);
    }
end:
    c->has_received = pc__remote_connection_received(connection) > 0;
    pc__remote_reply_free(&reply);
    return status;
}

/* On an idle connection, then on a new one: the server may have closed the idle one meanwhile. */
static pc_status try_connections(node_call *c)
{
    for (;;) {
        pc__remote_connection *connection = pc__remote_node_pop_idle(c->nodes, c->node);
        int was_idle = connection != NULL;
        pc_status status;
        if (!was_idle)
            PC__TRY_RETURN(pc__remote_node_connect(c->nodes, c->node, &connection, c->limit));
        status = exchange(c, connection);
        if (status < 0) {
            pc__remote_connection_close(connection);
            if (!was_idle || c->has_received || c->limit->timed_out || status != PC_ERR_IO)
                return status;
            continue;
        }
        if (c->is_stream)
            *c->into->stream = (pc__remote_stream){pc__remote_node_hold(c->nodes, c->node),
                                                   connection, c->answer->got};
        else
            pc__remote_node_release(c->nodes, c->node, connection);
        return PC_OK;
    }
}

static pc_status try_node(node_call *c)
{
    int permit = pc__remote_node_enter(c->nodes, c->node);
    pc_status status;
    if (!permit)
        return pc__fail(PC_ERR_IO, "%s: paused for a while after a failure",
                        pc__remote_node_name(c->node));
    status = try_connections(c);
    if (status == PC_ERR_FORMAT || (status == PC_OK && c->outcome == REFUSED))
        status = PC_ERR_IO; /* FORMAT: the connection is bad, not a record */
    pc__remote_node_report(c->nodes, c->node, permit, status);
    return status;
}

/* Follows redirections. */
static pc_status try_in_turn(node_call *c)
{
    for (int i = 0; i < MAX_REDIRECTIONS; i++) {
        PC__TRY_RETURN(try_node(c));
        if (c->outcome == ANSWERED)
            return PC_OK;
        pc__remote_node_drop(c->nodes, c->node);
        c->node = c->next;
        c->next = NULL;
    }
    return pc__fail(PC_ERR_IO, "%s: redirected more than %d times", pc__remote_node_name(c->node),
                    MAX_REDIRECTIONS);
}

pc_status pc__remote_call(pc__remote_nodes *nodes, uint32_t slot, const pc__remote_request *request,
                          const pc__remote_destination *into, pc__remote_deadline *limit,
                          pc__remote_answer *answer)
{
    node_call c = {
        .nodes = nodes, .request = request, .into = into, .limit = limit, .answer = answer};
    pc_status status;
    memset(answer, 0, sizeof *answer);
    if (request->status < 0)
        return request->status;
    if (pc__now() >= limit->deadline) {
        limit->timed_out = 1;
        return pc__fail(PC_ERR_IO, "remote: the deadline has passed before the server was asked");
    }
    pc__remote_nodes_refresh(nodes, limit);
    c.node = pc__remote_nodes_of_slot(nodes, slot);
    if (!c.node)
        return pc__fail(PC_ERR_IO, "remote: the server is paused for a while after a failure");
    status = try_in_turn(&c);
    pc__remote_node_drop(nodes, c.node);
    pc__remote_node_drop(nodes, c.next);
    return status;
}

pc_status pc__remote_stream_read(pc__remote_nodes *nodes, pc__remote_stream *stream, void *data,
                                 size_t size, pc__remote_deadline *limit)
{
    pc_status status = pc__remote_connection_bulk_part(stream->connection, data, size,
                                                       size == stream->left, limit);
    stream->left -= size;
    if (status == PC_OK && stream->left)
        return PC_OK;
    if (status == PC_OK) {
        pc__remote_node_release(nodes, stream->node, stream->connection);
    } else {
        status = PC_ERR_IO; /* FORMAT: the connection is bad, not a record */
        pc__remote_connection_close(stream->connection);
        pc__remote_node_report(nodes, stream->node, PC__REMOTE_BREAKER_CLOSED, status);
    }
    pc__remote_node_drop(nodes, stream->node);
    memset(stream, 0, sizeof *stream);
    return status;
}

void pc__remote_stream_end(pc__remote_nodes *nodes, pc__remote_stream *stream)
{
    pc__remote_connection_close(stream->connection);
    pc__remote_node_drop(nodes, stream->node);
    memset(stream, 0, sizeof *stream);
}
