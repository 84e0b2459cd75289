/* TLS of a connection, by OpenSSL. Nothing here waits: who gets PC_AGAIN waits for `*wants` (POLLIN
 * or POLLOUT) and calls again with the same arguments. Errors name the cause; the caller adds the
 * server. A server has to prove that it is the one that was meant: its certificate must come from
 * an authority that is trusted, be in its time, and be made out to the name (or number) under which
 * the server was looked for. */
#ifndef PC_STORE_REMOTE_TLS_H
#define PC_STORE_REMOTE_TLS_H

#include "store/remote/remote_address.h"

typedef struct pc__remote_tls
    pc__remote_tls; /* what the connections of one address share: immutable, for any threads */
typedef struct pc__remote_tls_session
    pc__remote_tls_session; /* one connection's: one thread at a time; of no more use after an error
                             */

/* Reads the files that the address names. PC_ERR_IO: not there; PC_ERR_INVALID: not such files;
 * PC_ERR_UNSUPPORTED: built without OpenSSL. */
pc_status pc__remote_tls_new(pc__remote_tls **out, const pc_allocator *mem,
                             const pc__remote_tls_options *options);
void pc__remote_tls_free(pc__remote_tls *tls); /* NULL does nothing; after all its links */

/* `fd` does not block, and stays the caller's. */
pc_status pc__remote_tls_session_new(pc__remote_tls_session **out, const pc__remote_tls *tls,
                                     int fd, const char *server);
void pc__remote_tls_session_free(
    pc__remote_tls_session *session); /* tells the server; NULL does nothing */
pc_status pc__remote_tls_handshake(pc__remote_tls_session *session, short *wants);
pc_status pc__remote_tls_receive(pc__remote_tls_session *session, void *data, size_t size,
                                 size_t *got, short *wants); /* at least one byte */
pc_status pc__remote_tls_send(pc__remote_tls_session *session, const void *data, size_t size,
                              short *wants); /* all; size: 1 … PC__TLS_RECORD */
/* Neither closed by the server nor with bytes that nobody asked for, but for what TLS says itself
 * at any time. */
int pc__remote_tls_is_idle(pc__remote_tls_session *session);

enum { PC__REMOTE_TLS_RECORD = 16384 };

#endif
