/* A server of the test that speaks RESP and answers as the test wants: on a free port of 127.0.0.1,
 * or on a socket of the file system. One thread; its connections are served in turn. */
#ifndef PC_FAKE_REDIS_H
#define PC_FAKE_REDIS_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "redis_server.h"
#include "testing.h"

enum { FAKE_CONNECTIONS = 16, FAKE_BYTES = 1 << 16, FAKE_WORDS = 8 };

typedef struct fake_redis fake_redis;
struct fake_redis {
    int listener, port;
    /* Answers one command with fake_send. 0: the connection is closed. */
    int (*answer)(fake_redis *fake, int fd, size_t count, char **words);
    void *user;
    atomic_int stop, taken, commands; /* connections and commands so far */
    int fds[FAKE_CONNECTIONS];
    size_t used[FAKE_CONNECTIONS];
    char (*in)[FAKE_BYTES];
    pthread_t thread;
};

static inline int fake_send(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        if (n <= 0)
            return 0;
        at += n;
        size -= (size_t)n;
    }
    return 1;
}

static inline int fake_text(int fd, const char *text)
{
    return fake_send(fd, text, strlen(text));
}

/* Reads one command at the start of [size] bytes, in place. Returns its bytes; 0: not whole yet. */
static inline size_t fake_parse(char *data, size_t size, char **words, size_t *count)
{
    char *at = data, *end = data + size, *line;
    long arguments, length;
    *count = 0;
    if (!(line = memchr(at, '\n', (size_t)(end - at))) || *at != '*')
        return 0;
    arguments = atol(at + 1);
    for (at = line + 1; arguments; arguments--) {
        if (!(line = memchr(at, '\n', (size_t)(end - at))))
            return 0;
        length = atol(at + 1);
        if (end - (line + 1) < length + 2)
            return 0;
        if (*count < FAKE_WORDS)
            words[(*count)++] = line + 1;
        at = line + 1 + length + 2;
    }
    for (size_t i = 0; i < *count; i++) /* only now: an unfinished command is read again */
        *strchr(words[i], '\r') = 0;
    return (size_t)(at - data);
}

static inline void fake_drop(fake_redis *f, int i)
{
    close(f->fds[i]);
    f->fds[i] = -1;
    f->used[i] = 0;
}

static inline void fake_receive(fake_redis *f, int i)
{
    char *words[FAKE_WORDS];
    size_t count, size;
    ssize_t n = recv(f->fds[i], f->in[i] + f->used[i], FAKE_BYTES - 1 - f->used[i], 0);
    if (n <= 0) {
        fake_drop(f, i);
        return;
    }
    f->used[i] += (size_t)n;
    f->in[i][f->used[i]] = 0;
    while (f->used[i] && (size = fake_parse(f->in[i], f->used[i], words, &count))) {
        atomic_fetch_add(&f->commands, 1);
        if (!f->answer(f, f->fds[i], count, words)) {
            fake_drop(f, i);
            return;
        }
        memmove(f->in[i], f->in[i] + size, f->used[i] - size + 1);
        f->used[i] -= size;
    }
}

static inline void *fake_serve(void *arg)
{
    fake_redis *f = arg;
    while (!atomic_load(&f->stop)) {
        struct pollfd fds[1 + FAKE_CONNECTIONS];
        int fd;
        fds[0] = (struct pollfd){f->listener, POLLIN, 0};
        for (int i = 0; i < FAKE_CONNECTIONS; i++)
            fds[1 + i] = (struct pollfd){f->fds[i], POLLIN, 0};
        if (poll(fds, 1 + FAKE_CONNECTIONS, 5) <= 0)
            continue;
        for (int i = 0; i < FAKE_CONNECTIONS; i++)
            if (fds[1 + i].revents)
                fake_receive(f, i);
        if (!fds[0].revents || (fd = accept(f->listener, NULL, NULL)) < 0)
            continue;
        atomic_fetch_add(&f->taken, 1);
        for (int i = 0; i < FAKE_CONNECTIONS && fd >= 0; i++)
            if (f->fds[i] < 0) {
                f->fds[i] = fd;
                fd = -1;
            }
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

/* `path` NULL: on a port. */
static inline void fake_start(fake_redis *f, const char *path,
                              int (*answer)(fake_redis *fake, int fd, size_t count, char **words),
                              void *user)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in a = pc_redis_address(0);
    socklen_t size = sizeof a;
    memset(f, 0, sizeof *f);
    f->answer = answer;
    f->user = user;
    f->in = calloc(FAKE_CONNECTIONS, FAKE_BYTES);
    for (int i = 0; i < FAKE_CONNECTIONS; i++)
        f->fds[i] = -1;
    f->listener = socket(path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (path) {
        snprintf(local.sun_path, sizeof local.sun_path, "%s", path);
        unlink(path);
        CHECK(!bind(f->listener, (struct sockaddr *)&local, sizeof local));
    } else {
        CHECK(!bind(f->listener, (struct sockaddr *)&a, sizeof a)
              && !getsockname(f->listener, (struct sockaddr *)&a, &size));
        f->port = ntohs(a.sin_port);
    }
    CHECK(!listen(f->listener, 16));
    CHECK(!pthread_create(&f->thread, NULL, fake_serve, f));
}

static inline void fake_end(fake_redis *f)
{
    atomic_store(&f->stop, 1);
    pthread_join(f->thread, NULL);
    for (int i = 0; i < FAKE_CONNECTIONS; i++)
        if (f->fds[i] >= 0)
            close(f->fds[i]);
    close(f->listener);
    free(f->in);
}

#endif
