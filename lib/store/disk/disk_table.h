/* What this process knows of a folder's records: found by spot (key and variant) and by content, in
 * the order in which they would be given up (store/eviction.h). Nothing here locks or touches the
 * disk. */
#ifndef PC_STORE_DISK_TABLE_H
#define PC_STORE_DISK_TABLE_H

#include "store/record/record_name.h"
#include "store/eviction.h"

enum {
    PC__DISK_UNREAD = 0, /* only its name and size are known */
    PC__DISK_READ = 1,
    PC__DISK_UNREADABLE = 2 /* its header is damaged, of a later version, or not what its name says:
                               the first to be given up */
};

/* One record as it is known; a row of the index. */
typedef struct pc__disk_facts {
    pc__record_name record_name;
    pc__id content, parent;
    uint32_t has_content, has_parent;
    uint32_t state; /* PC__DISK_… */
    uint32_t tokens;
    int32_t priority;
    uint64_t bytes; /* of the file */
    double cost;
    double ttl;      /* seconds from the last hit; 0: expires stays */
    int64_t expires; /* seconds since 1970; 0: no end */
    int64_t last;    /* use, or writing */
    uint32_t uses;   /* 0: heat and uses are not known, they begin anew */
    double heat;     /* as of store/eviction.h */
} pc__disk_facts;

typedef struct pc__disk_entry {
    pc__eviction_item item;
    pc__hash_link by_content;
    pc__disk_facts facts;  /* uses and heat: only in the item */
    uint64_t unsaved_uses; /* uses that the index does not know of … */
    uint64_t told;         /* … of those, the ones that the index knows which is being written */
    uint64_t seen;         /* by which scan last */
    int64_t touched;       /* the file's date says so */
    int is_ours;           /* this process has written it, or opened it: so it stays */
} pc__disk_entry;

typedef struct pc__disk_table { /* zero-initialised but for worth.mem: empty */
    pc__eviction eviction;
    pc__hash_table contents;
    int64_t next_expiry; /* nothing expires before; 0: nothing does */
    uint64_t scans;      /* number of the scan that is or was last */
} pc__disk_table;

void pc__disk_table_free(pc__disk_table *table);
size_t pc__disk_table_count(const pc__disk_table *table);
uint64_t pc__disk_table_bytes(const pc__disk_table *table);
pc__disk_entry *pc__disk_table_find(const pc__disk_table *table,
                                    const pc__record_name *record_name);
pc__disk_entry *pc__disk_table_next(const pc__disk_table *table,
                                    const pc__disk_entry *entry); /* NULL starts */
int pc__disk_table_has_content(const pc__disk_table *table, const pc__id *content);
/* PC_ERR_NOMEM: nothing has changed. *out may be NULL. The spot must be free. */
pc_status pc__disk_table_add(pc__disk_table *table, const pc__disk_facts *facts,
                             pc__disk_entry **out);
void pc__disk_table_drop(pc__disk_table *table, pc__disk_entry *entry);
void pc__disk_table_use(pc__disk_table *table, pc__disk_entry *entry, int64_t now);
/* Gone to make room: its worth is remembered for a while. */
void pc__disk_table_evict(pc__disk_table *table, pc__disk_entry *entry);
/* What goes first; NULL: nothing is left. */
pc__disk_entry *pc__disk_table_candidate(const pc__disk_table *table);
void pc__disk_table_facts(const pc__disk_entry *entry, pc__disk_facts *facts);
/* From the image of a record. */
void pc__disk_facts_of(pc__disk_facts *facts, const pc__record_name *record_name,
                       const pc__image *image, uint64_t bytes, int64_t last);
int pc__disk_facts_expired(const pc__disk_facts *facts, int64_t now);

#endif
