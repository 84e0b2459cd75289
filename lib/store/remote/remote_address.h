/* Addresses of REMOTE: "redis://[user:password@]host[:port][/db]", more "host[:port]" of a cluster
 * after commas, or "redis+unix://[user:password@]/path". "rediss://" is the first with TLS; options
 * may follow it: "?cacert=PATH&cert=FILE&key=FILE&sni=NAME&insecure=1", any of them, in any order.
 * User, password, path and values of options may hold %xx. An IPv6 address stands in brackets. */
#ifndef PC_STORE_REMOTE_ADDRESS_H
#define PC_STORE_REMOTE_ADDRESS_H

#include "base/mem.h"

typedef struct pc__remote_seed {
    char *server;  /* or the path of a socket */
    uint16_t port; /* 0: a path */
} pc__remote_seed;

typedef struct pc__remote_tls_options { /* NULL: not given */
    int wanted;
    char *authorities; /* cacert: a file of certificates, or a folder of them under their hashes
                          (openssl rehash); NULL: the system's */
    char *certificate; /* cert: ours, with what leads to its authority after it */
    char *key;         /* its private key; NULL: in the same file */
    char *name; /* sni: what is asked for, and what every server's certificate must be made out to;
                   NULL: the host of each */
    int insecure; /* whoever answers is believed */
} pc__remote_tls_options;

typedef struct pc__remote_address {
    pc_allocator mem;
    char *user;     /* NULL: the server's default user */
    char *password; /* NULL: none asked for */
    int32_t database;
    pc__remote_tls_options tls;
    pc__remote_seed *seeds;
    size_t count, capacity;
} pc__remote_address;

/* PC_ERR_INVALID says what is wrong and where, and never repeats user and password. */
pc_status pc__remote_address_parse(pc__remote_address *out, const pc_allocator *mem,
                                   const char *text);
void pc__remote_address_free(pc__remote_address *address); /* wipes; a zeroed one: does nothing */

#endif
