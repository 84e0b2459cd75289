/* The address of REMOTE:
 *
 *   redis://[user:password@]server[:port][/database][,server[:port]...][?cluster=1]
 *   rediss://...[?cacert=PATH&cert=FILE&key=FILE&sni=NAME&insecure=1&cluster=1]     with TLS
 *   redis+unix://[user:password@]/path[?owner=USER]
 *
 * Several servers, or cluster=1, are a cluster.
 * User, password, path and option values may contain %xx. An IPv6 address stands in brackets.
 *
 * A resolver has the socket addresses of one server's name. The system's look-up takes no deadline,
 * so it runs on a thread of its own, which lives only for one look-up; callers wait for it until
 * their deadline. Numbers and paths need no look-up. Internally locked. */
#ifndef PC_STORE_REMOTE_ADDRESS_H
#define PC_STORE_REMOTE_ADDRESS_H

#include <sys/socket.h>

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
    int is_cluster;   /* its nodes may send us to other nodes */
    char *owner_name; /* owner: the user whose socket this is; NULL: ours or root's */
    uint32_t owner;   /* its number, with owner_name */
    pc__remote_tls_options tls;
    pc__remote_seed *seeds;
    size_t count, capacity;
} pc__remote_address;

/* The text of PC_ERR_INVALID names place and cause, but never repeats user and password. */
pc_status pc__remote_address_parse(pc__remote_address *out, const pc_allocator *mem,
                                   const char *text);
void pc__remote_address_free(pc__remote_address *address); /* zeroes the login first */
/* 1: a node of the cluster may send us to this host. With TLS the host's certificate proves a name
 * only; so the name has to be one that the user gave, or lie in the same domain of three names or
 * more (doc/store.md). */
int pc__remote_address_covers(const pc__remote_address *address, const char *server);

typedef struct pc__remote_deadline {
    double deadline; /* pc__now clock */
    int timed_out;   /* set by the function that reached it */
} pc__remote_deadline;

typedef struct pc__remote_socket_address {
    struct sockaddr_storage storage;
    socklen_t size;
} pc__remote_socket_address;

typedef struct pc__remote_resolver pc__remote_resolver;

enum { PC__REMOTE_RESOLVER_MOST = 8 }; /* addresses of a name; more are not tried */

/* `port` 0: `server` is the path of a socket. */
pc_status pc__remote_resolver_new(pc__remote_resolver **out, const pc_allocator *mem,
                                  const char *server, uint16_t port);
/* Waits for a look-up that is under way; the system limits its time. NULL does nothing. */
void pc__remote_resolver_free(pc__remote_resolver *resolver);

/* The address of the last connection, else the first that has not failed. PC_ERR_IO: no such
 * name, or not resolved before the deadline. */
pc_status pc__remote_resolver_get(pc__remote_resolver *resolver, pc__remote_socket_address *out,
                                  pc__remote_deadline *limit);
/* A connection to the address of pc__remote_resolver_get has succeeded. */
void pc__remote_resolver_answered(pc__remote_resolver *resolver);
/* It has failed. 1: there are others to try; 0: all have failed, the next call resolves again. */
int pc__remote_resolver_failed(pc__remote_resolver *resolver,
                               const pc__remote_socket_address *address);

#endif
