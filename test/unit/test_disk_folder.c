/* pc_folder. Catches: records missing from the list or out of order; wrong facts; damage not found
 * (any bit of a record, any length); tokens cut wrongly; a removal of the wrong record, or unknown
 * to other processes; trimming that leaves too much, evicts higher scores first, or leaves files of
 * killed writers; unchecked arguments; leaks of memory or descriptors. */
#include "base/context.h"
#include "counted_context.h"
#include "disk.h"

enum { SIZE = 500, COUNT = 9 };
static pc_context *context;

static const char *filled_folder(const uint8_t *seal_key)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = NULL;
    CHECK_OK(disk_open(&tier, path, &(disk_options){.seal_key = seal_key}));
    for (uint32_t n = 0; tier && n < COUNT; n++)
        CHECK_OK(disk_put(tier, n, SIZE, NULL));
    if (tier)
        tier->ops->free(tier);
    return path;
}

static pc_folder *open_folder(const char *path, const uint8_t *seal_key)
{
    pc_folder_options options = PC_FOLDER_OPTIONS_INIT;
    pc_folder *folder = NULL;
    options.seal_key = seal_key;
    CHECK_OK(pc_folder_open(&folder, context, path, &options));
    return folder;
}

/* Which number the record at `index` has. */
static uint32_t number_at(const pc_folder *folder, size_t index)
{
    pc_record_info info = PC_RECORD_INFO_INIT;
    pc_folder_get(folder, index, &info);
    for (uint32_t n = 0; n < COUNT; n++) {
        pc__id key = disk_key(n);
        if (!memcmp(key.bytes, info.key, 32))
            return n;
    }
    return UINT32_MAX;
}

static size_t index_of(const pc_folder *folder, uint32_t number)
{
    for (size_t i = 0; i < pc_folder_count(folder); i++)
        if (number_at(folder, i) == number)
            return i;
    return SIZE_MAX;
}

static void test_list(void)
{
    const char *path = filled_folder(NULL);
    pc_folder *folder = open_folder(path, NULL);
    uint8_t last[32] = {0};
    CHECK_INT(pc_folder_count(folder), COUNT);
    for (size_t i = 0; i < pc_folder_count(folder); i++) {
        pc_record_info info = PC_RECORD_INFO_INIT;
        int32_t ids[TOY_TOKENS];
        size_t count = 0;
        uint32_t n = number_at(folder, i);
        toy_image t;
        struct stat st;
        disk_image(&t, n, SIZE);
        CHECK_OK(pc_folder_get(folder, i, &info));
        CHECK(memcmp(last, info.key, 32) < 0);
        memcpy(last, info.key, 32);
        CHECK(!stat(disk_record_path(path, n), &st) && info.file_bytes == (uint64_t)st.st_size);
        CHECK(info.tokens == n && info.layers == TOY_BLOCKS && info.codec == PC_CODEC_RAW
              && !info.sealed && !info.lossy);
        CHECK(!memcmp(info.model, t.image.form.model, 32)
              && !strcmp(info.architecture, t.image.form.architecture));
        CHECK(info.state_bytes == t.block_bytes[0] + t.block_bytes[1] + t.block_bytes[2]
              && info.cost_seconds == t.image.cost);
        CHECK(info.written > 1700000000 && info.expires == 0 && info.version == 257);
        CHECK_OK(pc_folder_tokens(folder, i, NULL, 0, &count));
        CHECK_INT(count, n);
        memset(ids, 77, sizeof ids);
        CHECK_STATUS(pc_folder_tokens(folder, i, ids, n ? n - 1 : 0, &count),
                     n > 1 ? PC_ERR_LIMIT : PC_OK);
        CHECK(count == n && (n < 2 || !memcmp(ids, t.ids, (n - 1) * sizeof *ids))
              && (!n || ids[n - 1] == 0x4d4d4d4d));
        CHECK_OK(pc_folder_tokens(folder, i, ids, TOY_TOKENS, &count));
        CHECK(!n || !memcmp(ids, t.ids, n * sizeof *ids));
        CHECK_OK(pc_folder_verify(folder, i));
        toy_image_free(&t);
    }
    pc_folder_free(folder);
}

static void test_arguments(void)
{
    const char *path = filled_folder(NULL);
    pc_folder *folder = open_folder(path, NULL), *none = (pc_folder *)(uintptr_t)8;
    pc_record_info info = PC_RECORD_INFO_INIT;
    pc_folder_options options = PC_FOLDER_OPTIONS_INIT;
    size_t count;
    int32_t id;
    char name[PATH_MAX];
    CHECK_STATUS(pc_folder_open(NULL, context, path, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_folder_open(&none, NULL, path, NULL), PC_ERR_INVALID);
    CHECK(!none);
    CHECK_STATUS(pc_folder_open(&none, context, NULL, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_folder_open(&none, context, "", NULL), PC_ERR_INVALID);
    options.flags = 1;
    CHECK_STATUS(pc_folder_open(&none, context, path, &options), PC_ERR_INVALID);
    CHECK_STATUS(pc_folder_open(&none, context, "/nowhere/at/all", NULL), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("/nowhere/at/all");
    snprintf(name, sizeof name, "%s/plain", pc_test_folder());
    pc_test_write(name, "x", 1);
    CHECK_STATUS(pc_folder_open(&none, context, name, NULL), PC_ERR_IO);
    snprintf(name, sizeof name, "%s/other", pc_test_folder());
    CHECK(!mkdir(name, 0700));
    CHECK_STATUS(pc_folder_open(&none, context, name, NULL), PC_ERR_FORMAT);
    strcat(name, "/x");
    pc_test_write(name, "x", 1);
    name[strlen(name) - 2] = 0;
    CHECK_STATUS(pc_folder_open(&none, context, name, NULL), PC_ERR_FORMAT);
    CHECK(!none);
    CHECK_INT(pc_folder_count(NULL), 0);
    CHECK_STATUS(pc_folder_get(NULL, 0, &info), PC_ERR_INVALID);
    CHECK_STATUS(pc_folder_get(folder, COUNT, &info), PC_ERR_NOT_FOUND);
    CHECK_STATUS(pc_folder_get(folder, 0, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_folder_tokens(folder, 0, &id, 1, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_folder_tokens(folder, 0, NULL, 1, &count), PC_ERR_INVALID);
    CHECK_STATUS(pc_folder_tokens(folder, COUNT, &id, 1, &count), PC_ERR_NOT_FOUND);
    CHECK_STATUS(pc_folder_tokens(NULL, 0, &id, 1, &count), PC_ERR_INVALID);
    CHECK_STATUS(pc_folder_verify(folder, SIZE_MAX), PC_ERR_NOT_FOUND);
    CHECK_STATUS(pc_folder_verify(NULL, 0), PC_ERR_INVALID);
    CHECK_STATUS(pc_folder_remove(folder, COUNT), PC_ERR_NOT_FOUND);
    CHECK_STATUS(pc_folder_remove(NULL, 0), PC_ERR_INVALID);
    CHECK_STATUS(pc_folder_trim(NULL, 0, NULL, NULL), PC_ERR_INVALID);
    pc_folder_free(NULL);
    pc_folder_free(folder);
}

/* Verify checks every bit of a record, and every length. */
static void test_damage(void)
{
    const char *path = filled_folder(NULL);
    pc_folder *folder = open_folder(path, NULL);
    size_t index = index_of(folder, 5), size = 0;
    const char *name = disk_record_path(path, 5);
    char *whole = pc_test_read(name, &size);
    pc_record_info info = PC_RECORD_INFO_INIT;
    CHECK(whole && size > 4096);
    for (size_t at = 0; whole && at < size; at += at < 700 ? 1 : 13) {
        whole[at] ^= (char)(1 << at % 8);
        pc_test_write(name, whole, size);
        pc_status status = pc_folder_verify(folder, index);
        whole[at] ^= (char)(1 << at % 8);
        if (!CHECK(status == PC_ERR_FORMAT || status == PC_ERR_UNSUPPORTED)) {
            fprintf(stderr, "    byte %zu\n", at);
            break;
        }
        CHECK_ERROR_HAS(name);
    }
    for (size_t cut = 0; whole && cut < size; cut += cut < 700 ? 7 : 101) {
        pc_test_write(name, whole, cut);
        if (!CHECK_STATUS(pc_folder_verify(folder, index), PC_ERR_FORMAT))
            break;
    }
    /* what is damaged is listed all the same */
    pc_folder *again = open_folder(path, NULL);
    CHECK_INT(pc_folder_count(again), COUNT);
    pc_test_write(name, whole, 300);
    pc_folder_free(again);
    again = open_folder(path, NULL);
    CHECK_INT(pc_folder_count(again), COUNT);
    CHECK_STATUS(pc_folder_get(again, index, &info), PC_ERR_FORMAT);
    CHECK_ERROR_HAS(name);
    pc__id key = disk_key(5);
    CHECK(info.file_bytes == 300 && !memcmp(info.key, key.bytes, 32));
    /* a record under another's name */
    CHECK(!unlink(name) && !link(disk_record_path(path, 4), name));
    CHECK_STATUS(pc_folder_verify(again, index), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("another key");
    CHECK(!unlink(name));
    CHECK_STATUS(pc_folder_verify(again, index), PC_ERR_NOT_FOUND);
    size_t count = 7;
    CHECK_STATUS(pc_folder_tokens(again, index, NULL, 0, &count), PC_ERR_NOT_FOUND);
    CHECK_STATUS(pc_folder_remove(again, index), PC_ERR_NOT_FOUND);
    pc_folder_free(again);
    pc_folder_free(folder);
    free(whole);
}

static void test_sealed(void)
{
    uint8_t key[32], wrong[32], seal_id[16];
    memset(key, 5, sizeof key);
    memset(wrong, 6, sizeof wrong);
    const char *path = filled_folder(key);
    pc_folder *folder = open_folder(path, key);
    pc_record_info info = PC_RECORD_INFO_INIT;
    size_t count = 0, index = index_of(folder, 8); /* the order is that of names */
    pc_folder_free(folder);
    folder = open_folder(path, NULL);
    CHECK(index_of(folder, 8) == SIZE_MAX);
    int32_t ids[TOY_TOKENS];
    CHECK_INT(pc_folder_count(folder), COUNT);
    CHECK_OK(pc_folder_get(folder, index, &info));
    CHECK(info.sealed == 1 && info.tokens == 8 && info.layers == 0);
    CHECK_STATUS(pc_folder_tokens(folder, index, ids, TOY_TOKENS, &count), PC_ERR_UNSUPPORTED);
    CHECK_INT(count, 8);
    CHECK(!info.opened);
    CHECK_STATUS(pc_folder_verify(folder, index),
                 PC_ERR_UNSUPPORTED); /* its frame is whole, its states were not checked */
    CHECK_ERROR_HAS("frame only: record is sealed, and there is no key");
    pc_folder_free(folder);
    folder = open_folder(path, key);
    CHECK_OK(pc_folder_get(folder, index, &info));
    CHECK(info.layers == TOY_BLOCKS && info.opened == 1);
    CHECK_OK(pc_folder_tokens(folder, index, ids, TOY_TOKENS, &count));
    CHECK_OK(pc_folder_verify(folder, index));
    pc_folder_free(folder);
    folder = open_folder(path, wrong);
    memcpy(seal_id, info.seal_id, sizeof seal_id);
    CHECK_OK(pc_folder_get(folder, index, &info));
    CHECK(!info.opened && !memcmp(seal_id, info.seal_id, sizeof seal_id));
    CHECK_STATUS(pc_folder_verify(folder, index), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("frame only: record is sealed with another key");
    CHECK_STATUS(pc_folder_tokens(folder, index, ids, TOY_TOKENS, &count), PC_ERR_UNSUPPORTED);
    pc_folder_free(folder);
}

static void test_remove(void)
{
    const char *path = filled_folder(NULL);
    pc__tier *tier = NULL;
    uint32_t dirty;
    CHECK_OK(disk_open(&tier, path, &(disk_options){0}));
    pc_folder *folder = open_folder(path, NULL);
    size_t index = index_of(folder, 3);
    CHECK_OK(pc_folder_remove(folder, index));
    CHECK_STATUS(pc_folder_remove(folder, index), PC_ERR_NOT_FOUND);
    CHECK_INT(pc_folder_count(folder), COUNT); /* as it was opened */
    CHECK(access(disk_record_path(path, 3), F_OK));
    CHECK_INT(disk_look(path).records, COUNT - 1);
    CHECK_INT(disk_usage(path, &dirty), disk_look(path).record_bytes);
    CHECK_STATUS(disk_get(tier, 3, SIZE, NULL), PC_MISS);
    CHECK_OK(disk_get(tier, 4, SIZE, NULL));
    CHECK(disk_balances(tier));
    tier->ops->free(tier);
    pc_folder_free(folder);
}

static void test_trim(void)
{
    const char *path = filled_folder(NULL);
    char name[PATH_MAX];
    pc__tier *tier = NULL;
    uint64_t removed = 77, freed = 77;
    uint32_t reason, dirty;
    toy_image t;
    CHECK_OK(disk_open(&tier, path, &(disk_options){0}));
    for (int i = 0; i < 3; i++)
        CHECK_OK(disk_get(tier, 6, SIZE, NULL));
    disk_image(&t, 30, SIZE);
    t.image.expires = pc__now_date() - 10;
    CHECK_OK(tier->ops->put(tier, &t.image, pc__now() + 9, &reason));
    toy_image_free(&t);
    tier->ops->free(tier);
    uint64_t all = disk_look(path).record_bytes, one = all / (COUNT + 1);
    snprintf(name, sizeof name, "%s/new/left-behind", path);
    pc_test_write(name, "half a record", 13);
    pc_folder *folder = open_folder(path, NULL);
    CHECK_OK(pc_folder_trim(folder, all, &removed, &freed));
    CHECK(removed == 2 && freed == one + 13); /* the expired one, and what a killed writer left */
    CHECK(access(name, F_OK));
    CHECK_OK(pc_folder_trim(folder, 2 * one + 100, &removed, &freed));
    CHECK(removed == COUNT - 2 && freed == (COUNT - 2) * one);
    disk_files files = disk_look(path);
    CHECK(files.records == 2 && files.record_bytes <= 2 * one + 100);
    CHECK(!access(disk_record_path(path, 6), F_OK)); /* the one that was used */
    CHECK_INT(disk_usage(path, &dirty), files.record_bytes);
    CHECK_OK(pc_folder_trim(folder, 0, NULL, NULL));
    CHECK_INT(disk_look(path).records, 0);
    pc_folder_free(folder);
}

/* Nothing is removed from another folder at the same path. */
static void test_moved(void)
{
    const char *path = filled_folder(NULL), *other = filled_folder(NULL);
    char aside[PATH_MAX];
    pc_folder *folder = open_folder(path, NULL);
    snprintf(aside, sizeof aside, "%s.aside", path);
    CHECK(!rename(path, aside) && !rename(other, path));
    CHECK_STATUS(pc_folder_remove(folder, 0), PC_ERR_STATE);
    CHECK_STATUS(pc_folder_trim(folder, 0, NULL, NULL), PC_ERR_STATE);
    CHECK_INT(disk_look(path).records, COUNT);
    CHECK_OK(pc_folder_verify(folder, 0));
    pc_folder_free(folder);
}

static int without_memory(uint64_t fail_at)
{
    const char *path = filled_folder(NULL);
    pc_test_memory memory = {0};
    pc_context *own = pc_test_counted_context(&memory, 1);
    pc_folder *folder = NULL;
    size_t files = pc_test_open_files(), count;
    int32_t ids[TOY_TOKENS];
    memory.fail_at = memory.calls + fail_at;
    pc_status status = pc_folder_open(&folder, own, path, NULL);
    CHECK(status == PC_OK ? folder && pc_folder_count(folder) == COUNT
                          : !folder && status == PC_ERR_NOMEM);
    if (folder) {
        status = pc_folder_tokens(folder, 1, ids, TOY_TOKENS, &count);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        status = pc_folder_verify(folder, 2);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        status = pc_folder_remove(folder, 3);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        status = pc_folder_trim(folder, 0, NULL, NULL);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
    }
    pc_folder_free(folder);
    pc_context_free(own);
    CHECK_INT(memory.live_blocks, 0);
    CHECK_INT(pc_test_open_files(), files);
    return memory.calls >= memory.fail_at;
}

int main(void)
{
    CHECK_OK(pc_context_new(&context, NULL));
    test_list();
    test_arguments();
    test_damage();
    test_sealed();
    test_remove();
    test_trim();
    test_moved();
    for (uint64_t i = 1; without_memory(i); i += i < 50 ? 1 : 5)
        ;
    pc_context_free(context);
    return pc_test_end();
}
