/* One connection to a server. Nothing here waits beyond its limit, which holds for the whole
 * operation however many turns it takes. One thread at a time. After any failure the connection is
 * of no more use. */
#ifndef PC_STORE_REMOTE_CONNECTION_H
#define PC_STORE_REMOTE_CONNECTION_H

#include <sys/socket.h>

#include "store/remote/remote_reply.h"
#include "store/remote/remote_request.h"
#include "store/remote/remote_tls.h"

typedef struct pc__remote_deadline {
    double deadline; /* pc__now clock */
    int timed_out;   /* set by whoever reached it */
} pc__remote_deadline;

typedef struct pc__remote_socket_address {
    struct sockaddr_storage address;
    socklen_t size;
} pc__remote_socket_address;

typedef struct pc__remote_connection pc__remote_connection;

/* `name` for error texts: copied. `tls` (NULL: none) to `host`, whom the certificate has to name.
 * PC_ERR_IO, PC_ERR_NOMEM. */
pc_status pc__remote_connection_open(pc__remote_connection **out, const pc_allocator *mem,
                                     const pc__remote_socket_address *address, const char *name,
                                     const pc__remote_tls *tls, const char *server,
                                     pc__remote_deadline *limit);
void pc__remote_connection_close(pc__remote_connection *connection); /* NULL does nothing */
/* After a rest: neither closed by the server nor with bytes that nobody asked for. */
int pc__remote_connection_is_usable(const pc__remote_connection *connection);
/* Bytes that have come since it was last asked. */
uint64_t pc__remote_connection_received(pc__remote_connection *connection);

pc_status pc__remote_connection_send(pc__remote_connection *connection,
                                     const pc__remote_request *request, pc__remote_deadline *limit);
/* One command of several, with ASKING before it. */
pc_status pc__remote_connection_send_asking(pc__remote_connection *connection,
                                            const pc__remote_request *request, size_t index,
                                            pc__remote_deadline *limit);
/* One answer. PC_ERR_FORMAT: what comes is none. */
pc_status pc__remote_connection_reply(pc__remote_connection *connection, pc__remote_reply *reply,
                                      pc__remote_deadline *limit);
/* One answer that should be a run of bytes: at most `capacity` of them, straight to `data`, and
 * *got. PC_MISS: it is another answer, in `reply`. */
pc_status pc__remote_connection_bulk(pc__remote_connection *connection, void *data, size_t capacity,
                                     size_t *got, pc__remote_reply *reply,
                                     pc__remote_deadline *limit);
/* The same in parts: its length, then all its bytes in any parts, then its end. */
pc_status pc__remote_connection_bulk_start(pc__remote_connection *connection, size_t *length,
                                           pc__remote_reply *reply, pc__remote_deadline *limit);
pc_status pc__remote_connection_bulk_part(pc__remote_connection *connection, void *data,
                                          size_t size, pc__remote_deadline *limit);
pc_status pc__remote_connection_bulk_end(pc__remote_connection *connection,
                                         pc__remote_deadline *limit);

#endif
