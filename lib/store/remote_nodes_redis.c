#include "store/remote_nodes.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "store/remote_breaker.h"
#include "store/remote_resolve.h"
#include "store/remote_slots.h"

enum { IDLE = 16, MAX_NODES = 1024, MAX_HOPS = 8, HOST_BYTES = 256 };
#define IDLE_SECONDS 60.0
#define REFRESH_SECONDS 0.05 /* between two looks at the map of a cluster */

struct pc__node {
    char *host;
    uint16_t port;
    char name[HOST_BYTES + 16];
    pc__resolver *resolver;
    pc__breaker breaker;
    pc__wire *idle[IDLE]; /* [idle_count] the last one used last */
    double rested[IDLE];
    size_t idle_count;
};
typedef struct pc__node node;

struct pc__nodes {
    pc_allocator mem;
    const pc_context *context;
    pc__remote_address address;
    pthread_mutex_t lock; /* guards all below; nodes are only ever added */
    node **items;         /* [count] the seeds first */
    size_t count, capacity;
    uint16_t *slots; /* [PC__SLOTS] number of the node + 1, 0: unknown; NULL: no cluster as far as is known */
    int stale;       /* the map is to be asked for */
    int refreshing;
    double refreshed;
};

static void node_free(const pc_allocator *mem, node *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->idle_count; i++)
        pc__wire_close(n->idle[i]);
    pc__resolver_free(n->resolver);
    pc__free(mem, n->host);
    pc__free(mem, n);
}

/* With the lock held: the node of this name, made if it is new. */
static pc_status find_node(pc__nodes *nodes, const char *host, uint16_t port, size_t *index)
{
    pc_status status;
    node *n;
    for (*index = 0; *index < nodes->count; ++*index)
        if (nodes->items[*index]->port == port && !strcmp(nodes->items[*index]->host, host))
            return PC_OK;
    if (nodes->count == MAX_NODES)
        return pc__fail(PC_ERR_LIMIT, "remote: more than %d nodes", MAX_NODES);
    status = pc__grow(&nodes->mem, (void **)&nodes->items, &nodes->capacity, nodes->count + 1, sizeof(*nodes->items));
    if (status < 0)
        return status;
    if (!(n = pc__calloc(&nodes->mem, 1, sizeof *n)))
        return PC_ERR_NOMEM;
    n->port = port;
    if (port)
        snprintf(n->name, sizeof n->name, strchr(host, ':') ? "[%.255s]:%u" : "%.255s:%u", host, (unsigned)port);
    else
        snprintf(n->name, sizeof n->name, "%.255s", host);
    status = (n->host = pc__strdup(&nodes->mem, host)) ? pc__resolver_new(&n->resolver, &nodes->mem, host, port) : PC_ERR_NOMEM;
    if (status < 0) {
        node_free(&nodes->mem, n);
        return status;
    }
    nodes->items[nodes->count++] = n;
    return PC_OK;
}

pc_status pc__nodes_new(pc__nodes **out, const pc_allocator *mem, const pc_context *context, pc__remote_address *address)
{
    pc_status status = PC_OK;
    size_t index;
    pc__nodes *n = *out = pc__calloc(mem, 1, sizeof *n);
    if (!n) {
        pc__remote_address_free(address);
        return PC_ERR_NOMEM;
    }
    n->mem = *mem;
    n->context = context;
    n->address = *address;
    memset(address, 0, sizeof *address);
    pthread_mutex_init(&n->lock, NULL);
    n->stale = n->address.count > 1;
    for (size_t i = 0; i < n->address.count && status == PC_OK; i++)
        status = find_node(n, n->address.seeds[i].host, n->address.seeds[i].port, &index);
    if (status < 0) {
        pc__nodes_free(n);
        *out = NULL;
    }
    return status;
}

void pc__nodes_free(pc__nodes *nodes)
{
    if (!nodes)
        return;
    for (size_t i = 0; i < nodes->count; i++)
        node_free(&nodes->mem, nodes->items[i]);
    pthread_mutex_destroy(&nodes->lock);
    pc__remote_address_free(&nodes->address);
    pc__free(&nodes->mem, nodes->items);
    pc__free(&nodes->mem, nodes->slots);
    pc__free(&nodes->mem, nodes);
}

/* With the lock held: the node that a slot is asked of; NULL: all that could be are left alone. */
static node *node_of(pc__nodes *nodes, uint32_t slot, double now)
{
    size_t known = nodes->slots ? nodes->slots[slot] : 0;
    if (known) {
        node *n = nodes->items[known - 1];
        return pc__breaker_allows(&n->breaker, now) ? n : NULL;
    }
    for (size_t i = 0; i < nodes->count; i++)
        if (pc__breaker_allows(&nodes->items[i]->breaker, now))
            return nodes->items[i];
    return NULL;
}

int pc__nodes_may_ask(pc__nodes *nodes, uint32_t slot)
{
    int may;
    pthread_mutex_lock(&nodes->lock);
    may = node_of(nodes, slot, pc__now()) != NULL;
    pthread_mutex_unlock(&nodes->lock);
    return may;
}

/* ------------------------------------------------------------ connections */

/* A single answer that has to be "OK". The server's words about a login may hold what it was sent, so that only the first one is repeated. */
static pc_status expect_ok(const node *n, pc__wire *wire, const pc__request *request, const char *what, pc__limit *limit)
{
    pc__reply reply = pc__reply_make(request->text.mem);
    pc_status status = request->status;
    if (status == PC_OK)
        status = pc__wire_send(wire, request, limit);
    if (status == PC_OK)
        status = pc__wire_reply(wire, &reply, limit);
    if (status == PC_OK && (reply.count != 1 || reply.items[0].kind != PC__ITEM_TEXT)) {
        int said = reply.count && reply.items[0].kind == PC__ITEM_ERROR;
        status = pc__fail(PC_ERR_IO, "%s: %s is refused: %.*s", n->name, what, said ? (int)strcspn(pc__reply_text(&reply, &reply.items[0]), " ") : 0,
                          said ? pc__reply_text(&reply, &reply.items[0]) : "");
    }
    pc__reply_free(&reply);
    return status;
}

static pc_status log_in(const pc__nodes *nodes, const node *n, pc__wire *wire, pc__limit *limit)
{
    const pc__remote_address *a = &nodes->address;
    pc__request request = pc__request_make(&nodes->mem);
    pc_status status = PC_OK;
    if (a->password) {
        pc__request_command(&request, a->user ? 3 : 2);
        pc__request_text(&request, "AUTH");
        if (a->user)
            pc__request_text(&request, a->user);
        pc__request_value(&request, a->password, strlen(a->password)); /* not copied */
        status = expect_ok(n, wire, &request, "the login", limit);
        pc__request_free(&request);
        request = pc__request_make(&nodes->mem);
    }
    if (status == PC_OK && a->database) {
        pc__request_command(&request, 2);
        pc__request_text(&request, "SELECT");
        pc__request_number(&request, a->database);
        status = expect_ok(n, wire, &request, "the database", limit);
        pc__request_free(&request);
    }
    return status;
}

static pc_status connect_node(pc__nodes *nodes, node *n, pc__wire **out, pc__limit *limit)
{
    pc__place place;
    pc_status status = pc__resolver_get(n->resolver, &place, limit);
    if (status < 0)
        return status;
    status = pc__wire_open(out, &nodes->mem, &place, n->name, limit);
    if (status < 0) {
        pc__resolver_forget(n->resolver);
        return status;
    }
    status = log_in(nodes, n, *out, limit);
    if (status < 0) {
        pc__wire_close(*out);
        *out = NULL;
    }
    return status;
}

/* A connection that has rested; NULL: none that is good. */
static pc__wire *take_idle(pc__nodes *nodes, node *n)
{
    for (;;) {
        pc__wire *wire = NULL;
        pthread_mutex_lock(&nodes->lock);
        if (n->idle_count)
            wire = n->idle[--n->idle_count];
        pthread_mutex_unlock(&nodes->lock);
        if (!wire || pc__wire_is_good(wire))
            return wire;
        pc__wire_close(wire);
    }
}

static void give_back(pc__nodes *nodes, node *n, pc__wire *wire)
{
    int kept;
    pthread_mutex_lock(&nodes->lock);
    kept = n->idle_count < IDLE;
    if (kept) {
        n->rested[n->idle_count] = pc__now();
        n->idle[n->idle_count++] = wire;
    }
    pthread_mutex_unlock(&nodes->lock);
    if (!kept)
        pc__wire_close(wire);
}

void pc__nodes_sweep(pc__nodes *nodes)
{
    pc__wire *old[IDLE];
    for (size_t i = 0;; i++) {
        size_t count = 0;
        node *n = NULL;
        pthread_mutex_lock(&nodes->lock);
        if (i < nodes->count)
            n = nodes->items[i];
        while (n && count < n->idle_count && pc__now() - n->rested[count] > IDLE_SECONDS) {
            old[count] = n->idle[count]; /* the first have rested longest */
            count++;
        }
        if (count) {
            n->idle_count -= count;
            memmove(n->idle, n->idle + count, n->idle_count * sizeof(*n->idle));
            memmove(n->rested, n->rested + count, n->idle_count * sizeof *n->rested);
        }
        pthread_mutex_unlock(&nodes->lock);
        for (size_t j = 0; j < count; j++)
            pc__wire_close(old[j]);
        if (!n)
            return;
    }
}

/* ---------------------------------------------------------------- answers */

typedef enum verdict { FINE, ELSEWHERE, NOT_NOW } verdict;

typedef struct errand { /* one call */
    const pc__request *request;
    const pc__into *into; /* or NULL */
    pc__limit *limit;
    pc__answer *answer;
    node *at, *next;  /* next: where a redirection points */
    int asking;       /* the next try sends ASKING */
    int is_stream;    /* the answer has begun */
    int was_told;     /* something of this try's answers has come */
} errand;

static int begins(const char *text, const char *word)
{
    size_t size = strlen(word);
    return !strncmp(text, word, size) && (text[size] == ' ' || !text[size]);
}

/* MOVED and ASK: where to. */
static verdict redirect(pc__nodes *nodes, errand *e, const char *text, int moved)
{
    char host[HOST_BYTES];
    uint16_t port;
    uint32_t slot;
    size_t index;
    pc_status status;
    if (!pc__slot_parse(text, &slot, host, &port)) {
        pc__fail(PC_ERR_IO, "%s: a redirection to nowhere", e->at->name);
        return NOT_NOW;
    }
    pthread_mutex_lock(&nodes->lock);
    status = find_node(nodes, host[0] ? host : e->at->host, port, &index);
    if (moved && !nodes->slots)
        nodes->slots = pc__calloc(&nodes->mem, PC__SLOTS, sizeof *nodes->slots); /* without it the next call is redirected too */
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
    static const char *const later[] = {"CLUSTERDOWN", "LOADING", "MASTERDOWN", "BUSY",    "READONLY", "NOAUTH",
                                        "WRONGPASS",   "NOPERM",  "NOREPLICAS", "MISCONF", "UNBLOCKED"};
    if (begins(text, "MOVED") || begins(text, "ASK"))
        return redirect(nodes, e, strchr(text, ' ') ? strchr(text, ' ') + 1 : "", text[0] == 'M');
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (begins(text, later[i])) {
            pthread_mutex_lock(&nodes->lock);
            nodes->stale |= nodes->slots != NULL; /* a node that has lost its part says so in one of these ways */
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

static pc_status read_answer(pc__nodes *nodes, errand *e, pc__wire *wire, pc__reply *reply, verdict *said)
{
    pc_status status;
    verdict now;
    if (e->into) {
        if (e->into->stream)
            status = pc__wire_bulk_start(wire, &e->answer->got, reply, e->limit);
        else
            status = pc__wire_bulk(wire, e->into->data, e->into->capacity, &e->answer->got, reply, e->limit);
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

/* One try over one connection. All answers are read whatever they say, so that the connection stays good. */
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

/* ------------------------------------------------------------------ a try */

static void tell(pc__nodes *nodes, const node *n, int changed, int ok, double wait)
{
    if (!changed || !nodes->context)
        return;
    if (ok)
        pc__log(nodes->context, PC_LOG_INFO, "remote: %s answers again", n->name);
    else
        pc__log(nodes->context, PC_LOG_WARN, "remote: %s (left alone for %.1f s)", pc_error_text(), wait);
}

static void settle(pc__nodes *nodes, node *n, int entered, int ok)
{
    pc__wire *idle[IDLE];
    size_t count = 0;
    int changed;
    double wait;
    pthread_mutex_lock(&nodes->lock);
    changed = pc__breaker_done(&n->breaker, entered, ok, pc__now(), (double)randombytes_random() / 4294967296.0);
    wait = n->breaker.wait;
    if (!ok) {
        nodes->stale |= nodes->slots != NULL;
        count = n->idle_count; /* they were opened to what does not answer any more */
        memcpy(idle, n->idle, count * sizeof(*idle));
        n->idle_count = 0;
    }
    pthread_mutex_unlock(&nodes->lock);
    for (size_t i = 0; i < count; i++)
        pc__wire_close(idle[i]);
    tell(nodes, n, changed, ok, wait);
}

/* One try at a node: PC_OK with what was said. A connection that had rested may have been closed by the server meanwhile: then a new one is tried. */
static pc_status try_node(pc__nodes *nodes, errand *e, verdict *said)
{
    node *n = e->at;
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
        pc__wire *wire = take_idle(nodes, n);
        int rested = wire != NULL;
        status = wire ? PC_OK : connect_node(nodes, n, &wire, e->limit);
        if (status < 0)
            break;
        status = exchange(nodes, e, wire, said);
        if (status >= 0 && e->is_stream)
            *e->into->stream = (pc__stream){n, wire, e->answer->got};
        else if (status >= 0)
            give_back(nodes, n, wire);
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
    settle(nodes, n, entered, status >= 0 && *said != NOT_NOW);
    return status >= 0 && *said == NOT_NOW ? PC_ERR_IO : status;
}

/* ------------------------------------------------------ the map of a cluster */

/* One entry of CLUSTER SLOTS, at items[*at]: [first, last, [host, port, …] of the master, then of its replicas]. */
static pc_status read_range(pc__nodes *nodes, const pc__reply *reply, size_t *at, const node *asked, uint16_t *slots)
{
    const pc__reply_item *i = &reply->items[*at];
    size_t end = *at + 1, index;
    const char *host;
    pc_status status;
    for (size_t left = i->elements; left && end < reply->count; left--) /* where the entry ends: arrays in it count with their elements */
        for (size_t inside = 1; inside && end < reply->count; end++)
            inside = inside + reply->items[end].elements - 1;
    if (i->kind != PC__ITEM_ARRAY || i->elements < 3 || reply->count - *at < 6 || i[1].kind != PC__ITEM_INTEGER || i[2].kind != PC__ITEM_INTEGER
        || i[3].kind != PC__ITEM_ARRAY || i[3].elements < 2 || i[5].kind != PC__ITEM_INTEGER || i[1].integer < 0
        || i[2].integer >= PC__SLOTS || i[5].integer <= 0 || i[5].integer > 65535)
        return pc__fail(PC_ERR_IO, "%s: CLUSTER SLOTS is not understood", asked->name);
    host = i[4].kind == PC__ITEM_TEXT && i[4].size ? pc__reply_text(reply, &i[4]) : asked->host;
    status = find_node(nodes, host, (uint16_t)i[5].integer, &index);
    for (int64_t s = i[1].integer; status == PC_OK && s <= i[2].integer; s++)
        slots[s] = (uint16_t)(index + 1);
    *at = end;
    return status;
}

static pc_status read_map(pc__nodes *nodes, const pc__reply *reply, const node *asked)
{
    uint16_t *slots;
    pc_status status = PC_OK;
    size_t at = 1;
    if (reply->items[0].kind == PC__ITEM_ERROR) { /* no cluster: one server under several addresses */
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
static pc_status ask_map(pc__nodes *nodes, node *n, pc__limit *limit)
{
    pc__request request = pc__request_make(&nodes->mem);
    pc__reply reply = pc__reply_make(&nodes->mem);
    pc__wire *wire = take_idle(nodes, n);
    pc_status status = PC_OK;
    pc__request_command(&request, 2);
    pc__request_text(&request, "CLUSTER");
    pc__request_text(&request, "SLOTS");
    PC__TRY(request.status, end);
    if (!wire)
        PC__TRY(connect_node(nodes, n, &wire, limit), end);
    PC__TRY(pc__wire_send(wire, &request, limit), end);
    PC__TRY(pc__wire_reply(wire, &reply, limit), end);
    pthread_mutex_lock(&nodes->lock);
    status = read_map(nodes, &reply, n);
    pthread_mutex_unlock(&nodes->lock);
    give_back(nodes, n, wire);
    wire = NULL;
end:
    pc__wire_close(wire);
    pc__reply_free(&reply);
    pc__request_free(&request);
    return status;
}

/* Asks the nodes in turn for the map, if that is due. Nothing depends on success: the old map leads to a redirection at worst. */
static void refresh(pc__nodes *nodes, const pc__limit *limit)
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
        pc__limit part = {now + (limit->deadline - now) / 3, 0}; /* a node that hangs leaves time for another */
        pc_status status;
        int entered;
        node *n;
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
        settle(nodes, n, entered, status >= 0);
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

pc_status pc__nodes_call(pc__nodes *nodes, uint32_t slot, const pc__request *request, const pc__into *into, pc__limit *limit, pc__answer *answer)
{
    errand e = {.request = request, .into = into, .limit = limit, .answer = answer};
    memset(answer, 0, sizeof *answer);
    if (request->status < 0)
        return request->status;
    if (pc__now() >= limit->deadline) {
        limit->timed_out = 1;
        return pc__fail(PC_ERR_IO, "remote: the deadline has passed before the server was asked");
    }
    refresh(nodes, limit);
    pthread_mutex_lock(&nodes->lock);
    e.at = node_of(nodes, slot, pc__now());
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

pc_status pc__nodes_stream_read(pc__nodes *nodes, pc__stream *stream, void *data, size_t size, pc__limit *limit)
{
    pc_status status = pc__wire_bulk_part(stream->wire, data, size, limit);
    stream->left -= size;
    if (status == PC_OK && !stream->left)
        status = pc__wire_bulk_end(stream->wire, limit);
    if (status == PC_OK && stream->left)
        return status;
    if (status == PC_OK)
        give_back(nodes, stream->node, stream->wire);
    else {
        pc__wire_close(stream->wire);
        settle(nodes, stream->node, PC__BREAKER_OPEN_WAY, 0);
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
