/* One entry of the REMOTE tier: a record as values of a server, all in one hash slot
 * (doc/format.md, "A server"). Piece 0 is the header; its value begins with an envelope that names
 * the writer's random tag. The names of the other pieces, the blocks, contain this tag, so that
 * blocks of two writers never mix. */
#ifndef PC_STORE_REMOTE_ENTRY_H
#define PC_STORE_REMOTE_ENTRY_H

#include "store/record/record_name.h"
#include "store/remote/remote_call.h"

typedef struct pc__remote_entry {
    uint64_t tag;
    uint64_t header_bytes; /* of piece 0, without the envelope */
    uint64_t bytes;        /* of all values */
    uint32_t pieces;       /* header included */
    uint32_t ttl;          /* seconds, counted again from each hit; 0: it does not expire */
    uint32_t tokens;
    uint32_t has_content;
    pc__id content; /* as shown */
    /* not in the envelope */
    uint32_t is_usable;   /* this process has written or opened the record */
    uint32_t is_disputed; /* its last reader in this process expected something else */
} pc__remote_entry;

typedef struct pc__remote_client { /* needed to read and write entries */
    const pc_allocator *mem;
    pc__remote_nodes *nodes;
    const pc__record_options *record; /* of the records that we write and read */
} pc__remote_client;

enum {
    PC__REMOTE_ENVELOPE_BYTES = 96,
    PC__REMOTE_NAME = 96 + PC__VARIANT,
    PC__REMOTE_FIND_MOST = 512 /* requests and replies fit into the buffers of sockets */
};

typedef struct pc__remote_name {
    char text[PC__REMOTE_NAME];
    size_t size;
} pc__remote_name;

/* `piece` 0: the header, `tag` is not used. */
pc__remote_name pc__remote_entry_name(const pc__record_name *record, uint64_t tag, size_t piece);
uint32_t pc__remote_entry_slot(const pc__remote_client *client, const pc__id *key);

void pc__remote_envelope_write(uint8_t out[PC__REMOTE_ENVELOPE_BYTES],
                               const pc__remote_entry *entry);
/* The envelope at the beginning of the header's value. PC_MISS: no header. PC_ERR_FORMAT: a value
 * of another type has this name, or the envelope is damaged; PC_ERR_UNSUPPORTED: of another
 * version. PC_ERR_IO: any other error. The error text is set. */
pc_status pc__remote_entry_read_envelope(const pc__remote_client *client, const pc__id *key,
                                         pc__remote_entry *entry, pc__remote_deadline *limit);
/* The envelopes of `count` keys, at most PC__REMOTE_FIND_MOST: there[i] = 1, and entries[i], where
 * one could be read; else 0. One round trip to each server that has some of them. */
void pc__remote_entry_find(const pc__remote_client *client, const pc__id *keys, size_t count,
                           pc__remote_entry *entries, uint8_t *there, pc__remote_deadline *limit);
/* Removes a writer's blocks and, if `header`, its header: unless another writer has replaced it. */
pc_status pc__remote_entry_remove(const pc__remote_client *client, const pc__id *key, uint64_t tag,
                                  uint32_t pieces, int header, pc__remote_deadline *limit);
/* Removes a value under the header's name that is no header. */
pc_status pc__remote_entry_remove_foreign(const pc__remote_client *client, const pc__id *key,
                                          pc__remote_deadline *limit);
/* The entry expires `ttl` seconds from now. */
pc_status pc__remote_entry_renew(const pc__remote_client *client, const pc__id *key,
                                 const pc__remote_entry *entry, pc__remote_deadline *limit);

/* Opens an entry for reading until the deadline. Otherwise as pc__remote_entry_read_envelope. */
pc_status pc__remote_entry_open(pc__source **out, const pc__remote_client *client,
                                const pc__id *key, pc__remote_entry *entry,
                                pc__remote_deadline *limit);

/* Writes an entry. PC_OK: *entry is published. PC_MISS with *reason: NONE, another writer has
 * published it meanwhile; NO_ROOM; EXPIRED. After an error the blocks are removed, or expire. */
pc_status pc__remote_entry_write(const pc__remote_client *client, const pc__image *image,
                                 pc__remote_entry *entry, uint32_t *reason,
                                 pc__remote_deadline *limit);

#endif
