/* One call: its tries, where redirections lead, what the server's errors mean. */
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "store/remote/remote_nodes_internal.h"
#include "store/remote/remote_slots.h"

enum { MAX_HOPS = 8 };

typedef enum call_outcome { ANSWERED, REDIRECTED, REFUSED } call_outcome;

typedef struct node_call { /* one call */
    const pc__remote_request *request;
    const pc__remote_destination *into; /* or NULL */
    pc__remote_deadline *limit;
    pc__remote_answer *answer;
    pc__remote_node *at, *next; /* next: where a redirection points */
    int asking;                 /* the next try sends ASKING */
    int is_stream;              /* the answer has begun */
    int has_received;           /* something of this try's answers has come */
} node_call;

static int has_code(const char *text, const char *word)
{
    size_t size = strlen(word);
    return !strncmp(text, word, size) && (text[size] == ' ' || !text[size]);
}

/* MOVED and ASK: where to. */
static call_outcome redirect(pc__remote_nodes *nodes, node_call *e, const char *text, int moved)
{
    char server[PC__REMOTE_SERVER_NAME];
    uint16_t port;
    uint32_t slot;
    size_t index;
    pc_status status;
    if (!pc__remote_slot_parse(text, &slot, server, &port)) {
        pc__fail(PC_ERR_IO, "%s: a redirection to nowhere", e->at->name);
        return REFUSED;
    }
    pthread_mutex_lock(&nodes->lock);
    status = pc__remote_node_get(nodes, server[0] ? server : e->at->server, port, &index);
    if (moved && !nodes->slots)
        nodes->slots = pc__calloc(
            &nodes->mem, PC__REMOTE_SLOTS,
            sizeof *nodes->slots); /* without it the next call is redirected too */
    if (moved && status == PC_OK && nodes->slots)
        nodes->slots[slot] = (uint16_t)(index + 1);
    if (moved)
        nodes->stale = 1;
    e->next = status == PC_OK ? nodes->items[index] : NULL;
    pthread_mutex_unlock(&nodes->lock);
    e->asking = !moved;
    return status == PC_OK ? REDIRECTED : REFUSED;
}

/* What an error of the server means. The first word is the code. */
static call_outcome interpret_error(pc__remote_nodes *nodes, node_call *e, const char *text)
{
    static const char *const later[] = {"CLUSTERDOWN", "LOADING", "MASTERDOWN", "BUSY",
                                        "READONLY",    "NOAUTH",  "WRONGPASS",  "NOPERM",
                                        "NOREPLICAS",  "MISCONF", "UNBLOCKED"};
    if (has_code(text, "MOVED") || has_code(text, "ASK"))
        return redirect(nodes, e, strchr(text, ' ') ? strchr(text, ' ') + 1 : "", text[0] == 'M');
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (has_code(text, later[i])) {
            pthread_mutex_lock(&nodes->lock);
            nodes->stale |=
                nodes->slots
                != NULL; /* a node that has lost its part says so in one of these ways */
            pthread_mutex_unlock(&nodes->lock);
            pc__fail(PC_ERR_IO, "%s: the server says %.200s", e->at->name, text);
            return REFUSED;
        }
    if (e->answer->error == PC__REMOTE_NO_ERROR) {
        e->answer->error = has_code(text, "OOM")         ? PC__REMOTE_OUT_OF_MEMORY
                           : has_code(text, "WRONGTYPE") ? PC__REMOTE_WRONG_TYPE
                           : has_code(text, "TRYAGAIN")  ? PC__REMOTE_SLOT_MOVING
                                                         : PC__REMOTE_OTHER_ERROR;
        pc__fail(PC_ERR_IO, "%s: the server says %.200s", e->at->name, text);
    }
    return ANSWERED;
}

static call_outcome interpret_reply(pc__remote_nodes *nodes, node_call *e,
                                    const pc__remote_reply *reply)
{
    call_outcome outcome = ANSWERED;
    e->answer->nil = 0;
    for (size_t i = 0; i < reply->count; i++) { /* those of a transaction come as one array */
        const pc__remote_reply_item *item = &reply->items[i];
        e->answer->nil |= item->kind == PC__REMOTE_NIL;
        if (item->kind == PC__REMOTE_ERROR && outcome == ANSWERED)
            outcome = interpret_error(nodes, e, pc__remote_reply_text(reply, item));
    }
    return outcome;
}

static pc_status read_answer(pc__remote_nodes *nodes, node_call *e,
                             pc__remote_connection *connection, pc__remote_reply *reply,
                             call_outcome *outcome)
{
    pc_status status;
    call_outcome now;
    if (e->into) {
        if (e->into->stream)
            status = pc__remote_connection_bulk_start(connection, &e->answer->got, reply, e->limit);
        else
            status = pc__remote_connection_bulk(connection, e->into->data, e->into->capacity,
                                                &e->answer->got, reply, e->limit);
        e->is_stream = status == PC_OK && e->into->stream;
        if (status != PC_MISS)
            return status;
    } else {
        status = pc__remote_connection_reply(connection, reply, e->limit);
        if (status < 0)
            return status;
    }
    now = interpret_reply(nodes, e, reply);
    if (*outcome == ANSWERED)
        *outcome = now;
    return PC_OK;
}

/* One try over one connection. All answers are read whatever they say, so that the connection stays
 * good. */
static pc_status exchange(pc__remote_nodes *nodes, node_call *e, pc__remote_connection *connection,
                          call_outcome *outcome)
{
    pc__remote_reply reply = pc__remote_reply_make(&nodes->mem);
    const pc__remote_request *r = e->request;
    pc_status status = PC_OK;
    int asking = e->asking;
    *outcome = ANSWERED;
    memset(e->answer, 0, sizeof *e->answer);
    pc__remote_connection_received(connection);
    if (!asking)
        status = pc__remote_connection_send(connection, r, e->limit);
    for (size_t i = 0; i < r->count && status == PC_OK; i++) {
        if (asking) {
            PC__TRY(pc__remote_connection_send_asking(connection, r, i, e->limit), end);
            PC__TRY(pc__remote_connection_reply(connection, &reply, e->limit), end); /* of ASKING */
        }
        status = read_answer(nodes, e, connection, &reply, outcome);
    }
end:
    e->has_received = pc__remote_connection_received(connection) > 0;
    pc__remote_reply_free(&reply);
    return status;
}

/* One try at a node: PC_OK with what was said. A connection that had rested may have been closed by
 * the server meanwhile: then a new one is tried. */
static pc_status try_node(pc__remote_nodes *nodes, node_call *e, call_outcome *outcome)
{
    pc__remote_node *n = e->at;
    pc_status status;
    int permit;
    pthread_mutex_lock(&nodes->lock);
    permit = pc__remote_breaker_enter(&n->breaker, pc__now());
    pthread_mutex_unlock(&nodes->lock);
    if (!permit) {
        e->answer->not_tried = 1;
        return pc__fail(PC_ERR_IO, "%s: left alone for a while after a failure", n->name);
    }
    for (;;) {
        pc__remote_connection *connection = pc__remote_node_pop_idle(nodes, n);
        int was_idle = connection != NULL;
        status = connection ? PC_OK : pc__remote_node_connect(nodes, n, &connection, e->limit);
        if (status < 0)
            break;
        status = exchange(nodes, e, connection, outcome);
        if (status >= 0 && e->is_stream)
            *e->into->stream = (pc__remote_stream){n, connection, e->answer->got};
        else if (status >= 0)
            pc__remote_node_release(nodes, n, connection);
        if (status >= 0)
            break;
        pc__remote_connection_close(connection);
        if (!was_idle || e->has_received || e->limit->timed_out || status != PC_ERR_IO)
            break;
    }
    if (status == PC_ERR_NOMEM) {
        pthread_mutex_lock(&nodes->lock);
        pc__remote_breaker_cancel(&n->breaker, permit);
        pthread_mutex_unlock(&nodes->lock);
        return status;
    }
    if (status == PC_ERR_FORMAT)
        status = PC_ERR_IO; /* of the connection, not of a record */
    pc__remote_node_report(nodes, n, permit, status >= 0 && *outcome != REFUSED);
    return status >= 0 && *outcome == REFUSED ? PC_ERR_IO : status;
}

pc_status pc__remote_nodes_call(pc__remote_nodes *nodes, uint32_t slot,
                                const pc__remote_request *request,
                                const pc__remote_destination *into, pc__remote_deadline *limit,
                                pc__remote_answer *answer)
{
    node_call e = {.request = request, .into = into, .limit = limit, .answer = answer};
    memset(answer, 0, sizeof *answer);
    if (request->status < 0)
        return request->status;
    if (pc__now() >= limit->deadline) {
        limit->timed_out = 1;
        return pc__fail(PC_ERR_IO, "remote: the deadline has passed before the server was asked");
    }
    pc__remote_slots_refresh(nodes, limit);
    pthread_mutex_lock(&nodes->lock);
    e.at = pc__remote_node_of_slot(nodes, slot, pc__now());
    pthread_mutex_unlock(&nodes->lock);
    if (!e.at) {
        answer->not_tried = 1;
        return pc__fail(PC_ERR_IO, "remote: the server is left alone for a while after a failure");
    }
    for (int hop = 0; hop < MAX_HOPS; hop++) {
        call_outcome outcome = ANSWERED;
        pc_status status = try_node(nodes, &e, &outcome);
        if (status < 0 || outcome == ANSWERED)
            return status;
        e.at = e.next;
    }
    return pc__fail(PC_ERR_IO, "%s: redirected more than %d times", e.at->name, MAX_HOPS);
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
        status = PC_ERR_IO; /* FORMAT: of the connection, not of a record */
    }
    memset(stream, 0, sizeof *stream);
    return status;
}

void pc__remote_stream_end(pc__remote_nodes *nodes, pc__remote_stream *stream)
{
    (void)nodes;
    pc__remote_connection_close(stream->connection); /* what is still to come on it is of no use */
    memset(stream, 0, sizeof *stream);
}
