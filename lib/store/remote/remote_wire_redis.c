/* Answers are handed to hiredis' reader, but for the states themselves: its copy of a run of bytes
 * that grows as they come, and then one more, would cost more than the network. They are received
 * where they belong; what comes before them is one line with their length. */
#include "store/remote/remote_wire.h"

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

struct pc__wire {
    pc_allocator mem;
    int fd;
    char *name;
    pc__reply_reader *reader;
    pc__tls_link *tls; /* NULL: plain */
    uint64_t heard;
    int has_spoken; /* the server, at any time */
    size_t at, end; /* of what lies in `in` */
    char in[IN_BYTES];
};

static pc_status failed(const pc__wire *w, const char *what)
{
    return pc__fail(PC_ERR_IO, "%s: %s: %s", w->name, what, strerror(errno));
}

static pc_status check_time(const pc__wire *w, pc__limit *limit)
{
    if (pc__now() < limit->deadline)
        return PC_OK;
    limit->timed_out = 1;
    return pc__fail(PC_ERR_IO, "%s: no full answer before the deadline", w->name);
}

static pc_status wait_for(const pc__wire *w, short events, pc__limit *limit)
{
    struct pollfd p = {w->fd, events, 0};
    for (;;) {
        double left = limit->deadline - pc__now();
        struct timespec t;
        pc_status status = check_time(w, limit);
        int n;
        if (status < 0)
            return status;
        if (left > 3600)
            left = 3600;
        t.tv_sec = (time_t)(left > 0 ? left : 0);
        t.tv_nsec = left > 0 ? (long)(1e9 * (left - (double)t.tv_sec)) : 0;
        n = ppoll(&p, 1, &t, NULL);
        if (n > 0)
            return PC_OK;
        if (n < 0 && errno != EINTR)
            return failed(w, "poll");
    }
}

static pc_status finish_connect(pc__wire *w, const pc__place *place, pc__limit *limit)
{
    int error = 0;
    socklen_t size = sizeof error;
    pc_status status;
    if (!connect(w->fd, (const struct sockaddr *)&place->address, place->size))
        return PC_OK;
    if (errno != EINPROGRESS)
        return failed(w, "connect");
    status = wait_for(w, POLLOUT, limit);
    if (status < 0)
        return status;
    if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &size))
        return failed(w, "connect");
    errno = error;
    return error ? failed(w, "connect") : PC_OK;
}

/* What a call of TLS has come to: PC_OK when it may be made again. */
static pc_status wait_turn(const pc__wire *w, pc_status status, short wants, pc__limit *limit)
{
    return status < 0 ? pc__fail_in(status, "%s", w->name) : wait_for(w, wants, limit);
}

static pc_status start_tls(pc__wire *w, const pc__tls *tls, const char *host, pc__limit *limit)
{
    pc_status status = pc__tls_link_new(&w->tls, tls, w->fd, host);
    short wants;
    if (status < 0)
        return pc__fail_in(status, "%s", w->name);
    while (status == PC_OK && (status = pc__tls_shake(w->tls, &wants)) != PC_OK)
        status = wait_turn(w, status, wants, limit);
    return status < 0 && limit->timed_out ? pc__fail(
               PC_ERR_IO, "%s: TLS: no end of the handshake before the deadline", w->name)
                                          : status;
}

pc_status pc__wire_open(pc__wire **out, const pc_allocator *mem, const pc__place *place,
                        const char *name, const pc__tls *tls, const char *host, pc__limit *limit)
{
    int on = 1;
    pc_status status = PC_ERR_NOMEM;
    pc__wire *w = pc__alloc(mem, sizeof *w);
    *out = NULL;
    if (!w)
        return status;
    memset(w, 0, offsetof(pc__wire, in));
    w->mem = *mem;
    w->fd = -1;
    if (!(w->name = pc__strdup(mem, name)))
        goto fail;
    PC__TRY(pc__reply_reader_new(&w->reader, mem), fail);
    w->fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (w->fd < 0) {
        status = failed(w, "socket");
        goto fail;
    }
    if (place->address.ss_family != AF_UNIX) {
        setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(w->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    PC__TRY(finish_connect(w, place, limit), fail);
    if (tls)
        PC__TRY(start_tls(w, tls, host, limit), fail);
    *out = w;
    return PC_OK;
fail:
    pc__wire_close(w);
    return status;
}

void pc__wire_close(pc__wire *wire)
{
    if (!wire)
        return;
    pc__tls_link_free(wire->tls);
    if (wire->fd >= 0)
        close(wire->fd);
    pc__reply_reader_free(wire->reader);
    pc__free(&wire->mem, wire->name);
    pc__free(&wire->mem, wire);
}

int pc__wire_is_good(const pc__wire *wire)
{
    struct pollfd p = {wire->fd, POLLIN, 0};
    return wire->at == wire->end && (wire->tls ? pc__tls_is_quiet(wire->tls) : poll(&p, 1, 0) == 0);
}

uint64_t pc__wire_heard(pc__wire *wire)
{
    uint64_t heard = wire->heard;
    wire->heard = 0;
    return heard;
}

static void skip(struct iovec **part, size_t *count, size_t bytes)
{
    for (; *count && bytes >= (*part)->iov_len; ++*part, --*count)
        bytes -= (*part)->iov_len;
    if (*count) {
        (*part)->iov_base = (char *)(*part)->iov_base + bytes;
        (*part)->iov_len -= bytes;
    }
}

/* A record at a time, gathered so that a command is not three of them. */
static pc_status send_records(pc__wire *w, struct iovec *part, size_t count, pc__limit *limit)
{
    char record[PC__TLS_RECORD]; /* holds the password, once */
    pc_status status = PC_OK;
    size_t size = 0;
    for (skip(&part, &count, 0); count && status == PC_OK; skip(&part, &count, 0)) {
        short wants;
        for (size = 0; count && size < sizeof record;) {
            size_t take = part->iov_len < sizeof record - size ? part->iov_len
                                                               : sizeof record - size;
            memcpy(record + size, part->iov_base, take);
            size += take;
            skip(&part, &count, take);
        }
        status = check_time(w, limit);
        while (status == PC_OK && (status = pc__tls_send(w->tls, record, size, &wants)) != PC_OK)
            status = wait_turn(w, status, wants, limit);
    }
    sodium_memzero(record, sizeof record);
    return status;
}

static pc_status send_parts(pc__wire *w, struct iovec *part, size_t count, pc__limit *limit)
{
    if (w->tls)
        return send_records(w, part, count, limit);
    for (skip(&part, &count, 0); count;) {
        struct msghdr message;
        ssize_t n;
        pc_status status = check_time(w, limit);
        if (status < 0)
            return status;
        memset(&message, 0, sizeof message);
        message.msg_iov = part;
        message.msg_iovlen = count;
        n = sendmsg(w->fd, &message, MSG_NOSIGNAL);
        if (n >= 0)
            skip(&part, &count, (size_t)n);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            status = wait_for(w, POLLOUT, limit);
        else if (errno != EINTR)
            status = failed(w, "send");
        if (status < 0)
            return status;
    }
    return PC_OK;
}

static struct iovec part_of(const void *data, size_t size)
{
    union {
        const void *from;
        void *to;
    } cast = {data}; /* sendmsg does not write it */
    struct iovec part = {cast.to, size};
    return part;
}

/* Bytes [from, to) of the text, with the value where it belongs. */
static pc_status send_range(pc__wire *w, const char *before, const pc__request *r, size_t from,
                            size_t to, pc__limit *limit)
{
    struct iovec parts[4];
    size_t split = r->value && r->split >= from && r->split < to ? r->split : to;
    parts[0] = part_of(before, strlen(before));
    parts[1] = part_of(r->text.data + from, split - from);
    parts[2] = part_of(r->value, split < to ? r->value_size : 0);
    parts[3] = part_of(r->text.data + split, to - split);
    return send_parts(w, parts, 4, limit);
}

pc_status pc__wire_send(pc__wire *wire, const pc__request *request, pc__limit *limit)
{
    return send_range(wire, "", request, 0, request->text.size, limit);
}

pc_status pc__wire_send_asking(pc__wire *wire, const pc__request *request, size_t index,
                               pc__limit *limit)
{
    size_t end = index + 1 < request->count ? request->starts[index + 1] : request->text.size;
    return send_range(wire, "*1\r\n$6\r\nASKING\r\n", request, request->starts[index], end, limit);
}

static pc_status receive_plain(const pc__wire *w, void *data, size_t size, size_t *got,
                               short *wants)
{
    ssize_t n = recv(w->fd, data, size, 0);
    *wants = POLLIN;
    *got = n > 0 ? (size_t)n : 0;
    if (n > 0)
        return PC_OK;
    if (!w->has_spoken && (n == 0 || errno == ECONNRESET)) /* what Redis does on a port for TLS */
        return pc__fail(PC_ERR_IO,
                        "%s: the server has closed the connection without a word; does it want TLS "
                        "(rediss://)?",
                        w->name);
    if (n == 0)
        return pc__fail(PC_ERR_IO, "%s: the server has closed the connection", w->name);
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? PC_AGAIN
                                                                     : failed(w, "receive");
}

/* At least one byte, at most `size`. */
static pc_status receive(pc__wire *w, void *data, size_t size, size_t *got, pc__limit *limit)
{
    for (;;) {
        pc_status status = check_time(w, limit);
        short wants;
        if (status < 0)
            return status;
        status = w->tls ? pc__tls_receive(w->tls, data, size, got, &wants)
                        : receive_plain(w, data, size, got, &wants);
        if (status == PC_OK) {
            w->heard += *got;
            w->has_spoken = 1;
            return PC_OK;
        }
        if (status < 0)
            return w->tls ? pc__fail_in(status, "%s", w->name) : status;
        status = wait_for(w, wants, limit);
        if (status < 0)
            return status;
    }
}

static pc_status fill(pc__wire *w, pc__limit *limit)
{
    size_t got;
    pc_status status;
    if (w->at == w->end)
        w->at = w->end = 0;
    if (w->end == IN_BYTES) {
        memmove(w->in, w->in + w->at, w->end - w->at);
        w->end -= w->at;
        w->at = 0;
    }
    status = receive(w, w->in + w->end, IN_BYTES - w->end, &got, limit);
    if (status == PC_OK)
        w->end += got;
    return status;
}

pc_status pc__wire_reply(pc__wire *wire, pc__reply *reply, pc__limit *limit)
{
    pc__reply_clear(reply);
    for (;;) {
        const char *from, *line;
        size_t size;
        pc_status status = wire->at < wire->end ? PC_OK : fill(wire, limit);
        if (status < 0)
            return status;
        from = wire->in + wire->at;
        line = memchr(from, '\n', wire->end - wire->at);
        size = line ? (size_t)(line + 1 - from) : wire->end - wire->at;
        wire->at += size;
        status = pc__reply_feed(wire->reader, reply, from, size);
        if (status == PC_OK)
            return PC_OK;
        if (status < 0)
            return pc__fail_in(status, "%s", wire->name);
    }
}

pc_status pc__wire_bulk_part(pc__wire *wire, void *data, size_t size, pc__limit *limit)
{
    size_t have = wire->end - wire->at < size ? wire->end - wire->at : size, got;
    memcpy(data, wire->in + wire->at, have);
    wire->at += have;
    for (; have < size; have += got) {
        pc_status status = receive(wire, (char *)data + have, size - have, &got, limit);
        if (status < 0)
            return status;
    }
    return PC_OK;
}

pc_status pc__wire_bulk_end(pc__wire *wire, pc__limit *limit)
{
    char end[2];
    pc_status status = pc__wire_bulk_part(wire, end, sizeof end, limit);
    if (status == PC_OK && (end[0] != '\r' || end[1] != '\n'))
        status = pc__fail(PC_ERR_FORMAT, "%s: a run of bytes that does not end where it should",
                          wire->name);
    return status;
}

/* "$123\r\n" at the start of what has come: its number. PC_MISS: another kind of answer. */
static pc_status bulk_length(pc__wire *w, size_t *length, pc__limit *limit)
{
    const char *line, *end;
    pc_status status = PC_OK;
    for (; w->at == w->end || (w->in[w->at] == '$' && !memchr(w->in + w->at, '\n', w->end - w->at));
         status = fill(w, limit))
        if (status < 0 || w->end - w->at > LINE_MAX_BYTES)
            break;
    if (status < 0)
        return status;
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
        return pc__fail(PC_ERR_FORMAT, "%s: a length that is no number", w->name);
    w->at += (size_t)(end + 2 - line);
    return PC_OK;
}

pc_status pc__wire_bulk_start(pc__wire *wire, size_t *length, pc__reply *reply, pc__limit *limit)
{
    pc_status status = bulk_length(wire, length, limit);
    if (status != PC_MISS)
        return status;
    status = pc__wire_reply(wire, reply, limit);
    return status < 0 ? status : PC_MISS;
}

pc_status pc__wire_bulk(pc__wire *wire, void *data, size_t capacity, size_t *got, pc__reply *reply,
                        pc__limit *limit)
{
    pc_status status = pc__wire_bulk_start(wire, got, reply, limit);
    if (status != PC_OK)
        return status;
    if (*got > capacity)
        return pc__fail(PC_ERR_FORMAT, "%s: %zu bytes in answer to a request for %zu", wire->name,
                        *got, capacity);
    status = pc__wire_bulk_part(wire, data, *got, limit);
    return status < 0 ? status : pc__wire_bulk_end(wire, limit);
}
