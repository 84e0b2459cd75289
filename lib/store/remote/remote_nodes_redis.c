/* The nodes themselves and the connections to them. */
#include "store/remote/remote_nodes_body.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"

enum { MAX_NODES = 1024 };
#define IDLE_SECONDS 60.0

static void node_free(const pc_allocator *mem, pc__node *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->idle_count; i++)
        pc__wire_close(n->idle[i]);
    pc__resolver_free(n->resolver);
    pc__free(mem, n->host);
    pc__free(mem, n);
}

pc_status pc__node_find(pc__nodes *nodes, const char *host, uint16_t port, size_t *index)
{
    pc_status status;
    pc__node *n;
    for (*index = 0; *index < nodes->count; ++*index)
        if (nodes->items[*index]->port == port && !strcmp(nodes->items[*index]->host, host))
            return PC_OK;
    if (nodes->count == MAX_NODES)
        return pc__fail(PC_ERR_LIMIT, "remote: more than %d nodes", MAX_NODES);
    status = pc__grow(&nodes->mem, (void **)&nodes->items, &nodes->capacity, nodes->count + 1,
                      sizeof(*nodes->items));
    if (status < 0)
        return status;
    if (!(n = pc__calloc(&nodes->mem, 1, sizeof *n)))
        return PC_ERR_NOMEM;
    n->port = port;
    if (port)
        snprintf(n->name, sizeof n->name, strchr(host, ':') ? "[%.255s]:%u" : "%.255s:%u", host,
                 (unsigned)port);
    else
        snprintf(n->name, sizeof n->name, "%.255s", host);
    status = (n->host = pc__strdup(&nodes->mem, host))
                 ? pc__resolver_new(&n->resolver, &nodes->mem, host, port)
                 : PC_ERR_NOMEM;
    if (status < 0) {
        node_free(&nodes->mem, n);
        return status;
    }
    nodes->items[nodes->count++] = n;
    return PC_OK;
}

pc_status pc__nodes_new(pc__nodes **out, const pc_allocator *mem, const pc_context *context,
                        pc__remote_address *address)
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
    if (n->address.tls.wanted)
        status = pc__tls_new(&n->tls, mem, &n->address.tls);
    if (status == PC_OK && n->address.tls.insecure && context)
        pc__log(context, PC_LOG_WARN,
                "remote: insecure=1: certificates of servers are not checked");
    for (size_t i = 0; i < n->address.count && status == PC_OK; i++)
        status = pc__node_find(n, n->address.seeds[i].host, n->address.seeds[i].port, &index);
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
    pc__tls_free(nodes->tls);
    pthread_mutex_destroy(&nodes->lock);
    pc__remote_address_free(&nodes->address);
    pc__free(&nodes->mem, nodes->items);
    pc__free(&nodes->mem, nodes->slots);
    pc__free(&nodes->mem, nodes);
}

pc__node *pc__node_of_slot(pc__nodes *nodes, uint32_t slot, double now)
{
    size_t known = nodes->slots ? nodes->slots[slot] : 0;
    if (known) {
        pc__node *n = nodes->items[known - 1];
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
    may = pc__node_of_slot(nodes, slot, pc__now()) != NULL;
    pthread_mutex_unlock(&nodes->lock);
    return may;
}

/* ------------------------------------------------------------ connections */

/* A single answer that has to be "OK". The server's words about a login may hold what it was sent,
 * so that only the first one is repeated. */
static pc_status expect_ok(const pc__node *n, pc__wire *wire, const pc__request *request,
                           const char *what, pc__limit *limit)
{
    pc__reply reply = pc__reply_make(request->text.mem);
    pc_status status = request->status;
    if (status == PC_OK)
        status = pc__wire_send(wire, request, limit);
    if (status == PC_OK)
        status = pc__wire_reply(wire, &reply, limit);
    if (status == PC_OK && (reply.count != 1 || reply.items[0].kind != PC__ITEM_TEXT)) {
        int said = reply.count && reply.items[0].kind == PC__ITEM_ERROR;
        status = pc__fail(PC_ERR_IO, "%s: %s is refused: %.*s", n->name, what,
                          said ? (int)strcspn(pc__reply_text(&reply, &reply.items[0]), " ") : 0,
                          said ? pc__reply_text(&reply, &reply.items[0]) : "");
    }
    pc__reply_free(&reply);
    return status;
}

static pc_status log_in(const pc__nodes *nodes, const pc__node *n, pc__wire *wire, pc__limit *limit)
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

/* To the first address that answers: a name may have some that the server does not listen on, as
 * `localhost` often has ::1 before 127.0.0.1. */
static pc_status open_wire(const pc__nodes *nodes, const pc__node *n, pc__wire **out,
                           pc__limit *limit)
{
    pc_status status = PC_OK;
    int others = 1;
    for (size_t i = 0; i < PC__RESOLVER_MOST && others; i++) {
        pc__place place;
        status = pc__resolver_get(n->resolver, &place, limit);
        if (status < 0)
            return status;
        status = pc__wire_open(out, &nodes->mem, &place, n->name, nodes->tls, n->host, limit);
        if (status == PC_OK)
            pc__resolver_answered(n->resolver);
        others = status < 0 && pc__resolver_failed(n->resolver, &place) && !limit->timed_out;
    }
    return status;
}

pc_status pc__node_connect(pc__nodes *nodes, pc__node *n, pc__wire **out, pc__limit *limit)
{
    pc_status status;
    *out = NULL;
    status = open_wire(nodes, n, out, limit);
    if (status < 0)
        return status;
    status = log_in(nodes, n, *out, limit);
    if (status < 0) {
        pc__wire_close(*out);
        *out = NULL;
    }
    return status;
}

pc__wire *pc__node_take_idle(pc__nodes *nodes, pc__node *n)
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

void pc__node_give_back(pc__nodes *nodes, pc__node *n, pc__wire *wire)
{
    int kept;
    pthread_mutex_lock(&nodes->lock);
    kept = n->idle_count < PC__NODE_IDLE;
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
    pc__wire *old[PC__NODE_IDLE];
    for (size_t i = 0;; i++) {
        size_t count = 0;
        pc__node *n = NULL;
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

static void tell(pc__nodes *nodes, const pc__node *n, int changed, int ok, double wait)
{
    if (!changed || !nodes->context)
        return;
    if (ok)
        pc__log(nodes->context, PC_LOG_INFO, "remote: %s answers again", n->name);
    else
        pc__log(nodes->context, PC_LOG_WARN, "remote: %s (left alone for %.1f s)", pc_error_text(),
                wait);
}

void pc__node_settle(pc__nodes *nodes, pc__node *n, int entered, int ok)
{
    pc__wire *idle[PC__NODE_IDLE];
    size_t count = 0;
    int changed;
    double wait;
    pthread_mutex_lock(&nodes->lock);
    changed = pc__breaker_done(&n->breaker, entered, ok, pc__now(),
                               (double)randombytes_random() / 4294967296.0);
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
