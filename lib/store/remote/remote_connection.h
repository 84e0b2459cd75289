/* One connection to a server. No function waits beyond its deadline, which holds for the whole
 * operation. One thread at a time. After a failure the connection must be closed. */
#ifndef PC_STORE_REMOTE_CONNECTION_H
#define PC_STORE_REMOTE_CONNECTION_H

#include "store/remote/remote_resp.h"
#include "store/remote/remote_tls.h"

typedef struct pc__remote_connection pc__remote_connection;

/* `name` is for error texts, copied. With `tls` the certificate must name `server`. The process
 * that listens on a socket of this machine must belong to us, to root, or to *owner if that is not
 * NULL. PC_ERR_IO, PC_ERR_NOMEM. */
pc_status pc__remote_connection_open(pc__remote_connection **out, const pc_allocator *mem,
                                     const pc__remote_socket_address *address, const char *name,
                                     const pc__remote_tls *tls, const char *server,
                                     const uint32_t *owner, pc__remote_deadline *limit);
void pc__remote_connection_close(pc__remote_connection *connection); /* NULL does nothing */
/* 0: the server has closed the idle connection, or sent bytes that nobody asked for. */
int pc__remote_connection_is_usable(const pc__remote_connection *connection);
/* Bytes received since the last call of this function. */
uint64_t pc__remote_connection_received(pc__remote_connection *connection);

pc_status pc__remote_connection_send(pc__remote_connection *connection,
                                     const pc__remote_request *request, pc__remote_deadline *limit);
/* One command of several, with ASKING before it. */
pc_status pc__remote_connection_send_asking(pc__remote_connection *connection,
                                            const pc__remote_request *request, size_t index,
                                            pc__remote_deadline *limit);
/* One reply. PC_ERR_FORMAT: the bytes are not a reply. */
pc_status pc__remote_connection_reply(pc__remote_connection *connection, pc__remote_reply *reply,
                                      pc__remote_deadline *limit);
/* The length of a reply that should be a bulk string. PC_MISS: it is another reply, in `reply`. */
pc_status pc__remote_connection_bulk_start(pc__remote_connection *connection, size_t *length,
                                           pc__remote_reply *reply, pc__remote_deadline *limit);
/* Its next `size` bytes; `is_last`: and its end. All bytes must be received. */
pc_status pc__remote_connection_bulk_part(pc__remote_connection *connection, void *data,
                                          size_t size, int is_last, pc__remote_deadline *limit);

#endif
