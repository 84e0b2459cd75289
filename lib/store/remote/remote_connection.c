/* hiredis' reader parses all replies but bulk strings of states: it would copy them twice, which
 * costs more than the network. We read their length and receive the bytes where they belong. */
#include "store/remote/remote_connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"

enum { IN_BYTES = 16384, LINE_MAX_BYTES = 24 };

struct pc__remote_connection {
    pc_allocator mem;
    int fd;
    char *name;
    struct redisReader *reader;
    pc__remote_tls_session *tls; /* NULL: plain */
    uint64_t received;
    int has_received; /* anything, since it was opened */
    size_t at, end;   /* of the bytes in `in` that are not consumed */
    char in[IN_BYTES];
};

static pc_status socket_error(const pc__remote_connection *w, const char *what)
{
    return pc__fail(PC_ERR_IO, "%s: %s: %s", w->name, what, strerror(errno));
}

static pc_status check_time(const pc__remote_connection *w, pc__remote_deadline *limit)
{
    if (pc__now() < limit->deadline)
        return PC_OK;
    limit->timed_out = 1;
    return pc__fail(PC_ERR_IO, "%s: no complete reply before the deadline", w->name);
}

static pc_status wait_until_ready(const pc__remote_connection *w, short events,
                                  pc__remote_deadline *limit)
{
    struct pollfd p = {w->fd, events, 0};
    for (;;) {
        struct timespec left = pc__timespec(limit->deadline - pc__now());
        int n;
        PC__TRY_RETURN(check_time(w, limit));
        n = ppoll(&p, 1, &left, NULL);
        if (n > 0)
            return PC_OK;
        if (n < 0 && errno != EINTR)
            return socket_error(w, "poll");
    }
}

static pc_status finish_connect(pc__remote_connection *w, const pc__remote_socket_address *address,
                                pc__remote_deadline *limit)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (!connect(w->fd, (const struct sockaddr *)&address->storage, address->size))
        return PC_OK;
    if (errno != EINPROGRESS)
        return socket_error(w, "connect");
    PC__TRY_RETURN(wait_until_ready(w, POLLOUT, limit));
    if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &size))
        return socket_error(w, "connect");
    errno = error;
    return error ? socket_error(w, "connect") : PC_OK;
}

/* Whoever may write to the folder of a socket could put his own there, and would get the login. */
static pc_status check_owner(const pc__remote_connection *w, const uint32_t *owner)
{
#ifdef SO_PEERCRED
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(w->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
        return socket_error(w, "SO_PEERCRED");
    if (owner ? peer.uid == *owner : peer.uid == geteuid() || peer.uid == 0)
        return PC_OK;
    return pc__fail(PC_ERR_IO,
                    "%s: user %lu listens there, not %s; the address may name the owner of a "
                    "socket: ?owner=USER",
                    w->name, (unsigned long)peer.uid,
                    owner ? "the owner that the address names" : "this user or root");
#else
    (void)owner;
    return pc__fail(PC_ERR_IO, "%s: this system does not tell who listens on a socket", w->name);
#endif
}

/* After a TLS function: PC_OK when it may be called again. */
static pc_status wait_for_tls(const pc__remote_connection *w, pc_status status, short wants,
                              pc__remote_deadline *limit)
{
    return status < 0 ? pc__fail_in(status, "%s", w->name) : wait_until_ready(w, wants, limit);
}

static pc_status start_tls(pc__remote_connection *w, const pc__remote_tls *tls, const char *server,
                           pc__remote_deadline *limit)
{
    pc_status status = pc__tls.session_new(&w->tls, tls, w->fd, server);
    short wants;
    if (status < 0)
        return pc__fail_in(status, "%s", w->name);
    while (status == PC_OK && (status = pc__tls.handshake(w->tls, &wants)) != PC_OK)
        status = wait_for_tls(w, status, wants, limit);
    if (status < 0 && limit->timed_out)
        pc__fail(PC_ERR_IO, "%s: TLS: no end of the handshake before the deadline", w->name);
    return status;
}

pc_status pc__remote_connection_open(pc__remote_connection **out, const pc_allocator *mem,
                                     const pc__remote_socket_address *address, const char *name,
                                     const pc__remote_tls *tls, const char *server,
                                     const uint32_t *owner, pc__remote_deadline *limit)
{
    int on = 1;
    pc_status status = PC_ERR_NOMEM;
    pc__remote_connection *w = pc__alloc(mem, sizeof *w);
    *out = NULL;
    if (!w)
        return status;
    memset(w, 0, offsetof(pc__remote_connection, in));
    w->mem = *mem;
    w->fd = -1;
    if (!(w->name = pc__strdup(mem, name)) || !(w->reader = pc__remote_reader_new()))
        goto fail;
    w->fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (w->fd < 0) {
        status = socket_error(w, "socket");
        goto fail;
    }
    if (address->storage.ss_family != AF_UNIX) {
        setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(w->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    PC__TRY(finish_connect(w, address, limit), fail);
    if (address->storage.ss_family == AF_UNIX)
        PC__TRY(check_owner(w, owner), fail);
    if (tls)
        PC__TRY(start_tls(w, tls, server, limit), fail);
    *out = w;
    return PC_OK;
fail:
    pc__remote_connection_close(w);
    return status;
}

void pc__remote_connection_close(pc__remote_connection *connection)
{
    if (!connection)
        return;
    if (connection->tls)
        pc__tls.session_free(connection->tls);
    if (connection->fd >= 0)
        close(connection->fd);
    pc__remote_reader_free(connection->reader);
    pc__free(&connection->mem, connection->name);
    pc__free(&connection->mem, connection);
}

int pc__remote_connection_is_usable(const pc__remote_connection *connection)
{
    struct pollfd p = {connection->fd, POLLIN, 0};
    return connection->at == connection->end
           && (connection->tls ? pc__tls.is_idle(connection->tls) : poll(&p, 1, 0) == 0);
}

uint64_t pc__remote_connection_received(pc__remote_connection *connection)
{
    uint64_t received = connection->received;
    connection->received = 0;
    return received;
}

static void skip_sent(struct iovec **part, size_t *count, size_t bytes)
{
    for (; *count && bytes >= (*part)->iov_len; ++*part, --*count)
        bytes -= (*part)->iov_len;
    if (*count) {
        (*part)->iov_base = (char *)(*part)->iov_base + bytes;
        (*part)->iov_len -= bytes;
    }
}

/* Gathers the parts, so that a short command is one TLS record, not three. */
static pc_status send_records(pc__remote_connection *w, struct iovec *part, size_t count,
                              pc__remote_deadline *limit)
{
    char record[PC__REMOTE_TLS_RECORD]; /* may hold the password */
    pc_status status = PC_OK;
    size_t size = 0;
    for (skip_sent(&part, &count, 0); count && status == PC_OK; skip_sent(&part, &count, 0)) {
        short wants;
        for (size = 0; count && size < sizeof record;) {
            size_t n = part->iov_len < sizeof record - size ? part->iov_len : sizeof record - size;
            memcpy(record + size, part->iov_base, n);
            size += n;
            skip_sent(&part, &count, n);
        }
        status = check_time(w, limit);
        while (status == PC_OK && (status = pc__tls.send(w->tls, record, size, &wants)) != PC_OK)
            status = wait_for_tls(w, status, wants, limit);
    }
    sodium_memzero(record, sizeof record);
    return status;
}

static pc_status send_parts(pc__remote_connection *w, struct iovec *part, size_t count,
                            pc__remote_deadline *limit)
{
    if (w->tls)
        return send_records(w, part, count, limit);
    for (skip_sent(&part, &count, 0); count;) {
        struct msghdr message = {.msg_iov = part, .msg_iovlen = count};
        ssize_t n;
        PC__TRY_RETURN(check_time(w, limit));
        n = sendmsg(w->fd, &message, MSG_NOSIGNAL);
        if (n >= 0)
            skip_sent(&part, &count, (size_t)n);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            PC__TRY_RETURN(wait_until_ready(w, POLLOUT, limit));
        else if (errno != EINTR)
            return socket_error(w, "send");
    }
    return PC_OK;
}

static struct iovec part_of(const void *data, size_t size)
{
    return (struct iovec){(void *)(uintptr_t)data, size}; /* sendmsg does not write it */
}

/* Bytes [from, to) of the text, with the value at its place. */
static pc_status send_range(pc__remote_connection *w, const char *before,
                            const pc__remote_request *r, size_t from, size_t to,
                            pc__remote_deadline *limit)
{
    size_t split = r->value && r->split >= from && r->split < to ? r->split : to;
    struct iovec parts[] = {part_of(before, strlen(before)),
                            part_of(r->text.data + from, split - from),
                            part_of(r->value, split < to ? r->value_size : 0),
                            part_of(r->text.data + split, to - split)};
    return send_parts(w, parts, sizeof parts / sizeof *parts, limit);
}

pc_status pc__remote_connection_send(pc__remote_connection *connection,
                                     const pc__remote_request *request, pc__remote_deadline *limit)
{
    return send_range(connection, "", request, 0, request->text.size, limit);
}

pc_status pc__remote_connection_send_asking(pc__remote_connection *connection,
                                            const pc__remote_request *request, size_t index,
                                            pc__remote_deadline *limit)
{
    size_t end = index + 1 < request->count ? request->starts[index + 1] : request->text.size;
    return send_range(connection, "*1\r\n$6\r\nASKING\r\n", request, request->starts[index], end,
                      limit);
}

static pc_status receive_plain(const pc__remote_connection *w, void *data, size_t size, size_t *got,
                               short *wants)
{
    ssize_t n = recv(w->fd, data, size, 0);
    *wants = POLLIN;
    *got = n > 0 ? (size_t)n : 0;
    if (n > 0)
        return PC_OK;
    if (!w->has_received && (n == 0 || errno == ECONNRESET)) /* as Redis does on its TLS port */
        return pc__fail(PC_ERR_IO,
                        "%s: the server has closed the connection before any reply; if it expects "
                        "TLS, use rediss://",
                        w->name);
    if (n == 0)
        return pc__fail(PC_ERR_IO, "%s: the server has closed the connection", w->name);
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? PC_AGAIN
                                                                     : socket_error(w, "receive");
}

/* At least one byte, at most `size`. */
static pc_status receive(pc__remote_connection *w, void *data, size_t size, size_t *got,
                         pc__remote_deadline *limit)
{
    for (;;) {
        pc_status status;
        short wants;
        PC__TRY_RETURN(check_time(w, limit));
        status = w->tls ? pc__tls.receive(w->tls, data, size, got, &wants)
                        : receive_plain(w, data, size, got, &wants);
        if (status == PC_OK) {
            w->received += *got;
            w->has_received = 1;
            return PC_OK;
        }
        if (status < 0)
            return w->tls ? pc__fail_in(status, "%s", w->name) : status;
        PC__TRY_RETURN(wait_until_ready(w, wants, limit));
    }
}

static pc_status fill_buffer(pc__remote_connection *w, pc__remote_deadline *limit)
{
    size_t got;
    if (w->at == w->end)
        w->at = w->end = 0;
    if (w->end == IN_BYTES) {
        memmove(w->in, w->in + w->at, w->end - w->at);
        w->end -= w->at;
        w->at = 0;
    }
    PC__TRY_RETURN(receive(w, w->in + w->end, IN_BYTES - w->end, &got, limit));
    w->end += got;
    return PC_OK;
}

pc_status pc__remote_connection_reply(pc__remote_connection *connection, pc__remote_reply *reply,
                                      pc__remote_deadline *limit)
{
    pc__remote_reply_clear(reply);
    for (;;) {
        const char *from, *line;
        size_t size;
        pc_status status;
        if (connection->at == connection->end)
            PC__TRY_RETURN(fill_buffer(connection, limit));
        from = connection->in + connection->at;
        line = memchr(from, '\n', connection->end - connection->at);
        size = line ? (size_t)(line + 1 - from) : connection->end - connection->at;
        connection->at += size;
        status = pc__remote_reply_feed(connection->reader, reply, from, size);
        if (status == PC_OK)
            return PC_OK;
        if (status < 0)
            return pc__fail_in(status, "%s", connection->name);
    }
}

/* Exactly `size` bytes. */
static pc_status receive_all(pc__remote_connection *w, void *data, size_t size,
                             pc__remote_deadline *limit)
{
    size_t buffered = w->end - w->at, have = buffered < size ? buffered : size, got;
    memcpy(data, w->in + w->at, have);
    w->at += have;
    for (; have < size; have += got)
        PC__TRY_RETURN(receive(w, (char *)data + have, size - have, &got, limit));
    return PC_OK;
}

/* Reads "$123\r\n". PC_MISS: the reply is of another kind. */
static pc_status bulk_length(pc__remote_connection *w, size_t *length, pc__remote_deadline *limit)
{
    const char *line, *end;
    while (w->end - w->at <= LINE_MAX_BYTES
           && (w->at == w->end
               || (w->in[w->at] == '$' && !memchr(w->in + w->at, '\n', w->end - w->at))))
        PC__TRY_RETURN(fill_buffer(w, limit));
    line = w->in + w->at;
    if (line[0] != '$' || (w->end - w->at > 1 && line[1] == '-'))
        return PC_MISS;
    end = memchr(line, '\r', w->end - w->at < LINE_MAX_BYTES ? w->end - w->at : LINE_MAX_BYTES);
    *length = 0;
    for (const char *c = line + 1; end && c < end; c++)
        if (*c < '0' || *c > '9' || *length > SIZE_MAX / 16)
            end = NULL;
        else
            *length = 10 * *length + (size_t)(*c - '0');
    if (!end || end == line + 1 || end[1] != '\n')
        return pc__fail(PC_ERR_FORMAT, "%s: the length of a bulk string is not a number", w->name);
    w->at += (size_t)(end + 2 - line);
    return PC_OK;
}

pc_status pc__remote_connection_bulk_start(pc__remote_connection *connection, size_t *length,
                                           pc__remote_reply *reply, pc__remote_deadline *limit)
{
    pc_status status = bulk_length(connection, length, limit);
    if (status != PC_MISS)
        return status;
    status = pc__remote_connection_reply(connection, reply, limit);
    return status < 0 ? status : PC_MISS;
}

pc_status pc__remote_connection_bulk_part(pc__remote_connection *connection, void *data,
                                          size_t size, int is_last, pc__remote_deadline *limit)
{
    char end[2];
    PC__TRY_RETURN(receive_all(connection, data, size, limit));
    if (!is_last)
        return PC_OK;
    PC__TRY_RETURN(receive_all(connection, end, sizeof end, limit));
    if (end[0] == '\r' && end[1] == '\n')
        return PC_OK;
    return pc__fail(PC_ERR_FORMAT, "%s: a bulk string has no end mark after its length",
                    connection->name);
}
