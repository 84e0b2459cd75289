/* The table of a folder's records as this process knows them: found by name and by content, evicted
 * by store/eviction.h. Locks nothing and never touches the disk. */
#ifndef PC_STORE_DISK_TABLE_H
#define PC_STORE_DISK_TABLE_H

#include "store/record/record_name.h"
#include "store/tenants.h"

enum {
    PC__DISK_UNREAD = 0, /* only its name and size are known */
    PC__DISK_READ = 1,
    /* Damaged, of a later version, or not what its name says: evicted first. */
    PC__DISK_UNREADABLE = 2
};

/* One record; a row of the index. */
typedef struct pc__disk_facts {
    pc__record_name record_name;
    pc__id content, parent; /* as shown */
    pc__id salt;            /* of its tenant, as shown */
    uint32_t has_content, has_parent;
    uint32_t state; /* PC__DISK_… */
    uint32_t tokens;
    int32_t priority;
    uint64_t bytes; /* of the file */
    double cost;
    double ttl;      /* seconds from the last hit; 0: `expires` is fixed */
    int64_t expires; /* seconds since 1970; 0: never */
    int64_t last;    /* use, or writing */
    uint32_t uses;   /* 0: they are unknown */
    double log_uses; /* see base/lrfu.h */
} pc__disk_facts;

typedef struct pc__disk_entry {
    pc__eviction_item item;
    pc__disk_facts facts;  /* its uses and log_uses are those of the item */
    uint64_t unsaved_uses; /* uses that the index file does not have yet */
    uint64_t saving_uses;  /* those of them that the index being written has */
    uint64_t last_scan;    /* number of the last scan that found it */
    int64_t touched;       /* date that we have set on the file */
    int is_verified;       /* this process has written or opened it */
    int is_disputed;       /* its last reader in this process expected something else */
    /* Its key, not as shown, for events; known once this process has written or read it. */
    pc__id key;
    int has_key;
} pc__disk_entry;

typedef struct pc__disk_table { /* zero-initialised but for eviction.mem: empty */
    pc__eviction eviction;      /* also finds records by content */
    pc__tenants tenants;        /* of the records whose headers were read */
    int64_t next_expiry;        /* no record expires before; 0: none does */
    uint64_t scans;             /* number of the current or last scan */
} pc__disk_table;

void pc__disk_table_free(pc__disk_table *table);
pc__disk_entry *pc__disk_table_find(const pc__disk_table *table,
                                    const pc__record_name *record_name);
/* All entries; NULL starts. */
pc__disk_entry *pc__disk_table_next(const pc__disk_table *table, const pc__disk_entry *entry);
/* PC_ERR_NOMEM: nothing has changed. *out may be NULL. The name must not be there yet. */
pc_status pc__disk_table_add(pc__disk_table *table, const pc__disk_facts *facts,
                             pc__disk_entry **out);
/* Forgets a tenant without records and limit. */
void pc__disk_table_drop_tenant(pc__disk_table *table, const pc__id *salt);
void pc__disk_table_drop(pc__disk_table *table, pc__disk_entry *entry);
void pc__disk_table_use(pc__disk_table *table, pc__disk_entry *entry, int64_t now);
/* Drops an entry that was evicted; its uses are remembered. */
void pc__disk_table_evict(pc__disk_table *table, pc__disk_entry *entry);
/* From the image of a record. Table and index have the ids as shown: others can read the index. */
void pc__disk_facts_of(pc__disk_facts *facts, const pc__record_name *record_name,
                       const pc__image *image, const pc__shown *shown, uint64_t bytes,
                       int64_t last);
/* This process knows the record by this key; NULL entry does nothing. */
void pc__disk_table_know(pc__disk_entry *entry, const pc__id *key);
int pc__disk_facts_expired(const pc__disk_facts *facts, int64_t now);

#endif
