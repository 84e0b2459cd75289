/* Catches: uses lost when the index that had them could not be written, or counted twice when it
 * could. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/disk/disk_index.h"
#include "testing.h"

typedef struct side { /* what one process knows */
    pc__disk_table table;
    pc__disk_entry *entry;
} side;

static side side_new(uint32_t uses)
{
    side s = {.table = {.eviction = {.mem = pc__libc_allocator, .budget = 1 << 20}}};
    pc__disk_facts facts = {.record_name = {.key = {{7}}},
                            .state = PC__DISK_READ,
                            .tokens = 4,
                            .bytes = 1000,
                            .cost = 0.5,
                            .last = 100,
                            .uses = uses,
                            .log_uses = 0.25};
    CHECK_OK(pc__disk_table_add(&s.table, &facts, &s.entry));
    CHECK_INT(s.entry->item.uses, uses);
    return s;
}

static void use(side *s, int times)
{
    for (int i = 0; i < times; i++)
        pc__disk_table_use(&s->table, s->entry, 200 + i);
}

/* As pc__disk_save: reads the old index first. */
static pc_status save(side *s, const pc__dir *root)
{
    int64_t dates[PC__DISK_SUBS] = {0};
    pc__disk_index index;
    pc_status status = pc__disk_index_read(&index, &pc__libc_allocator, root);
    if (status == PC_OK)
        CHECK_OK(pc__disk_index_apply(&index, &s->table, dates));
    pc__disk_index_free(&index, &pc__libc_allocator);
    CHECK_OK(pc__disk_index_make(&index, &s->table, dates));
    status = pc__disk_index_write(&index, root);
    if (status == PC_OK)
        pc__disk_index_published(&s->table);
    pc__disk_index_free(&index, &pc__libc_allocator);
    return status;
}

static void uses_of_two(const pc__dir *root)
{
    side ours = side_new(1), theirs = side_new(1);
    use(&ours, 3);
    CHECK(
        !mkdirat(root->fd, PC__DISK_INDEX_NEW, 0700)); /* nothing can be written under that name */
    CHECK_STATUS(save(&ours, root), PC_ERR_IO);
    CHECK(!unlinkat(root->fd, PC__DISK_INDEX_NEW, AT_REMOVEDIR));
    CHECK_INT(ours.entry->item.uses, 4);
    use(&theirs, 5);
    CHECK_OK(save(&theirs, root));
    CHECK_OK(save(&ours, root)); /* the three are in no index yet */
    CHECK_INT(ours.entry->item.uses, 1 + 3 + 5);
    CHECK_OK(save(&ours, root)); /* and now they are */
    CHECK_INT(ours.entry->item.uses, 1 + 3 + 5);
    use(&ours, 1);
    CHECK_OK(save(&theirs, root));
    CHECK_INT(theirs.entry->item.uses, 1 + 3 + 5);
    CHECK_OK(save(&ours, root));
    CHECK_INT(ours.entry->item.uses, 1 + 3 + 5 + 1);
    pc__disk_table_free(&ours.table);
    pc__disk_table_free(&theirs.table);
}

/* Uses while the index is being written are in the next one. */
static void used_meanwhile(void)
{
    int64_t dates[PC__DISK_SUBS] = {0};
    side s = side_new(1);
    pc__disk_index index;
    use(&s, 2);
    CHECK_OK(pc__disk_index_make(&index, &s.table, dates));
    use(&s, 4);
    pc__disk_index_published(&s.table);
    CHECK_OK(pc__disk_index_apply(&index, &s.table, dates));
    CHECK_INT(s.entry->item.uses, 1 + 2 + 4);
    pc__disk_index_free(&index, &pc__libc_allocator);
    pc__disk_table_free(&s.table);
}

int main(void)
{
    pc__dir root;
    CHECK_OK(pc__disk_root_open(&root, &pc__libc_allocator, pc_test_folder(), 1));
    uses_of_two(&root);
    used_meanwhile();
    pc__dir_close(&root, &pc__libc_allocator);
    return pc_test_end();
}
