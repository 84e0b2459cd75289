/* A parser of addresses that reports the byte of an error, and owns copies of all parts. A
 * resolver: getaddrinfo on a thread, and which address of the result is tried next. */
#include "store/remote/remote_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>
#include <time.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fail.h"

enum { DEFAULT_PORT = 6379, MAX_SEEDS = 256, MAX_SERVER_NAME = 255, MAX_DATABASE = 1 << 20 };

static pc_status address_error(const char *text, const char *at, const char *cause)
{
    return pc__fail(PC_ERR_INVALID, "remote address: at byte %zu: %s", (size_t)(at - text), cause);
}

/* Copies text with its %xx decoded. The copy is never moved, so that zeroing it leaves nothing. */
static pc_status decode_text(char **out, const pc_allocator *mem, const char *text,
                             const char *from, const char *to)
{
    char *at = *out = pc__calloc(mem, (size_t)(to - from) + 1, 1);
    if (!at)
        return PC_ERR_NOMEM;
    for (; from < to; from++) {
        int byte;
        if (*from != '%') {
            *at++ = *from;
            continue;
        }
        byte = to - from > 2 ? pc__hex_byte(from + 1) : -1;
        if (byte <= 0)
            return address_error(text, from,
                                 "after % two hexadecimal digits are needed, not both 0");
        *at++ = (char)byte;
        from += 2;
    }
    return PC_OK;
}

/* The whole text as a decimal number. 0: it is not a number, or too large. */
static int parse_number(const char *from, const char *to, int32_t most, int32_t *out)
{
    int32_t value = 0;
    if (from == to)
        return 0;
    for (; from < to; from++) {
        if (*from < '0' || *from > '9')
            return 0;
        if (value > (most - (*from - '0')) / 10)
            return 0;
        value = 10 * value + (*from - '0');
    }
    *out = value;
    return 1;
}

static pc_status add_seed(pc__remote_address *a, const char *text, const char *from, const char *to,
                          int32_t port)
{
    if (from == to)
        return address_error(text, from, "the name of a server is missing");
    if (port && to - from > MAX_SERVER_NAME)
        return address_error(text, from, "the name of a server has more than 255 bytes");
    if (a->count == MAX_SEEDS)
        return address_error(text, from, "more than 256 servers");
    PC__TRY_RETURN(
        pc__grow(&a->mem, (void **)&a->seeds, &a->capacity, a->count + 1, sizeof *a->seeds));
    a->seeds[a->count].port = (uint16_t)port;
    /* counted first: a failed decode leaves memory too */
    return decode_text(&a->seeds[a->count++].server, &a->mem, text, from, to);
}

/* "server", "server:port", "[v6]", "[v6]:port" */
static pc_status parse_server(pc__remote_address *a, const char *text, const char *from,
                              const char *to)
{
    const char *end = memchr(from, from < to && *from == '[' ? ']' : ':', (size_t)(to - from));
    const char *server = from, *server_end = end ? end : to, *rest = server_end;
    int32_t port = DEFAULT_PORT;
    if (from < to && *from == '[') {
        if (!end)
            return address_error(text, from, "[ without ]");
        server = from + 1;
        rest = end + 1;
    }
    if (rest < to && *rest == ':' && memchr(rest + 1, ':', (size_t)(to - rest - 1)))
        return address_error(text, from, "write an IPv6 address in brackets");
    if (rest < to && (*rest != ':' || !parse_number(rest + 1, to, 65535, &port) || !port))
        return address_error(text, rest, "after the server only :port (1 to 65535) may follow");
    return add_seed(a, text, server, server_end, port);
}

static pc_status parse_user(pc__remote_address *a, const char *text, const char *from,
                            const char *to)
{
    const char *colon = memchr(from, ':', (size_t)(to - from));
    if (!colon)
        return address_error(text, from,
                             "a user needs a password; \":password@\" is a password alone");
    if (colon > from)
        PC__TRY_RETURN(decode_text(&a->user, &a->mem, text, from, colon));
    PC__TRY_RETURN(decode_text(&a->password, &a->mem, text, colon + 1, to));
    return a->password[0] ? PC_OK : address_error(text, colon, "the password is empty");
}

static pc_status parse_servers(pc__remote_address *a, const char *text, const char *from,
                               const char *to)
{
    const char *slash = memchr(from, '/', (size_t)(to - from)), *end = slash ? slash : to;
    if (slash && slash + 1 < to && !parse_number(slash + 1, to, MAX_DATABASE, &a->database))
        return address_error(text, slash, "after / only the number of a database may follow");
    for (const char *at = from, *comma; at; at = comma ? comma + 1 : NULL) {
        comma = memchr(at, ',', (size_t)(end - at));
        PC__TRY_RETURN(parse_server(a, text, at, comma ? comma : end));
    }
    a->is_cluster |= a->count > 1;
    if (a->is_cluster && a->database)
        return address_error(text, slash, "a cluster has database 0 only");
    return PC_OK;
}

enum { OPTION_PLAIN = 1, OPTION_TLS = 2, OPTION_UNIX = 4 }; /* kinds of addresses */

/* An option: its text, or its flag, which can only be 1. */
typedef struct address_option {
    const char *name;
    int kinds; /* of addresses that have it */
    char **text;
    int *flag;
} address_option;

static int is_named(const address_option *option, const char *from, size_t size)
{
    return size == strlen(option->name) && !memcmp(from, option->name, size);
}

static pc_status parse_option(pc__remote_address *a, const char *text, const char *from,
                              const char *to, int kind)
{
    const address_option options[] = {{"cacert", OPTION_TLS, &a->tls.authorities, NULL},
                                      {"cert", OPTION_TLS, &a->tls.certificate, NULL},
                                      {"key", OPTION_TLS, &a->tls.key, NULL},
                                      {"sni", OPTION_TLS, &a->tls.name, NULL},
                                      {"insecure", OPTION_TLS, NULL, &a->tls.insecure},
                                      {"cluster", OPTION_PLAIN | OPTION_TLS, NULL, &a->is_cluster},
                                      {"owner", OPTION_UNIX, &a->owner_name, NULL},
                                      {NULL, 0, NULL, NULL}};
    const char *equal = memchr(from, '=', (size_t)(to - from));
    const address_option *o = options;
    while (o->name
           && !(o->kinds & kind && is_named(o, from, (size_t)((equal ? equal : to) - from))))
        o++;
    if (!equal || !o->name)
        return address_error(text, from,
                             kind == OPTION_UNIX ? "unknown option; a socket has owner="
                             : kind == OPTION_PLAIN
                                 ? "unknown option; redis:// has cluster=1"
                                 : "unknown option; known: cacert=, cert=, key=, sni=, "
                                   "insecure=1, cluster=1");
    if (o->text ? *o->text != NULL : *o->flag)
        return address_error(text, from, "an option is given twice");
    if (equal + 1 == to)
        return address_error(text, from, "an option has no value");
    if (o->text)
        return decode_text(o->text, &a->mem, text, equal + 1, to);
    if (to - equal != 2 || equal[1] != '1')
        return address_error(text, from, "insecure and cluster can only be 1");
    *o->flag = 1;
    return PC_OK;
}

/* A name or a number. */
static pc_status find_owner(pc__remote_address *a, const char *text)
{
    char room[4096];
    struct passwd entry, *found = NULL;
    int32_t number;
    if (!a->owner_name)
        return PC_OK;
    if (parse_number(a->owner_name, a->owner_name + strlen(a->owner_name), INT32_MAX, &number)) {
        a->owner = (uint32_t)number;
        return PC_OK;
    }
    if (getpwnam_r(a->owner_name, &entry, room, sizeof room, &found) || !found)
        return address_error(text, strstr(text, "owner="), "owner= names no user of this machine");
    a->owner = (uint32_t)found->pw_uid;
    return PC_OK;
}

static pc_status parse_options(pc__remote_address *a, const char *text, const char *from, int kind)
{
    if (strchr(from, '@'))
        return address_error(
            text, from,
            "in an address with options, write ? and & of user and password as %3F and %26, "
            "and @ of options as %40");
    for (const char *at = from, *end; at; at = *end ? end + 1 : NULL) {
        end = at + strcspn(at, "&");
        PC__TRY_RETURN(parse_option(a, text, at, end, kind));
    }
    if (a->tls.key && !a->tls.certificate)
        return address_error(text, from, "key= needs cert=");
    if (a->tls.insecure && a->tls.authorities)
        return address_error(text, from, "insecure=1 and cacert= exclude each other");
    return find_owner(a, text);
}

/* The question mark before the options, or the end. A password without TLS may contain one. */
static const char *find_options(const char *from, int kind)
{
    const char *at = strrchr(from, '@');
    return kind == OPTION_TLS || !at ? from + strcspn(from, "?") : at + strcspn(at, "?");
}

/* The text after a scheme; NULL: the text has another one. */
static const char *after_scheme(const char *text, const char *scheme)
{
    size_t size = strlen(scheme);
    return strncmp(text, scheme, size) ? NULL : text + size;
}

static pc_status parse_address(pc__remote_address *a, const char *text)
{
    const char *local = after_scheme(text, "redis+unix://"), *tls = after_scheme(text, "rediss://");
    const char *from = local ? local : tls ? tls : after_scheme(text, "redis://"), *at, *end;
    int kind = local ? OPTION_UNIX : tls ? OPTION_TLS : OPTION_PLAIN;
    if (!from)
        return address_error(text, text,
                             "an address begins with redis://, rediss:// or redis+unix://");
    a->tls.wanted = tls != NULL;
    end = find_options(from, kind);
    if (*end)
        PC__TRY_RETURN(parse_options(a, text, end + 1, kind));
    for (at = end; at > from && at[-1] != '@';)
        at--;
    if (at > from)
        PC__TRY_RETURN(parse_user(a, text, from, at - 1));
    if (local && *at != '/')
        return address_error(text, at, "the path of a socket must begin with /");
    return local ? add_seed(a, text, at, end, 0) : parse_servers(a, text, at, end);
}

pc_status pc__remote_address_parse(pc__remote_address *out, const pc_allocator *mem,
                                   const char *text)
{
    pc_status status;
    *out = (pc__remote_address){.mem = *mem};
    status = parse_address(out, text);
    if (status < 0)
        pc__remote_address_free(out);
    return status;
}

static void zero_text(const pc_allocator *mem, char *text)
{
    if (text)
        sodium_memzero(text, strlen(text));
    pc__free(mem, text);
}

void pc__remote_address_free(pc__remote_address *address)
{
    if (!address->mem.alloc)
        return;
    zero_text(&address->mem, address->user);
    zero_text(&address->mem, address->password);
    pc__free(&address->mem, address->tls.authorities);
    pc__free(&address->mem, address->tls.certificate);
    pc__free(&address->mem, address->tls.key);
    pc__free(&address->mem, address->tls.name);
    pc__free(&address->mem, address->owner_name);
    for (size_t i = 0; i < address->count; i++)
        pc__free(&address->mem, address->seeds[i].server);
    pc__free(&address->mem, address->seeds);
    memset(address, 0, sizeof *address);
}

/* ------------------------------------------------------------ names of nodes */

static int is_number(const char *server)
{
    unsigned char number[sizeof(struct in6_addr)];
    char text[INET6_ADDRSTRLEN + 1];
    size_t size = strcspn(server, "%"); /* without the zone */
    if (size >= sizeof text)
        return 0;
    memcpy(text, server, size);
    text[size] = 0;
    return inet_pton(AF_INET, text, number) == 1 || inet_pton(AF_INET6, text, number) == 1;
}

/* Without a final dot. */
static size_t name_size(const char *name)
{
    size_t size = strlen(name);
    return size && name[size - 1] == '.' ? size - 1 : size;
}

/* The domain of a host, with its first dot: at least three names, because two may be a registry's
 * (.co.uk). NULL: it has none. */
static const char *domain_of(const char *host)
{
    const char *dot = strchr(host, '.');
    size_t dots = 0;
    for (const char *c = dot; c && *c; c++)
        dots += *c == '.' && c[1];
    return dots >= 3 && !is_number(host) ? dot : NULL;
}

static int ends_with(const char *name, const char *end)
{
    size_t size = name_size(name), part = name_size(end);
    return size > part && !strncasecmp(name + size - part, end, part);
}

static int is_same_name(const char *a, const char *b)
{
    return name_size(a) == name_size(b) && !strncasecmp(a, b, name_size(a));
}

int pc__remote_address_covers(const pc__remote_address *address, const char *server)
{
    const char *domain;
    if (!address->tls.wanted || address->tls.insecure || address->tls.name)
        return 1; /* nothing is proved, or always the name that was given */
    for (size_t i = 0; i < address->count; i++) {
        const char *given = address->seeds[i].server;
        if (is_same_name(given, server))
            return 1;
        domain = domain_of(given);
        if (domain && !is_number(server) && ends_with(server, domain))
            return 1;
    }
    return 0;
}

/* ------------------------------------------------------------ the resolver */

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
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int error = getaddrinfo(server, port, &hints, &list);
    *count = 0;
    for (const struct addrinfo *a = error ? NULL : list; a && *count < PC__REMOTE_RESOLVER_MOST;
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
    struct sockaddr_un local = {.sun_family = AF_UNIX};
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
    r->started = r->running = !pthread_create(&r->thread, NULL, resolve_thread, r);
    return r->started
               ? PC_OK
               : pc__fail(PC_ERR_IO, "%s: cannot start a thread that resolves the name", r->server);
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
