/* The list of nodes, the breaker and the idle connections of each, the slots of a cluster. */
#include "store/remote/remote_nodes.h"

#include <math.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"

enum { MAX_NODES = 1024, MAX_IDLE = 16, MAX_SERVER_NAME = 256 };
#define IDLE_SECONDS 60.0
#define FIRST_PAUSE 0.1
#define LONGEST_PAUSE 30.0
#define REFRESH_SECONDS 0.05 /* at least, between two requests for the slots */

typedef struct idle_connection {
    pc__remote_connection *connection;
    double since;
} idle_connection;

struct pc__remote_node {
    char *server; /* name, number or path */
    uint16_t port;
    char name[MAX_SERVER_NAME + 16]; /* "server:port", for error texts */
    pc__remote_resolver *resolver;
    pc__remote_breaker breaker;
    idle_connection idle[MAX_IDLE]; /* [idle_count] latest used last */
    size_t idle_count;
    size_t users; /* that hold it, beside the list; under the lock */
    int is_gone;  /* no longer in the list: its last user frees it */
};

struct pc__remote_nodes {
    pc_allocator mem;
    const pc_context *context;
    pc__remote_address address;
    pc__remote_tls *tls;  /* NULL: plain */
    pthread_mutex_t lock; /* guards all below */
    /* [count] First those of the address, which stay. Others are in the list while the cluster
     * names them. */
    pc__remote_node **items;
    size_t count, capacity;
    size_t seeds;    /* nodes of the address */
    uint16_t *slots; /* [PC__REMOTE_SLOTS] index of the node + 1, 0: unknown; NULL: no cluster */
    int stale;       /* `slots` must be asked for again */
    int refreshing;
    double refreshed;
};

/* ------------------------------------------------------------ breaker */

int pc__remote_breaker_allows(const pc__remote_breaker *breaker, double now)
{
    return breaker->open_seconds <= 0 || (now >= breaker->open_until && !breaker->probing);
}

int pc__remote_breaker_enter(pc__remote_breaker *breaker, double now)
{
    if (breaker->open_seconds <= 0)
        return PC__REMOTE_BREAKER_CLOSED;
    if (!pc__remote_breaker_allows(breaker, now))
        return 0;
    breaker->probing = 1;
    return PC__REMOTE_BREAKER_PROBE;
}

int pc__remote_breaker_done(pc__remote_breaker *breaker, int permit, pc_status status, double now,
                            double chance)
{
    int was_open = breaker->open_seconds > 0;
    if (permit == PC__REMOTE_BREAKER_PROBE)
        breaker->probing = 0;
    if (status == PC_ERR_NOMEM)
        return 0;
    if (status >= 0) {
        breaker->open_seconds = 0;
        return was_open;
    }
    if (was_open && permit != PC__REMOTE_BREAKER_PROBE)
        return 0; /* it began before the breaker opened */
    breaker->open_seconds = was_open ? 2 * breaker->open_seconds : FIRST_PAUSE;
    if (breaker->open_seconds > LONGEST_PAUSE)
        breaker->open_seconds = LONGEST_PAUSE;
    breaker->open_until = now + breaker->open_seconds * (0.75 + 0.5 * chance);
    return !was_open;
}

/* ------------------------------------------------------------ the list of nodes */

static void node_free(const pc_allocator *mem, pc__remote_node *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->idle_count; i++)
        pc__remote_connection_close(n->idle[i].connection);
    pc__remote_resolver_free(n->resolver);
    pc__free(mem, n->server);
    pc__free(mem, n);
}

/* Under the lock: the node of this name, added if it is new. */
static pc_status get_node(pc__remote_nodes *nodes, const char *server, uint16_t port, size_t *index)
{
    pc_status status;
    pc__remote_node *n;
    for (*index = 0; *index < nodes->count; ++*index)
        if (nodes->items[*index]->port == port && !strcmp(nodes->items[*index]->server, server))
            return PC_OK;
    if (nodes->count == MAX_NODES)
        return pc__fail(PC_ERR_LIMIT, "remote: the cluster has more than %d nodes", MAX_NODES);
    PC__TRY_RETURN(pc__grow(&nodes->mem, (void **)&nodes->items, &nodes->capacity, nodes->count + 1,
                            sizeof(*nodes->items)));
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
    n->stale = n->address.is_cluster;
    if (n->address.tls.wanted)
        status = pc__tls.open(&n->tls, mem, &n->address.tls);
    if (status == PC_OK && n->address.tls.insecure)
        pc__log(context, PC_LOG_WARN, "remote: insecure=1: server certificates are not checked");
    for (size_t i = 0; i < n->address.count && status == PC_OK; i++)
        status = get_node(n, n->address.seeds[i].server, n->address.seeds[i].port, &index);
    n->seeds = n->count;
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

/* Under the lock; NULL stays NULL. */
static pc__remote_node *hold(pc__remote_node *node)
{
    if (node)
        node->users++;
    return node;
}

pc__remote_node *pc__remote_node_hold(pc__remote_nodes *nodes, pc__remote_node *node)
{
    pthread_mutex_lock(&nodes->lock);
    hold(node);
    pthread_mutex_unlock(&nodes->lock);
    return node;
}

void pc__remote_node_drop(pc__remote_nodes *nodes, pc__remote_node *node)
{
    int is_last;
    if (!node)
        return;
    pthread_mutex_lock(&nodes->lock);
    is_last = !--node->users && node->is_gone;
    pthread_mutex_unlock(&nodes->lock);
    if (is_last)
        node_free(&nodes->mem, node);
}

/* Held; NULL: there are fewer nodes. */
static pc__remote_node *node_at(pc__remote_nodes *nodes, size_t index)
{
    pc__remote_node *n;
    pthread_mutex_lock(&nodes->lock);
    n = hold(index < nodes->count ? nodes->items[index] : NULL);
    pthread_mutex_unlock(&nodes->lock);
    return n;
}

const char *pc__remote_node_name(const pc__remote_node *node)
{
    return node->name;
}

/* Under the lock. */
static pc__remote_node *find_of_slot(const pc__remote_nodes *nodes, uint32_t slot)
{
    double now = pc__now();
    size_t known = nodes->slots ? nodes->slots[slot] : 0; /* index + 1 */
    for (size_t i = 0; i < nodes->count; i++)
        if ((!known || i + 1 == known) && pc__remote_breaker_allows(&nodes->items[i]->breaker, now))
            return nodes->items[i];
    return NULL;
}

pc__remote_node *pc__remote_nodes_of_slot(pc__remote_nodes *nodes, uint32_t slot)
{
    pc__remote_node *found;
    pthread_mutex_lock(&nodes->lock);
    found = hold(find_of_slot(nodes, slot));
    pthread_mutex_unlock(&nodes->lock);
    return found;
}

int pc__remote_nodes_may_ask(pc__remote_nodes *nodes, uint32_t slot)
{
    int may;
    pthread_mutex_lock(&nodes->lock);
    may = find_of_slot(nodes, slot) != NULL;
    pthread_mutex_unlock(&nodes->lock);
    return may;
}

/* ------------------------------------------------------------ connections */

/* Sends a request of one command and reads its reply. */
static pc_status ask(pc__remote_connection *connection, const pc__remote_request *request,
                     pc__remote_reply *reply, pc__remote_deadline *limit)
{
    PC__TRY_RETURN(request->status);
    PC__TRY_RETURN(pc__remote_connection_send(connection, request, limit));
    return pc__remote_connection_reply(connection, reply, limit);
}

/* Sends a command whose reply must be "OK", and frees the request. The error text repeats only the
 * first word of the server's reply: the rest may contain the password. */
static pc_status expect_ok(const pc__remote_node *n, pc__remote_connection *connection,
                           pc__remote_request *request, const char *what,
                           pc__remote_deadline *limit)
{
    pc__remote_reply reply = pc__remote_reply_make(request->text.mem);
    pc_status status = ask(connection, request, &reply, limit);
    if (status == PC_OK && (reply.count != 1 || reply.items[0].kind != PC__REMOTE_TEXT)) {
        int is_error = reply.count && reply.items[0].kind == PC__REMOTE_ERROR;
        const char *text = is_error ? pc__remote_reply_text(&reply, &reply.items[0]) : "";
        status = pc__fail(PC_ERR_IO, "%s: the server refuses %s: %.*s", n->name, what,
                          (int)strcspn(text, " "), text);
    }
    pc__remote_reply_free(&reply);
    pc__remote_request_free(request);
    return status;
}

static pc_status log_in(const pc__remote_nodes *nodes, const pc__remote_node *n,
                        pc__remote_connection *connection, pc__remote_deadline *limit)
{
    const pc__remote_address *a = &nodes->address;
    pc__remote_request request;
    if (a->password) {
        request = pc__remote_request_make(&nodes->mem);
        pc__remote_request_command(&request, "AUTH", a->user ? 2 : 1);
        if (a->user)
            pc__remote_request_text(&request, a->user);
        pc__remote_request_value(&request, a->password, strlen(a->password)); /* not copied */
        PC__TRY_RETURN(expect_ok(n, connection, &request, "the login", limit));
    }
    if (a->database) {
        request = pc__remote_request_make(&nodes->mem);
        pc__remote_request_command(&request, "SELECT", 1);
        pc__remote_request_number(&request, a->database);
        PC__TRY_RETURN(expect_ok(n, connection, &request, "the database", limit));
    }
    return PC_OK;
}

/* Tries the addresses of a name in turn, as the server may not listen on all of them: `localhost`
 * often has ::1 before 127.0.0.1. */
static pc_status open_connection(const pc__remote_nodes *nodes, const pc__remote_node *n,
                                 pc__remote_connection **out, pc__remote_deadline *limit)
{
    for (size_t i = 1;; i++) {
        pc__remote_socket_address address;
        pc_status status;
        PC__TRY_RETURN(pc__remote_resolver_get(n->resolver, &address, limit));
        status = pc__remote_connection_open(
            out, &nodes->mem, &address, n->name, nodes->tls, n->server,
            nodes->address.owner_name ? &nodes->address.owner : NULL, limit);
        if (status == PC_OK)
            pc__remote_resolver_answered(n->resolver);
        else if (pc__remote_resolver_failed(n->resolver, &address) && !limit->timed_out
                 && i < PC__REMOTE_RESOLVER_MOST)
            continue;
        return status;
    }
}

pc_status pc__remote_node_connect(const pc__remote_nodes *nodes, const pc__remote_node *n,
                                  pc__remote_connection **out, pc__remote_deadline *limit)
{
    pc_status status;
    *out = NULL;
    PC__TRY_RETURN(open_connection(nodes, n, out, limit));
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
            connection = n->idle[--n->idle_count].connection;
        pthread_mutex_unlock(&nodes->lock);
        if (!connection || pc__remote_connection_is_usable(connection))
            return connection;
        pc__remote_connection_close(connection);
    }
}

void pc__remote_node_release(pc__remote_nodes *nodes, pc__remote_node *n,
                             pc__remote_connection *connection)
{
    pthread_mutex_lock(&nodes->lock);
    if (n->idle_count < MAX_IDLE) {
        n->idle[n->idle_count++] = (idle_connection){connection, pc__now()};
        connection = NULL;
    }
    pthread_mutex_unlock(&nodes->lock);
    pc__remote_connection_close(connection);
}

/* Closes the connections that have been idle since before this time. */
static void close_idle(pc__remote_nodes *nodes, pc__remote_node *n, double before)
{
    idle_connection old[MAX_IDLE];
    size_t count = 0;
    pthread_mutex_lock(&nodes->lock);
    for (; count < n->idle_count && n->idle[count].since < before; count++)
        old[count] = n->idle[count]; /* the first were used longest ago */
    n->idle_count -= count;
    memmove(n->idle, n->idle + count, n->idle_count * sizeof *n->idle);
    pthread_mutex_unlock(&nodes->lock);
    while (count)
        pc__remote_connection_close(old[--count].connection);
}

void pc__remote_nodes_sweep(pc__remote_nodes *nodes)
{
    pc__remote_node *n;
    for (size_t i = 0; (n = node_at(nodes, i)); i++) {
        close_idle(nodes, n, pc__now() - IDLE_SECONDS);
        pc__remote_node_drop(nodes, n);
    }
}

int pc__remote_node_enter(pc__remote_nodes *nodes, pc__remote_node *n)
{
    int permit;
    pthread_mutex_lock(&nodes->lock);
    permit = pc__remote_breaker_enter(&n->breaker, pc__now());
    pthread_mutex_unlock(&nodes->lock);
    return permit;
}

void pc__remote_node_report(pc__remote_nodes *nodes, pc__remote_node *n, int permit,
                            pc_status status)
{
    int changed, failed = status < 0 && status != PC_ERR_NOMEM;
    double open_seconds;
    pthread_mutex_lock(&nodes->lock);
    changed = pc__remote_breaker_done(&n->breaker, permit, status, pc__now(),
                                      (double)randombytes_random() / 4294967296.0);
    open_seconds = n->breaker.open_seconds;
    nodes->stale |= failed && nodes->slots;
    pthread_mutex_unlock(&nodes->lock);
    if (failed)
        close_idle(nodes, n, INFINITY);
    if (changed && failed)
        pc__log(nodes->context, PC_LOG_WARN, "remote: %s (paused for %.1f s)", pc_error_text(),
                open_seconds);
    else if (changed)
        pc__log(nodes->context, PC_LOG_INFO, "remote: %s answers again", n->name);
}

/* ------------------------------------------------------------ slots of a cluster */

/* Under the lock: the node that `from` has named. */
static pc_status get_named_node(pc__remote_nodes *nodes, const pc__remote_node *from,
                                const char *server, uint16_t port, size_t *index)
{
    if (!pc__remote_address_covers(&nodes->address, server))
        return pc__fail(PC_ERR_IO,
                        "%s: it names the node %.255s, whose certificate would prove nothing that "
                        "the address says; name that node in the address, or give sni=NAME, a name "
                        "that the certificates of all nodes have",
                        from->name, server);
    return get_node(nodes, server, port, index);
}

/* Under the lock: takes the nodes from the list that neither the address nor `slots` name. Those
 * that nobody uses go to `unused` [MAX_NODES]; returns how many. */
static size_t take_gone(pc__remote_nodes *nodes, uint16_t *slots, pc__remote_node **unused)
{
    uint16_t new_index[MAX_NODES + 1] = {0}; /* [index + 1] 1: it stays; then its new index + 1 */
    size_t kept = 0, count = 0;
    for (size_t s = 0; s < PC__REMOTE_SLOTS; s++)
        new_index[slots[s]] = 1;
    for (size_t i = 0; i < nodes->count; i++) {
        pc__remote_node *n = nodes->items[i];
        if (i < nodes->seeds || new_index[i + 1]) {
            nodes->items[kept++] = n;
            new_index[i + 1] = (uint16_t)kept;
        } else {
            n->is_gone = 1;
            if (!n->users)
                unused[count++] = n;
        }
    }
    nodes->count = kept;
    for (size_t s = 0; s < PC__REMOTE_SLOTS; s++)
        slots[s] = slots[s] ? new_index[slots[s]] : 0;
    return count;
}

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
    status = get_named_node(nodes, asked, server, (uint16_t)i[5].integer, &index);
    for (int64_t s = i[1].integer; status == PC_OK && s <= i[2].integer; s++)
        slots[s] = (uint16_t)(index + 1);
    *at = end;
    return status;
}

/* *unused [MAX_NODES] gets nodes that are to be freed. */
static pc_status read_slots(pc__remote_nodes *nodes, const pc__remote_reply *reply,
                            const pc__remote_node *asked, pc__remote_node **unused, size_t *count)
{
    uint16_t *slots;
    pc_status status = PC_OK;
    size_t at = 1;
    *count = 0;
    if (reply->items[0].kind == PC__REMOTE_ERROR) { /* one server with several addresses */
        nodes->stale = 0;
        return PC_OK;
    }
    if (!(slots = pc__calloc(&nodes->mem, PC__REMOTE_SLOTS, sizeof *slots)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < reply->items[0].elements && at < reply->count && status == PC_OK; i++)
        status = read_range(nodes, reply, &at, asked, slots);
    if (status == PC_OK)
        nodes->stale = 0;
    else if (nodes->slots) /* the nodes that this reply has added go again */
        memcpy(slots, nodes->slots, PC__REMOTE_SLOTS * sizeof *slots);
    else
        memset(slots, 0, PC__REMOTE_SLOTS * sizeof *slots);
    pc__free(&nodes->mem, nodes->slots);
    nodes->slots = slots;
    *count = take_gone(nodes, slots, unused);
    return status;
}

/* The slots as one node knows them. */
static pc_status ask_slots(pc__remote_nodes *nodes, pc__remote_node *n, pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(&nodes->mem);
    pc__remote_reply reply = pc__remote_reply_make(&nodes->mem);
    pc__remote_connection *connection = pc__remote_node_pop_idle(nodes, n);
    pc__remote_node *unused[MAX_NODES];
    size_t count = 0;
    pc_status status = PC_OK;
    pc__remote_request_command(&request, "CLUSTER", 1);
    pc__remote_request_text(&request, "SLOTS");
    if (!connection)
        PC__TRY(pc__remote_node_connect(nodes, n, &connection, limit), end);
    PC__TRY(ask(connection, &request, &reply, limit), end);
    pthread_mutex_lock(&nodes->lock);
    status = read_slots(nodes, &reply, n, unused, &count);
    pthread_mutex_unlock(&nodes->lock);
    while (count)
        node_free(&nodes->mem, unused[--count]);
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
    pc__remote_node_report(nodes, n, permit, status);
    return status >= 0 || status == PC_ERR_NOMEM;
}

void pc__remote_nodes_refresh(pc__remote_nodes *nodes, const pc__remote_deadline *limit)
{
    size_t count;
    int due, done = 0;
    pthread_mutex_lock(&nodes->lock);
    due = nodes->stale && !nodes->refreshing && pc__now() - nodes->refreshed > REFRESH_SECONDS;
    nodes->refreshing |= due;
    count = nodes->count;
    pthread_mutex_unlock(&nodes->lock);
    if (!due)
        return;
    for (size_t i = 0; i < count && !done; i++) {
        pc__remote_node *n = node_at(nodes, i);
        done = !n || refresh_from(nodes, n, limit);
        pc__remote_node_drop(nodes, n);
    }
    pthread_mutex_lock(&nodes->lock);
    nodes->refreshing = 0;
    nodes->refreshed = pc__now();
    pthread_mutex_unlock(&nodes->lock);
}

pc__remote_node *pc__remote_nodes_redirect(pc__remote_nodes *nodes, const pc__remote_node *from,
                                           const char *text)
{
    char server[MAX_SERVER_NAME];
    const char *target = strchr(text, ' ');
    pc__remote_node *to = NULL;
    int moved = text[0] == 'M';
    uint16_t port;
    uint32_t slot;
    size_t index;
    if (!nodes->address.is_cluster) {
        pc__fail(PC_ERR_IO,
                 "%s: the server sends us to another one, as a node of a cluster does; for a "
                 "cluster add ?cluster=1 to the address, or name several nodes",
                 from->name);
        return NULL;
    }
    if (!target || !pc__remote_slot_parse(target + 1, &slot, server, &port)) {
        pc__fail(PC_ERR_IO, "%s: a redirection without a server: %.200s", from->name, text);
        return NULL;
    }
    pthread_mutex_lock(&nodes->lock);
    if (get_named_node(nodes, from, server[0] ? server : from->server, port, &index) == PC_OK)
        to = hold(nodes->items[index]);
    if (moved && !nodes->slots) /* without memory the next call is redirected too */
        nodes->slots = pc__calloc(&nodes->mem, PC__REMOTE_SLOTS, sizeof *nodes->slots);
    if (moved && to && nodes->slots)
        nodes->slots[slot] = (uint16_t)(index + 1);
    nodes->stale |= moved;
    pthread_mutex_unlock(&nodes->lock);
    return to;
}
