/* TLS of a connection, by OpenSSL. No function waits: after PC_AGAIN the caller waits for `*wants`
 * (POLLIN or POLLOUT) and calls again with the same arguments. Error texts name the cause; the
 * caller adds the server. A server's certificate must come from a trusted authority, be valid now,
 * and name the server as the address does. */
#ifndef PC_STORE_REMOTE_TLS_H
#define PC_STORE_REMOTE_TLS_H

#include "store/remote/remote_address.h"

/* Shared by the connections of one address: immutable, for any thread. */
typedef struct pc__remote_tls pc__remote_tls;
/* Belongs to one connection. One thread at a time; after an error it can only be freed. */
typedef struct pc__remote_tls_session pc__remote_tls_session;

enum { PC__REMOTE_TLS_RECORD = 16384 };

typedef struct pc__remote_tls_ops {
    /* Reads the files that the address names. PC_ERR_IO: cannot be read; PC_ERR_INVALID: not
     * certificates or keys; PC_ERR_UNSUPPORTED: built without OpenSSL, which has no other call. */
    pc_status (*open)(pc__remote_tls **out, const pc_allocator *mem,
                      const pc__remote_tls_options *options);
    void (*close)(pc__remote_tls *tls); /* after its sessions */

    /* `fd` is non-blocking and stays the caller's. */
    pc_status (*session_new)(pc__remote_tls_session **out, const pc__remote_tls *tls, int fd,
                             const char *server);
    void (*session_free)(pc__remote_tls_session *session); /* notifies the server */
    pc_status (*handshake)(pc__remote_tls_session *session, short *wants);
    /* Receives at least one byte. */
    pc_status (*receive)(pc__remote_tls_session *session, void *data, size_t size, size_t *got,
                         short *wants);
    /* Sends all bytes; `size` from 1 to PC__REMOTE_TLS_RECORD. */
    pc_status (*send)(pc__remote_tls_session *session, const void *data, size_t size, short *wants);
    /* 0: closed by the server, or bytes came that nobody asked for. Messages of TLS itself are
     * fine. */
    int (*is_idle)(pc__remote_tls_session *session);
} pc__remote_tls_ops;

extern const pc__remote_tls_ops pc__tls;

#endif
