/* One connection to a server. Nothing here waits beyond its limit, which holds for the whole
 * operation however many turns it takes. One thread at a time. After any failure the connection is
 * of no more use. */
#ifndef PC_STORE_REMOTE_WIRE_H
#define PC_STORE_REMOTE_WIRE_H

#include <sys/socket.h>

#include "store/remote/remote_reply.h"
#include "store/remote/remote_request.h"
#include "store/remote/remote_tls.h"

typedef struct pc__limit {
    double deadline; /* pc__now clock */
    int timed_out;   /* set by whoever reached it */
} pc__limit;

typedef struct pc__place {
    struct sockaddr_storage address;
    socklen_t size;
} pc__place;

typedef struct pc__wire pc__wire;

/* `name` for error texts: copied. `tls` (NULL: none) to `host`, whom the certificate has to name.
 * PC_ERR_IO, PC_ERR_NOMEM. */
pc_status pc__wire_open(pc__wire **out, const pc_allocator *mem, const pc__place *place,
                        const char *name, const pc__tls *tls, const char *host, pc__limit *limit);
void pc__wire_close(pc__wire *wire); /* NULL does nothing */
/* After a rest: neither closed by the server nor with bytes that nobody asked for. */
int pc__wire_is_good(const pc__wire *wire);
/* Bytes that have come since it was last asked. */
uint64_t pc__wire_heard(pc__wire *wire);

pc_status pc__wire_send(pc__wire *wire, const pc__request *request, pc__limit *limit);
/* One command of several, with ASKING before it. */
pc_status pc__wire_send_asking(pc__wire *wire, const pc__request *request, size_t index,
                               pc__limit *limit);
/* One answer. PC_ERR_FORMAT: what comes is none. */
pc_status pc__wire_reply(pc__wire *wire, pc__reply *reply, pc__limit *limit);
/* One answer that should be a run of bytes: at most `capacity` of them, straight to `data`, and
 * *got. PC_MISS: it is another answer, in `reply`. */
pc_status pc__wire_bulk(pc__wire *wire, void *data, size_t capacity, size_t *got, pc__reply *reply,
                        pc__limit *limit);
/* The same in parts: its length, then all its bytes in any parts, then its end. */
pc_status pc__wire_bulk_start(pc__wire *wire, size_t *length, pc__reply *reply, pc__limit *limit);
pc_status pc__wire_bulk_part(pc__wire *wire, void *data, size_t size, pc__limit *limit);
pc_status pc__wire_bulk_end(pc__wire *wire, pc__limit *limit);

#endif
