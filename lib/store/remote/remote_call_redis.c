/* One call: its tries, where redirections lead, what the server's errors mean. */
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "store/remote/remote_nodes_body.h"
#include "store/remote/remote_slots.h"

enum { MAX_HOPS = 8 };

typedef enum verdict { FINE, ELSEWHERE, NOT_NOW } verdict;

typedef struct errand { /* one call */
    const pc__request *request;
    const pc__into *into; /* or NULL */
    pc__limit *limit;
    pc__answer *answer;
    pc__node *at, *next; /* next: where a redirection points */
    int asking;          /* the next try sends ASKING */
    int is_stream;       /* the answer has begun */
    int was_told;        /* something of this try's answers has come */
} errand;

static int begins(const char *text, const char *word)
{
    size_t size = strlen(word);
    return !strncmp(text, word, size) && (text[size] == ' ' || !text[size]);
}

/* MOVED and ASK: where to. */
static verdict redirect(pc__nodes *nodes, errand *e, const char *text, int moved)
{
    char host[PC__NODE_HOST];
    uint16_t port;
    uint32_t slot;
    size_t index;
    pc_status status;
    if (!pc__slot_parse(text, &slot, host, &port)) {
        pc__fail(PC_ERR_IO, "%s: a redirection to nowhere", e->at->name);
        return NOT_NOW;
    }
    pthread_mutex_lock(&nodes->lock);
    status = pc__node_find(nodes, host[0] ? host : e->at->host, port, &index);
    if (moved && !nodes->slots)
        nodes->slots = pc__calloc(
            &nodes->mem, PC__SLOTS,
            sizeof *nodes->slots); /* without it the next call is redirected too */
    if (moved && status == PC_OK && nodes->slots)
        nodes->slots[slot] = (uint16_t)(index + 1);
    if (moved)
        nodes->stale = 1;
    e->next = status == PC_OK ? nodes->items[index] : NULL;
    pthread_mutex_unlock(&nodes->lock);
    e->asking = !moved;
    return status == PC_OK ? ELSEWHERE : NOT_NOW;
}

/* What an error of the server means. The first word is the code. */
static verdict judge(pc__nodes *nodes, errand *e, const char *text)
{
    static const char *const later[] = {"CLUSTERDOWN", "LOADING", "MASTERDOWN", "BUSY",
                                        "READONLY",    "NOAUTH",  "WRONGPASS",  "NOPERM",
                                        "NOREPLICAS",  "MISCONF", "UNBLOCKED"};
    if (begins(text, "MOVED") || begins(text, "ASK"))
        return redirect(nodes, e, strchr(text, ' ') ? strchr(text, ' ') + 1 : "", text[0] == 'M');
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (begins(text, later[i])) {
            pthread_mutex_lock(&nodes->lock);
            nodes->stale |=
                nodes->slots
                != NULL; /* a node that has lost its part says so in one of these ways */
            pthread_mutex_unlock(&nodes->lock);
            pc__fail(PC_ERR_IO, "%s: the server says %.200s", e->at->name, text);
            return NOT_NOW;
        }
    if (e->answer->says == PC__SAYS_NOTHING) {
        e->answer->says = begins(text, "OOM")         ? PC__SAYS_FULL
                          : begins(text, "WRONGTYPE") ? PC__SAYS_OTHER_TYPE
                          : begins(text, "TRYAGAIN")  ? PC__SAYS_MOVING
                                                      : PC__SAYS_ERROR;
        pc__fail(PC_ERR_IO, "%s: the server says %.200s", e->at->name, text);
    }
    return FINE;
}

static verdict take_reply(pc__nodes *nodes, errand *e, const pc__reply *reply)
{
    verdict said = FINE;
    e->answer->nil = 0;
    for (size_t i = 0; i < reply->count; i++) { /* those of a transaction come as one array */
        const pc__reply_item *item = &reply->items[i];
        e->answer->nil |= item->kind == PC__ITEM_NIL;
        if (item->kind == PC__ITEM_ERROR && said == FINE)
            said = judge(nodes, e, pc__reply_text(reply, item));
    }
    return said;
}

static pc_status read_answer(pc__nodes *nodes, errand *e, pc__wire *wire, pc__reply *reply,
                             verdict *said)
{
    pc_status status;
    verdict now;
    if (e->into) {
        if (e->into->stream)
            status = pc__wire_bulk_start(wire, &e->answer->got, reply, e->limit);
        else
            status = pc__wire_bulk(wire, e->into->data, e->into->capacity, &e->answer->got, reply,
                                   e->limit);
        e->is_stream = status == PC_OK && e->into->stream;
        if (status != PC_MISS)
            return status;
    } else {
        status = pc__wire_reply(wire, reply, e->limit);
        if (status < 0)
            return status;
    }
    now = take_reply(nodes, e, reply);
    if (*said == FINE)
        *said = now;
    return PC_OK;
}

/* One try over one connection. All answers are read whatever they say, so that the connection stays
 * good. */
static pc_status exchange(pc__nodes *nodes, errand *e, pc__wire *wire, verdict *said)
{
    pc__reply reply = pc__reply_make(&nodes->mem);
    const pc__request *r = e->request;
    pc_status status = PC_OK;
    int asking = e->asking;
    *said = FINE;
    memset(e->answer, 0, sizeof *e->answer);
    pc__wire_heard(wire);
    if (!asking)
        status = pc__wire_send(wire, r, e->limit);
    for (size_t i = 0; i < r->count && status == PC_OK; i++) {
        if (asking) {
            PC__TRY(pc__wire_send_asking(wire, r, i, e->limit), end);
            PC__TRY(pc__wire_reply(wire, &reply, e->limit), end); /* of ASKING */
        }
        status = read_answer(nodes, e, wire, &reply, said);
    }
end:
    e->was_told = pc__wire_heard(wire) > 0;
    pc__reply_free(&reply);
    return status;
}

/* One try at a node: PC_OK with what was said. A connection that had rested may have been closed by
 * the server meanwhile: then a new one is tried. */
static pc_status try_node(pc__nodes *nodes, errand *e, verdict *said)
{
    pc__node *n = e->at;
    pc_status status;
    int entered;
    pthread_mutex_lock(&nodes->lock);
    entered = pc__breaker_enter(&n->breaker, pc__now());
    pthread_mutex_unlock(&nodes->lock);
    if (!entered) {
        e->answer->left_alone = 1;
        return pc__fail(PC_ERR_IO, "%s: left alone for a while after a failure", n->name);
    }
    for (;;) {
        pc__wire *wire = pc__node_take_idle(nodes, n);
        int rested = wire != NULL;
        status = wire ? PC_OK : pc__node_connect(nodes, n, &wire, e->limit);
        if (status < 0)
            break;
        status = exchange(nodes, e, wire, said);
        if (status >= 0 && e->is_stream)
            *e->into->stream = (pc__stream){n, wire, e->answer->got};
        else if (status >= 0)
            pc__node_give_back(nodes, n, wire);
        if (status >= 0)
            break;
        pc__wire_close(wire);
        if (!rested || e->was_told || e->limit->timed_out || status != PC_ERR_IO)
            break;
    }
    if (status == PC_ERR_NOMEM) {
        pthread_mutex_lock(&nodes->lock);
        pc__breaker_leave(&n->breaker, entered);
        pthread_mutex_unlock(&nodes->lock);
        return status;
    }
    if (status == PC_ERR_FORMAT)
        status = PC_ERR_IO; /* of the connection, not of a record */
    pc__node_settle(nodes, n, entered, status >= 0 && *said != NOT_NOW);
    return status >= 0 && *said == NOT_NOW ? PC_ERR_IO : status;
}

pc_status pc__nodes_call(pc__nodes *nodes, uint32_t slot, const pc__request *request,
                         const pc__into *into, pc__limit *limit, pc__answer *answer)
{
    errand e = {.request = request, .into = into, .limit = limit, .answer = answer};
    memset(answer, 0, sizeof *answer);
    if (request->status < 0)
        return request->status;
    if (pc__now() >= limit->deadline) {
        limit->timed_out = 1;
        return pc__fail(PC_ERR_IO, "remote: the deadline has passed before the server was asked");
    }
    pc__cluster_refresh(nodes, limit);
    pthread_mutex_lock(&nodes->lock);
    e.at = pc__node_of_slot(nodes, slot, pc__now());
    pthread_mutex_unlock(&nodes->lock);
    if (!e.at) {
        answer->left_alone = 1;
        return pc__fail(PC_ERR_IO, "remote: the server is left alone for a while after a failure");
    }
    for (int hop = 0; hop < MAX_HOPS; hop++) {
        verdict said = FINE;
        pc_status status = try_node(nodes, &e, &said);
        if (status < 0 || said == FINE)
            return status;
        e.at = e.next;
    }
    return pc__fail(PC_ERR_IO, "%s: redirected more than %d times", e.at->name, MAX_HOPS);
}

pc_status pc__nodes_stream_read(pc__nodes *nodes, pc__stream *stream, void *data, size_t size,
                                pc__limit *limit)
{
    pc_status status = pc__wire_bulk_part(stream->wire, data, size, limit);
    stream->left -= size;
    if (status == PC_OK && !stream->left)
        status = pc__wire_bulk_end(stream->wire, limit);
    if (status == PC_OK && stream->left)
        return status;
    if (status == PC_OK)
        pc__node_give_back(nodes, stream->node, stream->wire);
    else {
        pc__wire_close(stream->wire);
        pc__node_settle(nodes, stream->node, PC__BREAKER_OPEN_WAY, 0);
        status = PC_ERR_IO; /* FORMAT: of the connection, not of a record */
    }
    memset(stream, 0, sizeof *stream);
    return status;
}

void pc__nodes_stream_end(pc__nodes *nodes, pc__stream *stream)
{
    (void)nodes;
    pc__wire_close(stream->wire); /* what is still to come on it is of no use */
    memset(stream, 0, sizeof *stream);
}
