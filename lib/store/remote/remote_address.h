/* The address of REMOTE:
 *
 *   redis://[user:password@]server[:port][/database][,server[:port]...]   several: a cluster
 *   rediss://...[?cacert=PATH&cert=FILE&key=FILE&sni=NAME&insecure=1]     with TLS
 *   redis+unix://[user:password@]/path
 *
 * User, password, path and option values may contain %xx. An IPv6 address stands in brackets. */
#ifndef PC_STORE_REMOTE_ADDRESS_H
#define PC_STORE_REMOTE_ADDRESS_H

#include "base/mem.h"

typedef struct pc__remote_seed {
    char *server;  /* name, number or path of a socket */
    uint16_t port; /* 0: a path */
} pc__remote_seed;

typedef struct pc__remote_tls_options { /* NULL: not given */
    int wanted;
    /* cacert: a file of certificates, or a folder of them under their hashes (openssl rehash);
     * NULL: the system's */
    char *authorities;
    char *certificate; /* cert: ours, followed by its chain */
    char *key;         /* its private key; NULL: in the same file */
    char *name;        /* sni: sent, and in every server's certificate; NULL: each server's name */
    int insecure;      /* server certificates are not checked */
} pc__remote_tls_options;

typedef struct pc__remote_address {
    pc_allocator mem;
    char *user;     /* NULL: the server's default user */
    char *password; /* NULL: no login */
    int32_t database;
    pc__remote_tls_options tls;
    pc__remote_seed *seeds;
    size_t count, capacity;
} pc__remote_address;

/* The text of PC_ERR_INVALID names place and cause, but never repeats user and password. */
pc_status pc__remote_address_parse(pc__remote_address *out, const pc_allocator *mem,
                                   const char *text);
void pc__remote_address_free(pc__remote_address *address); /* zeroes the login first */

#endif
