/* Catches: an index of a folder of records that is read beyond its end; accepted rows that no
 * writer can have made (sizes and times beyond all limits, NaN, circular chains); an index that
 * does not come back as it was written. The input is an index without its checksum, which is added,
 * so that all inputs reach the reader; with the first bit set it is not added. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "fuzz.h"
#include "store/disk/disk_index.h"

static pc__dir root = {-1, NULL, 0};

static void remove_folder(void)
{
    unlinkat(root.fd, PC__DISK_INDEX, 0);
    rmdir(root.path);
}

static void make_folder(void)
{
    static char path[] = "/tmp/pc-fuzz-XXXXXX";
    FUZZ_CHECK(mkdtemp(path));
    root.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    root.path = path;
    root.owner = geteuid();
    FUZZ_CHECK(root.fd >= 0);
    atexit(remove_folder);
}

static void write_index(const uint8_t *data, size_t size, int with_sum)
{
    uint64_t sum = XXH3_64bits(data, size);
    int fd = openat(root.fd, PC__DISK_INDEX, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
    for (int i = 0; with_sum && i < 8; i++) {
        uint8_t byte = (uint8_t)(sum >> 8 * i);
        FUZZ_CHECK(write(fd, &byte, 1) == 1);
    }
    close(fd);
}

static void check_table(pc__disk_table *table, uint64_t rows)
{
    uint64_t bytes = 0;
    size_t count = 0;
    FUZZ_CHECK(table->eviction.items.count <= rows);
    for (pc__disk_entry *e = pc__disk_table_next(table, NULL); e;
         e = pc__disk_table_next(table, e)) {
        FUZZ_CHECK(pc__disk_table_find(table, &e->facts.record_name) == e);
        FUZZ_CHECK(!e->facts.has_content
                   || pc__eviction_has_content(&table->eviction, &e->facts.content));
        FUZZ_CHECK(e->facts.cost >= 0 && e->facts.ttl >= 0 && isfinite(e->item.log_uses));
        bytes += e->facts.bytes;
        count++;
    }
    FUZZ_CHECK(count == table->eviction.items.count && bytes == table->eviction.bytes);
}

/* All of it can be given up, one after the other. */
static void empty_table(pc__disk_table *table)
{
    for (size_t left = table->eviction.items.count; left; left--) {
        pc__disk_entry *least = PC__AROUND(pc__eviction_candidate(&table->eviction, NULL),
                                           pc__disk_entry, item);
        FUZZ_CHECK(least);
        pc__disk_table_evict(table, least);
    }
    FUZZ_CHECK(!table->eviction.items.count && !table->eviction.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    int64_t dates[PC__DISK_SUBS] = {0}, again[PC__DISK_SUBS] = {0};
    pc__disk_table table = {.eviction = {.mem = fuzz_memory, .budget = 1 << 20}}, copy = table;
    pc__disk_index index, second;
    if (root.fd < 0)
        make_folder();
    if (!size)
        return 0;
    write_index(data + 1, size - 1, !(data[0] & 1));
    if (pc__disk_index_read(&index, &fuzz_memory, &root) == PC_OK) {
        FUZZ_CHECK(pc__disk_index_apply(&index, &table, dates) == PC_OK);
        check_table(&table, index.rows);
        FUZZ_CHECK(pc__disk_index_make(&second, &table, dates) == PC_OK);
        FUZZ_CHECK(pc__disk_index_write(&second, &root) == PC_OK);
        pc__disk_index_free(&second, &fuzz_memory);
        FUZZ_CHECK(pc__disk_index_read(&second, &fuzz_memory, &root) == PC_OK);
        FUZZ_CHECK(pc__disk_index_apply(&second, &copy, again) == PC_OK);
        FUZZ_CHECK(copy.eviction.items.count == table.eviction.items.count
                   && !memcmp(dates, again, sizeof dates));
        FUZZ_CHECK(pc__disk_index_apply(&index, &copy, again) == PC_OK); /* merged */
        check_table(&copy, index.rows);
        empty_table(&table);
        pc__disk_index_free(&second, &fuzz_memory);
        pc__disk_index_free(&index, &fuzz_memory);
    }
    pc__disk_table_free(&table);
    pc__disk_table_free(&copy);
    fuzz_no_leak(blocks);
    return 0;
}
