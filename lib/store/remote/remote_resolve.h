/* Addresses of a host's name. The system's look-up cannot be given a deadline, so that it runs on a thread of its own, which is there only while a name is
 * being looked up; whoever needs the answer waits for it as long as it likes. Numbers need no thread. Internally locked. */
#ifndef PC_STORE_REMOTE_RESOLVE_H
#define PC_STORE_REMOTE_RESOLVE_H

#include <sys/socket.h>

#include "base/mem.h"
#include "store/remote/remote_wire.h"

typedef struct pc__resolver pc__resolver;

/* port 0: `host` is the path of a socket. */
pc_status pc__resolver_new(pc__resolver **out, const pc_allocator *mem, const char *host, uint16_t port);
/* Waits for a look-up that is under way: the system gives up after its own time limit. */
void pc__resolver_free(pc__resolver *resolver); /* NULL does nothing */
/* The next of the addresses in turn. PC_ERR_IO: no such name, or not known before the limit. */
pc_status pc__resolver_get(pc__resolver *resolver, pc__place *out, pc__limit *limit);
/* What was known is asked for again: connecting has failed. */
void pc__resolver_forget(pc__resolver *resolver);

#endif
