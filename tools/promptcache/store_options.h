/* Options of the cache's tiers, for the commands that fill or use them. */
#ifndef STORE_OPTIONS_H
#define STORE_OPTIONS_H

#include "program.h"

typedef struct store_options {
    const char *disk, *disk_size, *ram_size, *compressed_size, *remote, *remote_file,
        *seal_key_file, *salt, *salt_file;
    long codec;        /* PC_CODEC_… */
    long tenant_share; /* percent; 0: not given */
    double ttl, deadline;
    int always_load, no_map, read_only, own_kernels;
    pc_event_fn on_event;
    void *event_user;
} store_options;
/* clang-format off */
#define STORE_OPTION_ROWS(o) \
    {"disk", OPTION_DIR, &(o).disk, "folder of encoded modules", NULL, 0, 0}, \
    {"disk-size", OPTION_TEXT, &(o).disk_size, \
     "budget of the folder, as in 500M or 16G (16G)", NULL, 0, 0}, \
    {"ram-size", OPTION_TEXT, &(o).ram_size, "budget in memory (1G)", NULL, 0, 0}, \
    {"compressed-size", OPTION_TEXT, &(o).compressed_size, \
     "budget in memory for compressed states (none)", NULL, 0, 0}, \
    {"remote", OPTION_TEXT, &(o).remote, \
     "Redis or Valkey server: redis://[user:password@]host[:port][/db]; with TLS rediss://..." \
     "[?cacert=PATH&cert=FILE&key=FILE&sni=NAME&insecure=1]. Others see it in the list of " \
     "processes; the next option, and PC_REMOTE in the environment, hide a password", NULL, 0, 0}, \
    {"remote-file", OPTION_FILE, &(o).remote_file, \
     "the same from a file that only its owner may read", NULL, 0, 0}, \
    {"codec", OPTION_CHOICE, &(o).codec, \
     "codec of folder and server; int8 and int4 lose bits", CODEC_CHOICES, 0, 0}, \
    {"ttl", OPTION_REAL, &(o).ttl, \
     "seconds after its last use at which an entry expires (never)", NULL, 0, 1e9}, \
    {"deadline", OPTION_REAL, &(o).deadline, "seconds for one load or store (2)", NULL, 0, 1e9}, \
    {"seal-key-file", OPTION_FILE, &(o).seal_key_file, \
     "encrypts records by this key: 32 bytes or 64 hexadecimal digits, in a file that only its " \
     "owner may read", NULL, 0, 0}, \
    {"salt", OPTION_TEXT, &(o).salt, \
     "tenant: the states of one are never served to another. Others see it in the list of " \
     "processes; the next option, and PC_SALT in the environment, hide it", NULL, 0, 0}, \
    {"salt-file", OPTION_FILE, &(o).salt_file, \
     "the same from a file that only its owner may read, without a final line break", NULL, 0, 0}, \
    {"tenant-share", OPTION_NUMBER, &(o).tenant_share, \
     "percent of each tier that one tenant may take; the folder remembers it", NULL, 1, 100}, \
    {"no-map", OPTION_FLAG, &(o).no_map, "reads the files of the folder, never maps them", \
     NULL, 0, 0}, \
    {"own-kernels", OPTION_FLAG, &(o).own_kernels, \
     "uses only states that this kind of CPU has computed, equal to the bit", NULL, 0, 0}, \
    {"always-load", OPTION_FLAG, &(o).always_load, \
     "loads even where computing seems faster", NULL, 0, 0}
/* clang-format on */
/* After check_store. 1: a server is given; a folder or a server is. */
int has_server(const store_options *options);
int store_given(const store_options *options);
/* The next three return -1, or the exit code after a message. */
/* Takes what no option gives from the environment, too. */
int check_store(const command *about, store_options *options);
int open_store(pc_cache **out, pc_context *context, const command *about,
               const store_options *options);
int read_seal_key(const char *path, uint8_t key[32]);
/* "4096", "64K", "1.5G": -1, or the exit code after a message. text NULL: -1, *bytes stays. */
int read_size(const command *about, const char *name, const char *text, uint64_t *bytes);

#endif
