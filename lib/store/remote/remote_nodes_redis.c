/* The list of nodes, and the connections of each: opened, logged in, idle. */
#include "store/remote/remote_nodes_internal.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"

enum { MAX_NODES = 1024 };
#define IDLE_SECONDS 60.0

static void node_free(const pc_allocator *mem, pc__remote_node *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->idle_count; i++)
        pc__remote_connection_close(n->idle[i]);
    pc__remote_resolver_free(n->resolver);
    pc__free(mem, n->server);
    pc__free(mem, n);
}

pc_status pc__remote_node_get(pc__remote_nodes *nodes, const char *server, uint16_t port,
                              size_t *index)
{
    pc_status status;
    pc__remote_node *n;
    for (*index = 0; *index < nodes->count; ++*index)
        if (nodes->items[*index]->port == port && !strcmp(nodes->items[*index]->server, server))
            return PC_OK;
    if (nodes->count == MAX_NODES)
        return pc__fail(PC_ERR_LIMIT, "remote: the cluster has more than %d nodes", MAX_NODES);
    status = pc__grow(&nodes->mem, (void **)&nodes->items, &nodes->capacity, nodes->count + 1,
                      sizeof(*nodes->items));
    if (status < 0)
        return status;
    if (!(n = pc__calloc(&nodes->mem, 1, sizeof *n)))
        return PC_ERR_NOMEM;
    n->port = port;
    if (port)
        snprintf(n->name, sizeof n->name, strchr(server, ':') ? "[%.255s]:%u" : "%.255s:%u", server,
                 (unsigned)port);
    else
        snprintf(n->name, sizeof n->name, "%.255s", server);
    status = (n->server = pc__strdup(&nodes->mem, server))
                 ? pc__remote_resolver_new(&n->resolver, &nodes->mem, server, port)
                 : PC_ERR_NOMEM;
    if (status < 0) {
        node_free(&nodes->mem, n);
        return status;
    }
    nodes->items[nodes->count++] = n;
    return PC_OK;
}

pc_status pc__remote_nodes_new(pc__remote_nodes **out, const pc_allocator *mem,
                               const pc_context *context, pc__remote_address *address)
{
    pc_status status = PC_OK;
    size_t index;
    pc__remote_nodes *n = *out = pc__calloc(mem, 1, sizeof *n);
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
        status = pc__tls.open(&n->tls, mem, &n->address.tls);
    if (status == PC_OK && n->address.tls.insecure && context)
        pc__log(context, PC_LOG_WARN, "remote: insecure=1: server certificates are not checked");
    for (size_t i = 0; i < n->address.count && status == PC_OK; i++)
        status = pc__remote_node_get(n, n->address.seeds[i].server, n->address.seeds[i].port,
                                     &index);
    if (status < 0) {
        pc__remote_nodes_free(n);
        *out = NULL;
    }
    return status;
}

void pc__remote_nodes_free(pc__remote_nodes *nodes)
{
    if (!nodes)
        return;
    for (size_t i = 0; i < nodes->count; i++)
        node_free(&nodes->mem, nodes->items[i]);
    if (nodes->tls)
        pc__tls.close(nodes->tls);
    pthread_mutex_destroy(&nodes->lock);
    pc__remote_address_free(&nodes->address);
    pc__free(&nodes->mem, nodes->items);
    pc__free(&nodes->mem, nodes->slots);
    pc__free(&nodes->mem, nodes);
}

pc__remote_node *pc__remote_node_of_slot(pc__remote_nodes *nodes, uint32_t slot, double now)
{
    size_t known = nodes->slots ? nodes->slots[slot] : 0;
    if (known) {
        pc__remote_node *n = nodes->items[known - 1];
        return pc__remote_breaker_allows(&n->breaker, now) ? n : NULL;
    }
    for (size_t i = 0; i < nodes->count; i++)
        if (pc__remote_breaker_allows(&nodes->items[i]->breaker, now))
            return nodes->items[i];
    return NULL;
}

int pc__remote_nodes_may_ask(pc__remote_nodes *nodes, uint32_t slot)
{
    int may;
    pthread_mutex_lock(&nodes->lock);
    may = pc__remote_node_of_slot(nodes, slot, pc__now()) != NULL;
    pthread_mutex_unlock(&nodes->lock);
    return may;
}

/* ------------------------------------------------------------ connections */

/* Sends a command whose reply must be "OK". The error text repeats only the first word of the
 * server's reply: the rest may contain the password. */
static pc_status expect_ok(const pc__remote_node *n, pc__remote_connection *connection,
                           const pc__remote_request *request, const char *what,
                           pc__remote_deadline *limit)
{
    pc__remote_reply reply = pc__remote_reply_make(request->text.mem);
    pc_status status = request->status;
    if (status == PC_OK)
        status = pc__remote_connection_send(connection, request, limit);
    if (status == PC_OK)
        status = pc__remote_connection_reply(connection, &reply, limit);
    if (status == PC_OK && (reply.count != 1 || reply.items[0].kind != PC__REMOTE_TEXT)) {
        int is_error = reply.count && reply.items[0].kind == PC__REMOTE_ERROR;
        status = pc__fail(
            PC_ERR_IO, "%s: the server refuses %s: %.*s", n->name, what,
            is_error ? (int)strcspn(pc__remote_reply_text(&reply, &reply.items[0]), " ") : 0,
            is_error ? pc__remote_reply_text(&reply, &reply.items[0]) : "");
    }
    pc__remote_reply_free(&reply);
    return status;
}

static pc_status log_in(const pc__remote_nodes *nodes, const pc__remote_node *n,
                        pc__remote_connection *connection, pc__remote_deadline *limit)
{
    const pc__remote_address *a = &nodes->address;
    pc__remote_request request = pc__remote_request_make(&nodes->mem);
    pc_status status = PC_OK;
    if (a->password) {
        pc__remote_request_command(&request, "AUTH", a->user ? 2 : 1);
        if (a->user)
            pc__remote_request_text(&request, a->user);
        pc__remote_request_value(&request, a->password, strlen(a->password)); /* not copied */
        status = expect_ok(n, connection, &request, "the login", limit);
        pc__remote_request_free(&request);
        request = pc__remote_request_make(&nodes->mem);
    }
    if (status == PC_OK && a->database) {
        pc__remote_request_command(&request, "SELECT", 1);
        pc__remote_request_number(&request, a->database);
        status = expect_ok(n, connection, &request, "the database", limit);
        pc__remote_request_free(&request);
    }
    return status;
}

/* Tries the addresses of a name in turn, as the server may not listen on all of them: `localhost`
 * often has ::1 before 127.0.0.1. */
static pc_status open_connection(const pc__remote_nodes *nodes, const pc__remote_node *n,
                                 pc__remote_connection **out, pc__remote_deadline *limit)
{
    pc_status status = PC_OK;
    int others = 1;
    for (size_t i = 0; i < PC__REMOTE_RESOLVER_MOST && others; i++) {
        pc__remote_socket_address address;
        status = pc__remote_resolver_get(n->resolver, &address, limit);
        if (status < 0)
            return status;
        status = pc__remote_connection_open(out, &nodes->mem, &address, n->name, nodes->tls,
                                            n->server, limit);
        if (status == PC_OK)
            pc__remote_resolver_answered(n->resolver);
        others = status < 0 && pc__remote_resolver_failed(n->resolver, &address)
                 && !limit->timed_out;
    }
    return status;
}

pc_status pc__remote_node_connect(pc__remote_nodes *nodes, pc__remote_node *n,
                                  pc__remote_connection **out, pc__remote_deadline *limit)
{
    pc_status status;
    *out = NULL;
    status = open_connection(nodes, n, out, limit);
    if (status < 0)
        return status;
    status = log_in(nodes, n, *out, limit);
    if (status < 0) {
        pc__remote_connection_close(*out);
        *out = NULL;
    }
    return status;
}

pc__remote_connection *pc__remote_node_pop_idle(pc__remote_nodes *nodes, pc__remote_node *n)
{
    for (;;) {
        pc__remote_connection *connection = NULL;
        pthread_mutex_lock(&nodes->lock);
        if (n->idle_count)
            connection = n->idle[--n->idle_count];
        pthread_mutex_unlock(&nodes->lock);
        if (!connection || pc__remote_connection_is_usable(connection))
            return connection;
        pc__remote_connection_close(connection);
    }
}

void pc__remote_node_release(pc__remote_nodes *nodes, pc__remote_node *n,
                             pc__remote_connection *connection)
{
    int kept;
    pthread_mutex_lock(&nodes->lock);
    kept = n->idle_count < PC__REMOTE_IDLE_CONNECTIONS;
    if (kept) {
        n->idle_since[n->idle_count] = pc__now();
        n->idle[n->idle_count++] = connection;
    }
    pthread_mutex_unlock(&nodes->lock);
    if (!kept)
        pc__remote_connection_close(connection);
}

void pc__remote_nodes_sweep(pc__remote_nodes *nodes)
{
    pc__remote_connection *old[PC__REMOTE_IDLE_CONNECTIONS];
    for (size_t i = 0;; i++) {
        size_t count = 0;
        pc__remote_node *n = NULL;
        pthread_mutex_lock(&nodes->lock);
        if (i < nodes->count)
            n = nodes->items[i];
        while (n && count < n->idle_count && pc__now() - n->idle_since[count] > IDLE_SECONDS) {
            old[count] = n->idle[count]; /* the first were used longest ago */
            count++;
        }
        if (count) {
            n->idle_count -= count;
            memmove(n->idle, n->idle + count, n->idle_count * sizeof(*n->idle));
            memmove(n->idle_since, n->idle_since + count, n->idle_count * sizeof *n->idle_since);
        }
        pthread_mutex_unlock(&nodes->lock);
        for (size_t j = 0; j < count; j++)
            pc__remote_connection_close(old[j]);
        if (!n)
            return;
    }
}

static void log_change(pc__remote_nodes *nodes, const pc__remote_node *n, int changed, int ok,
                       double open_seconds)
{
    if (!changed || !nodes->context)
        return;
    if (ok)
        pc__log(nodes->context, PC_LOG_INFO, "remote: %s answers again", n->name);
    else
        pc__log(nodes->context, PC_LOG_WARN, "remote: %s (paused for %.1f s)", pc_error_text(),
                open_seconds);
}

void pc__remote_node_report(pc__remote_nodes *nodes, pc__remote_node *n, int permit, int ok)
{
    pc__remote_connection *idle[PC__REMOTE_IDLE_CONNECTIONS];
    size_t count = 0;
    int changed;
    double open_seconds;
    pthread_mutex_lock(&nodes->lock);
    changed = pc__remote_breaker_done(&n->breaker, permit, ok, pc__now(),
                                      (double)randombytes_random() / 4294967296.0);
    open_seconds = n->breaker.open_seconds;
    if (!ok) {
        nodes->stale |= nodes->slots != NULL;
        count = n->idle_count;
        memcpy(idle, n->idle, count * sizeof(*idle));
        n->idle_count = 0;
    }
    pthread_mutex_unlock(&nodes->lock);
    for (size_t i = 0; i < count; i++)
        pc__remote_connection_close(idle[i]);
    log_change(nodes, n, changed, ok, open_seconds);
}

int pc__remote_node_enter(pc__remote_nodes *nodes, pc__remote_node *n)
{
    int permit;
    pthread_mutex_lock(&nodes->lock);
    permit = pc__remote_breaker_enter(&n->breaker, pc__now());
    pthread_mutex_unlock(&nodes->lock);
    return permit;
}

void pc__remote_node_cancel(pc__remote_nodes *nodes, pc__remote_node *n, int permit)
{
    pthread_mutex_lock(&nodes->lock);
    pc__remote_breaker_cancel(&n->breaker, permit);
    pthread_mutex_unlock(&nodes->lock);
}
