/* Reads, merges and writes the index file of a folder (disk_index.h). */
#include "store/disk/disk_index.h"

#include <math.h>
#include <string.h>

#include "base/checksum.h"
#include "base/fields.h"
#include "base/little_endian.h"

/* Header: magic, u32 version, u32 bytes of a row, u64 rows, f64 clock of store/eviction.h, 256
 * dates of sub-folders (ns since 1970). Then rows, then XXH3-64 of all that precedes. */
enum {
    AT_VERSION = 8,
    AT_ROW = 12,
    AT_COUNT = 16,
    AT_CLOCK = 24,
    AT_DATES = 32,
    HEADER = AT_DATES + 8 * PC__DISK_SUBS,
    SUM = 8,
    VERSION = 3
};
enum {
    ROW_FLAGS = 96,    /* 1: content, 2: parent, state * 4 */
    ROW_VARIANT = 200, /* padded with NULs */
    ROW = ROW_VARIANT + PC__VARIANT
};
#define FACT(at, member) PC__FIELD(pc__disk_facts, at, member)
static const pc__field row_fields[] = {
    FACT(0, record_name.key), FACT(32, content), FACT(64, parent), FACT(100, tokens),
    FACT(104, priority),      FACT(112, bytes),  FACT(120, cost),  FACT(128, ttl),
    FACT(136, expires),       FACT(144, last),   FACT(152, uses),  FACT(160, log_uses),
    FACT(168, salt)};
static const pc__field clock_field[] = {{AT_CLOCK, 0, sizeof(double)}};
static const char magic[9] = "PCINDEX1";
#define MOST_BYTES (UINT64_C(1) << 40) /* a file of this size is no index */
#define MOST_RECORD (UINT64_C(1) << 50)

static void write_row(uint8_t *row, const pc__disk_facts *facts)
{
    memset(row, 0, ROW);
    pc__fields_put(row, facts, PC__FIELDS(row_fields));
    pc__put_u32(row + ROW_FLAGS,
                (facts->has_content ? 1u : 0) | (facts->has_parent ? 2u : 0) | facts->state << 2);
    memcpy(row + ROW_VARIANT, facts->record_name.variant, PC__VARIANT);
}

/* 0: no writer can have written such a row. */
static int read_row(const uint8_t *row, pc__disk_facts *facts)
{
    uint32_t flags = pc__get_u32(row + ROW_FLAGS);
    const char *variant = (const char *)row + ROW_VARIANT;
    size_t size = strnlen(variant, PC__VARIANT);
    *facts = (pc__disk_facts){
        .has_content = flags & 1, .has_parent = flags >> 1 & 1, .state = flags >> 2};
    pc__fields_get(facts, row, PC__FIELDS(row_fields));
    return (!size || pc__variant_read(variant, size, facts->record_name.variant))
           && facts->state <= PC__DISK_UNREADABLE && facts->bytes < MOST_RECORD && facts->cost >= 0
           && facts->cost < 1e15 && facts->ttl >= 0 && facts->ttl < 1e15
           && isfinite(facts->log_uses);
}

static int is_whole(const pc__disk_index *index)
{
    const uint8_t *d = index->data;
    return !memcmp(d, magic, 8) && pc__get_u32(d + AT_VERSION) == VERSION
           && pc__get_u32(d + AT_ROW) == ROW && pc__get_u64(d + AT_COUNT) == index->rows
           && HEADER + index->rows * ROW + SUM == index->size
           && pc__get_u64(d + index->size - SUM) == pc__checksum64(d, index->size - SUM);
}

pc_status pc__disk_index_read(pc__disk_index *out, const pc_allocator *mem, const pc__dir *root)
{
    pc_status status;
    *out = (pc__disk_index){0};
    status = pc__dir_read(root, mem, PC__DISK_INDEX, MOST_BYTES - 1, &out->data, &out->size);
    if (out->size >= HEADER + SUM) {
        out->rows = (out->size - HEADER - SUM) / ROW;
        if (is_whole(out))
            return PC_OK;
    }
    pc__disk_index_free(out, mem);
    return status == PC_ERR_NOMEM ? status : PC_MISS;
}

void pc__disk_index_free(pc__disk_index *index, const pc_allocator *mem)
{
    pc__free(mem, index->data);
    *index = (pc__disk_index){0};
}

/* Adds the uses that other processes have counted; ours since the last index are added again. */
static void merge_uses(pc__eviction *eviction, pc__disk_entry *e, const pc__disk_facts *facts)
{
    uint64_t uses = facts->uses + e->unsaved_uses;
    double log_uses = facts->log_uses > e->item.log_uses ? facts->log_uses : e->item.log_uses,
           clock = eviction->clock;
    if (uses > e->item.uses)
        pc__eviction_restore(eviction, &e->item, log_uses,
                             (uint32_t)(uses < UINT32_MAX ? uses : UINT32_MAX));
    eviction->clock = clock; /* restoring has moved the clock, but nothing is new */
    if (facts->last > e->facts.last)
        e->facts.last = facts->last;
    if (e->facts.ttl > 0 && facts->expires > e->facts.expires)
        e->facts.expires = facts->expires;
}

pc_status pc__disk_index_apply(const pc__disk_index *index, pc__disk_table *table,
                               int64_t dates[PC__DISK_SUBS])
{
    int is_empty = !table->eviction.items.count;
    double clock;
    pc_status status = PC_OK;
    pc__fields_get(&clock, index->data, PC__FIELDS(clock_field));
    for (uint64_t i = 0; i < index->rows && status >= 0; i++) {
        pc__disk_facts facts;
        pc__disk_entry *e;
        if (!read_row(index->data + HEADER + i * ROW, &facts))
            continue;
        e = pc__disk_table_find(table, &facts.record_name);
        if (e)
            merge_uses(&table->eviction, e, &facts);
        else if (is_empty)
            status = pc__disk_table_add(table, &facts, NULL);
    }
    if (!is_empty)
        return status;
    if (clock >= 0 && clock < 1e300) /* adding has moved the clock, but nothing is new */
        table->eviction.clock = clock;
    for (size_t i = 0; i < PC__DISK_SUBS; i++)
        dates[i] = status < 0 ? 0 : (int64_t)pc__get_u64(index->data + AT_DATES + 8 * i);
    return status;
}

pc_status pc__disk_index_make(pc__disk_index *out, pc__disk_table *table,
                              const int64_t dates[PC__DISK_SUBS])
{
    size_t at = HEADER;
    *out = (pc__disk_index){.rows = table->eviction.items.count};
    out->size = HEADER + (size_t)out->rows * ROW + SUM;
    out->data = pc__alloc(&table->eviction.mem, out->size);
    if (!out->data)
        return PC_ERR_NOMEM;
    memcpy(out->data, magic, 8);
    pc__put_u32(out->data + AT_VERSION, VERSION);
    pc__put_u32(out->data + AT_ROW, ROW);
    pc__put_u64(out->data + AT_COUNT, out->rows);
    pc__fields_put(out->data, &table->eviction.clock, PC__FIELDS(clock_field));
    for (size_t i = 0; i < PC__DISK_SUBS; i++)
        pc__put_u64(out->data + AT_DATES + 8 * i, (uint64_t)dates[i]);
    for (pc__disk_entry *e = pc__disk_table_next(table, NULL); e;
         e = pc__disk_table_next(table, e), at += ROW) {
        pc__disk_facts facts = e->facts;
        facts.uses = e->item.uses;
        facts.log_uses = e->item.log_uses;
        write_row(out->data + at, &facts);
        e->saving_uses = e->unsaved_uses;
    }
    pc__put_u64(out->data + at, pc__checksum64(out->data, at));
    return PC_OK;
}

void pc__disk_index_published(pc__disk_table *table)
{
    for (pc__disk_entry *e = pc__disk_table_next(table, NULL); e;
         e = pc__disk_table_next(table, e)) {
        e->unsaved_uses -= e->saving_uses;
        e->saving_uses = 0;
    }
}

pc_status pc__disk_index_write(const pc__disk_index *index, const pc__dir *root)
{
    return pc__dir_publish(root, PC__DISK_INDEX_NEW, PC__DISK_INDEX, index->data, index->size, 0);
}
