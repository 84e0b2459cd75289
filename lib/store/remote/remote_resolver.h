/* Socket addresses of a server's name. The system's look-up takes no deadline, so it runs on a
 * thread of its own, which lives only for one look-up; callers wait for it until their deadline.
 * Numbers and paths need no look-up. Internally locked. */
#ifndef PC_STORE_REMOTE_RESOLVER_H
#define PC_STORE_REMOTE_RESOLVER_H

#include <sys/socket.h>

#include "base/mem.h"

typedef struct pc__remote_deadline {
    double deadline; /* pc__now clock */
    int timed_out;   /* set by the function that reached it */
} pc__remote_deadline;

typedef struct pc__remote_socket_address {
    struct sockaddr_storage storage;
    socklen_t size;
} pc__remote_socket_address;

typedef struct pc__remote_resolver pc__remote_resolver;

enum { PC__REMOTE_RESOLVER_MOST = 8 }; /* addresses of a name; more are not tried */

/* `port` 0: `server` is the path of a socket. */
pc_status pc__remote_resolver_new(pc__remote_resolver **out, const pc_allocator *mem,
                                  const char *server, uint16_t port);
/* Waits for a look-up that is under way; the system limits its time. NULL does nothing. */
void pc__remote_resolver_free(pc__remote_resolver *resolver);

/* The address that was last connected to, else the first that has not failed. PC_ERR_IO: no such
 * name, or not resolved before the deadline. */
pc_status pc__remote_resolver_get(pc__remote_resolver *resolver, pc__remote_socket_address *out,
                                  pc__remote_deadline *limit);
/* The address of pc__remote_resolver_get could be connected to. */
void pc__remote_resolver_answered(pc__remote_resolver *resolver);
/* It could not. 1: there are others to try; 0: all have failed, the next call resolves again. */
int pc__remote_resolver_failed(pc__remote_resolver *resolver,
                               const pc__remote_socket_address *address);

#endif
