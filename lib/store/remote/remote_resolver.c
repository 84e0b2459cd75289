/* getaddrinfo on a thread, and which address of the result is tried next. */
#include "store/remote/remote_resolver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>

#include "base/clock.h"
#include "base/fail.h"

struct pc__remote_resolver {
    pc_allocator mem;
    char *server, port[8];
    int numeric; /* or a path: the addresses never change */
    pthread_mutex_t lock;
    pthread_cond_t ready;
    pthread_t thread;
    int started; /* the thread is to be joined */
    int running; /* the thread has no result yet */
    int error;   /* of getaddrinfo */
    pc__remote_socket_address addresses[PC__REMOTE_RESOLVER_MOST];
    size_t count, first; /* which is tried next */
    size_t failed;       /* how many have failed since one answered */
};

static int get_addresses(const char *server, const char *port, int flags,
                         pc__remote_socket_address *addresses, size_t *count)
{
    struct addrinfo hints, *list = NULL;
    int error;
    memset(&hints, 0, sizeof hints);
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    error = getaddrinfo(server, port, &hints, &list);
    *count = 0;
    for (struct addrinfo *a = error ? NULL : list; a && *count < PC__REMOTE_RESOLVER_MOST;
         a = a->ai_next) {
        memcpy(&addresses[*count].storage, a->ai_addr, a->ai_addrlen);
        addresses[(*count)++].size = a->ai_addrlen;
    }
    if (list)
        freeaddrinfo(list);
    return error;
}

static void *resolve_thread(void *arg)
{
    pc__remote_resolver *r = arg;
    pc__remote_socket_address addresses[PC__REMOTE_RESOLVER_MOST];
    size_t count;
    int error = get_addresses(r->server, r->port, 0, addresses, &count);
    pthread_mutex_lock(&r->lock);
    memcpy(r->addresses, addresses, count * sizeof *addresses);
    r->count = count;
    r->first = r->failed = 0;
    r->error = error;
    r->running = 0;
    pthread_cond_broadcast(&r->ready);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static pc_status set_path(pc__remote_resolver *r)
{
    struct sockaddr_un local;
    memset(&local, 0, sizeof local);
    local.sun_family = AF_UNIX;
    if (strlen(r->server) >= sizeof local.sun_path)
        return pc__fail(PC_ERR_INVALID,
                        "remote address: the path of a socket has at most %zu bytes",
                        sizeof local.sun_path - 1);
    memcpy(local.sun_path, r->server, strlen(r->server) + 1);
    memcpy(&r->addresses[0].storage, &local, sizeof local);
    r->addresses[0].size = sizeof local;
    r->count = 1;
    r->numeric = 1;
    return PC_OK;
}

pc_status pc__remote_resolver_new(pc__remote_resolver **out, const pc_allocator *mem,
                                  const char *server, uint16_t port)
{
    pthread_condattr_t attributes;
    pc_status status = PC_OK;
    pc__remote_resolver *r = *out = pc__calloc(mem, 1, sizeof *r);
    if (!r)
        return PC_ERR_NOMEM;
    r->mem = *mem;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&r->ready, &attributes);
    pthread_condattr_destroy(&attributes);
    snprintf(r->port, sizeof r->port, "%u", (unsigned)port);
    r->server = pc__strdup(mem, server);
    if (!r->server)
        status = PC_ERR_NOMEM;
    else if (!port)
        status = set_path(r);
    else
        r->numeric = !get_addresses(server, r->port, AI_NUMERICHOST, r->addresses, &r->count)
                     && r->count;
    if (status == PC_OK)
        return PC_OK;
    pc__remote_resolver_free(r);
    *out = NULL;
    return status;
}

void pc__remote_resolver_free(pc__remote_resolver *resolver)
{
    if (!resolver)
        return;
    if (resolver->started)
        pthread_join(resolver->thread, NULL);
    pthread_cond_destroy(&resolver->ready);
    pthread_mutex_destroy(&resolver->lock);
    pc__free(&resolver->mem, resolver->server);
    pc__free(&resolver->mem, resolver);
}

/* Under the lock. */
static pc_status start_thread(pc__remote_resolver *r)
{
    if (r->started)
        pthread_join(r->thread, NULL); /* it has ended */
    r->started = r->running = 0;
    if (pthread_create(&r->thread, NULL, resolve_thread, r))
        return pc__fail(PC_ERR_IO, "%s: cannot start a thread that resolves the name", r->server);
    r->started = r->running = 1;
    return PC_OK;
}

pc_status pc__remote_resolver_get(pc__remote_resolver *resolver, pc__remote_socket_address *out,
                                  pc__remote_deadline *limit)
{
    pc__remote_resolver *r = resolver;
    struct timespec until = pc__timespec(limit->deadline);
    pc_status status = PC_OK;
    pthread_mutex_lock(&r->lock);
    if (!r->count && !r->running)
        status = start_thread(r);
    while (status == PC_OK && r->running)
        if (pthread_cond_timedwait(&r->ready, &r->lock, &until)) {
            limit->timed_out = 1;
            status = pc__fail(PC_ERR_IO, "%s: the name was not resolved before the deadline",
                              r->server);
        }
    if (status == PC_OK && !r->count) /* error 0: another thread has just dropped all addresses */
        status = pc__fail(PC_ERR_IO, "%s: %s", r->server,
                          r->error ? gai_strerror(r->error) : "no address accepts connections");
    if (status == PC_OK)
        *out = r->addresses[r->first];
    pthread_mutex_unlock(&r->lock);
    return status;
}

void pc__remote_resolver_answered(pc__remote_resolver *resolver)
{
    pthread_mutex_lock(&resolver->lock);
    resolver->failed = 0;
    pthread_mutex_unlock(&resolver->lock);
}

int pc__remote_resolver_failed(pc__remote_resolver *resolver,
                               const pc__remote_socket_address *address)
{
    pc__remote_resolver *r = resolver;
    int others = 1; /* also if another thread has reported it already */
    pthread_mutex_lock(&r->lock);
    if (r->count && r->addresses[r->first].size == address->size
        && !memcmp(&r->addresses[r->first].storage, &address->storage, address->size)) {
        r->first = (r->first + 1) % r->count;
        others = ++r->failed < r->count;
        if (!others) {
            r->failed = 0;
            r->count = r->numeric ? r->count : 0; /* looked up again */
        }
    }
    pthread_mutex_unlock(&r->lock);
    return others;
}
