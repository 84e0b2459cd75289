/* Addresses of REMOTE: "redis://[user:password@]host[:port][/db]", more "host[:port]" of a cluster after commas, or "redis+unix://[user:password@]/path".
 * User, password and path may hold %xx. An IPv6 address stands in brackets. */
#ifndef PC_STORE_REMOTE_ADDRESS_H
#define PC_STORE_REMOTE_ADDRESS_H

#include "base/mem.h"

typedef struct pc__remote_seed {
    char *host;    /* or the path of a socket */
    uint16_t port; /* 0: a path */
} pc__remote_seed;

typedef struct pc__remote_address {
    pc_allocator mem;
    char *user;     /* NULL: the server's default user */
    char *password; /* NULL: none asked for */
    int32_t database;
    pc__remote_seed *seeds;
    size_t count, capacity;
} pc__remote_address;

/* PC_ERR_INVALID says what is wrong and where, and never repeats user and password; PC_ERR_UNSUPPORTED: TLS. */
pc_status pc__remote_address_parse(pc__remote_address *out, const pc_allocator *mem, const char *text);
void pc__remote_address_free(pc__remote_address *address); /* wipes; a zeroed one: does nothing */

#endif
