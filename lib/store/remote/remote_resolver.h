/* Addresses of a host's name. The system's look-up cannot be given a deadline, so that it runs on a
 * thread of its own, which is there only while a name is being looked up; whoever needs the answer
 * waits for it as long as it likes. Numbers need no thread. Internally locked. */
#ifndef PC_STORE_REMOTE_RESOLVER_H
#define PC_STORE_REMOTE_RESOLVER_H

#include <sys/socket.h>

#include "base/mem.h"
#include "store/remote/remote_connection.h"

typedef struct pc__remote_resolver pc__remote_resolver;

/* port 0: `host` is the path of a socket. */
pc_status pc__remote_resolver_new(pc__remote_resolver **out, const pc_allocator *mem,
                                  const char *server, uint16_t port);
/* Waits for a look-up that is under way: the system gives up after its own time limit. */
void pc__remote_resolver_free(pc__remote_resolver *resolver); /* NULL does nothing */
enum { PC__REMOTE_RESOLVER_MOST = 8 }; /* addresses of a name; further ones are not tried */

/* The address that answered last, else the first of those that have not failed. PC_ERR_IO: no such
 * name, or not known before the limit. */
pc_status pc__remote_resolver_get(pc__remote_resolver *resolver, pc__remote_socket_address *out,
                                  pc__remote_deadline *limit);
void pc__remote_resolver_answered(pc__remote_resolver *resolver);
/* The one that pc__resolver_get gave cannot be connected to. 1: it may give another one now; 0: all
 * have failed, and the name is looked up again when it is asked for next. */
int pc__remote_resolver_failed(pc__remote_resolver *resolver,
                               const pc__remote_socket_address *address);

#endif
