/* The table of records (disk_table.h). */
#include "store/disk/disk_table.h"

#include "base/mem.h"

static pc__disk_entry *disk_entry_of(pc__eviction_item *item)
{
    return item ? PC__AROUND(item, pc__disk_entry, item) : NULL;
}

pc__disk_entry *pc__disk_table_find(const pc__disk_table *table, const pc__record_name *record_name)
{
    pc__id id = pc__record_name_id(record_name);
    return disk_entry_of(pc__eviction_find(&table->eviction, &id));
}

pc__disk_entry *pc__disk_table_next(const pc__disk_table *table, const pc__disk_entry *entry)
{
    return disk_entry_of(pc__eviction_next(&table->eviction, entry ? &entry->item : NULL));
}

void pc__disk_table_drop_tenant(pc__disk_table *table, const pc__id *salt)
{
    pc__tenants_drop_if_unused(&table->tenants, &table->eviction.mem,
                               pc__tenants_find(&table->tenants, salt));
}

/* Joins the entries of its tenant. */
static pc_status add_to_tenant(pc__disk_table *table, pc__disk_entry *e)
{
    pc__tenant *tenant = NULL;
    if (e->facts.state == PC__DISK_READ) {
        tenant = pc__tenants_find_or_add(&table->tenants, &table->eviction.mem, &e->facts.salt);
        if (!tenant)
            return PC_ERR_NOMEM;
        e->item.group = &tenant->group;
    }
    if (pc__eviction_add(&table->eviction, &e->item) >= 0)
        return PC_OK;
    pc__tenants_drop_if_unused(&table->tenants, &table->eviction.mem, tenant);
    return PC_ERR_NOMEM;
}

/* The item has left the order. */
static void free_entry(pc__disk_table *table, pc__disk_entry *entry)
{
    pc__disk_table_drop_tenant(table, &entry->facts.salt);
    pc__free(&table->eviction.mem, entry);
}

pc_status pc__disk_table_add(pc__disk_table *table, const pc__disk_facts *facts,
                             pc__disk_entry **out)
{
    const pc_allocator *mem = &table->eviction.mem;
    pc__disk_entry *e = pc__calloc(mem, 1, sizeof *e);
    if (out)
        *out = NULL;
    if (!e)
        return PC_ERR_NOMEM;
    pc__record_name parent = facts->record_name;
    parent.key = facts->parent;
    e->facts = *facts;
    e->item = (pc__eviction_item){.key = pc__record_name_id(&facts->record_name),
                                  .parent = pc__record_name_id(&parent),
                                  .has_parent = facts->has_parent,
                                  .bytes = facts->bytes,
                                  .priority = facts->state == PC__DISK_UNREADABLE ? INT32_MIN
                                                                                  : facts->priority,
                                  .cost = facts->cost,
                                  .has_content = facts->has_content,
                                  .content = facts->content};
    if (add_to_tenant(table, e) < 0) {
        pc__free(mem, e);
        return PC_ERR_NOMEM;
    }
    if (facts->uses)
        pc__eviction_restore(&table->eviction, &e->item, facts->log_uses, facts->uses);
    if (facts->expires && (!table->next_expiry || facts->expires < table->next_expiry))
        table->next_expiry = facts->expires;
    e->last_scan = table->scans;
    e->touched = facts->last;
    if (out)
        *out = e;
    return PC_OK;
}

void pc__disk_table_know(pc__disk_entry *entry, const pc__id *key)
{
    if (!entry)
        return;
    entry->key = *key;
    entry->has_key = 1;
}

void pc__disk_table_drop(pc__disk_table *table, pc__disk_entry *entry)
{
    pc__eviction_remove(&table->eviction, &entry->item);
    free_entry(table, entry);
}

void pc__disk_table_evict(pc__disk_table *table, pc__disk_entry *entry)
{
    pc__eviction_pick(&table->eviction, &entry->item);
    pc__eviction_evict(&table->eviction, &entry->item);
    free_entry(table, entry);
}

void pc__disk_table_use(pc__disk_table *table, pc__disk_entry *entry, int64_t now)
{
    pc__eviction_hit(&table->eviction, &entry->item);
    entry->unsaved_uses++;
    entry->facts.last = now;
    if (entry->facts.ttl > 0)
        entry->facts.expires = pc__date_after(now, entry->facts.ttl);
}

void pc__disk_table_free(pc__disk_table *table)
{
    for (pc__disk_entry *e = pc__disk_table_next(table, NULL), *next; e; e = next) {
        next = pc__disk_table_next(table, e);
        pc__disk_table_drop(table, e);
    }
    pc__tenants_free(&table->tenants, &table->eviction.mem);
    pc__eviction_free(&table->eviction);
}

void pc__disk_facts_of(pc__disk_facts *facts, const pc__record_name *record_name,
                       const pc__image *image, const pc__shown *shown, uint64_t bytes, int64_t last)
{
    *facts = (pc__disk_facts){
        .record_name = *record_name,
        .content = shown->content,
        .parent = shown->parent,
        .salt = shown->salt,
        .has_content = image->has_content != 0,
        .has_parent = image->has_parent != 0,
        .state = PC__DISK_READ,
        .priority = image->priority,
        .bytes = bytes,
        .tokens = (uint32_t)(image->tokens < UINT32_MAX ? image->tokens : UINT32_MAX),
        .cost = image->cost,
        .ttl = image->ttl,
        .expires = image->expires,
        .last = last};
    if (!(facts->ttl > 0 && facts->ttl < 1e15))
        facts->ttl = 0;
    if (!(facts->cost > 0 && facts->cost < 1e15))
        facts->cost = 0;
}

int pc__disk_facts_expired(const pc__disk_facts *facts, int64_t now)
{
    return facts->expires && facts->expires <= now;
}
