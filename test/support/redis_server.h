/* A redis-server for one test: a child process on a free port of 127.0.0.1, which ends with the
 * test, however the test ends. */
#ifndef PC_REDIS_SERVER_H
#define PC_REDIS_SERVER_H

#include <netinet/in.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct pc_redis {
    pid_t pid; /* 0: not running */
    int port;
    char arguments[512]; /* what it was started with beside the port, split at blanks */
    char folder[256];
} pc_redis;

int pc_redis_installed(void); /* 0 also in tests without plug-in modules */
/* For tests with other cases too: is there a server, and can the library of this build use it? */
#ifdef PC_HAVE_HIREDIS
#define PC_REDIS_IS_THERE pc_redis_installed()
#else
#define PC_REDIS_IS_THERE 0
#endif
/* Ends the test as skipped if redis-server is not installed; as failed if it does not start. */
pc_redis pc_redis_start(const char *arguments);
void pc_redis_again(pc_redis *server);  /* on the same port, empty */
void pc_redis_kill(pc_redis *server);   /* SIGKILL, waits */
void pc_redis_freeze(pc_redis *server); /* SIGSTOP */
void pc_redis_thaw(pc_redis *server);
int pc_redis_free_port(void);
struct sockaddr_in pc_redis_address(int port); /* on 127.0.0.1 */

/* Sends a command as a line (no blanks within its words) and gives the answer as text: a status, a
 * number, a run of bytes, "(nil)", an error with its "-", or the elements of an array joined by
 * blanks. A static ring of buffers. */
const char *pc_redis_ask(const pc_redis *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Renames all values whose names begin with `from`, so that they begin with `to`. */
void pc_redis_rename(const pc_redis *server, const char *from, const char *to);

int pc_redis_clients(
    const pc_redis *server); /* connected now, but for the one that asks; -1: no answer */
void pc_redis_until(const pc_redis *server,
                    int clients); /* waits until there are no more connections: then all their
                                     commands have had their effect */

#endif
