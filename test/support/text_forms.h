/* The fault tests of vocabularies share this: a small good file of a form, checks that every
 * damaged one is refused, and checks that nothing leaks when memory runs out. */
#ifndef PC_TEXT_FORMS_H
#define PC_TEXT_FORMS_H

#include <string.h>

#include "testing.h"
#include "text/tokenizer.h"

static inline const char *write_file(const char *name, const void *data, size_t size)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", pc_test_folder(), name);
    remove(path);
    pc_test_write(path, data, size);
    return path;
}

typedef pc_status (*read_fn)(pc__tokenizer **out, const pc_allocator *mem, const char *path);

/* A form of file: a good file of it, and its reader. */
typedef struct form {
    const char *name; /* of the file */
    read_fn read;
    size_t size;
    uint8_t data[16384];
} form;

/* A tokenizer.json of three parts. */
static inline form json_form(const char *head, const char *parts, const char *model)
{
    form f = {.name = "tokenizer.json", .read = pc__tokenizer_from_json};
    f.size = (size_t)snprintf((char *)f.data, sizeof f.data, "%s%s%s", head, parts, model);
    return f;
}

/* Refused, nothing left behind, and the text has the file's name and the cause. */
static inline void refused(const form *f, const void *data, size_t size, pc_status want,
                           const char *cause)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    pc__tokenizer *t = (pc__tokenizer *)(uintptr_t)8;
    pc_status status = f->read(&t, &mem, write_file(f->name, data, size));
    if (want)
        CHECK_STATUS(status, want);
    else
        CHECK(status == PC_ERR_FORMAT || status == PC_ERR_UNSUPPORTED);
    CHECK(!t && !memory.live_blocks);
    CHECK_ERROR_HAS(f->name);
    CHECK_ERROR_HAS(cause);
    if (status >= 0)
        pc__tokenizer_free(t);
}

static inline void truncated(const form *f)
{
    for (size_t size = 0; size < f->size; size++)
        refused(f, f->data, size, 0, f->name);
}

static inline void not_there(const form *f)
{
    pc__tokenizer *t = (pc__tokenizer *)(uintptr_t)8;
    char path[256];
    snprintf(path, sizeof path, "%s/nobody", pc_test_folder());
    CHECK_STATUS(f->read(&t, &pc__libc_allocator, path), PC_ERR_NOT_FOUND);
    CHECK(!t);
    CHECK_ERROR_HAS("nobody: No such file");
    CHECK_STATUS(f->read(&t, &pc__libc_allocator, pc_test_folder()), PC_ERR_IO);
    CHECK(!t);
    CHECK_ERROR_HAS("not a regular file");
}

/* Encodes and decodes with each allocation failing in turn. */
static inline void use(const pc__tokenizer *t, pc_test_memory *memory)
{
    static const char text[] = "ab a<s> \xc3\xa9\n the the the <x>12";
    const uint64_t flags = PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS;
    int32_t ids[256];
    char back[512];
    size_t count = 0, size = 0;
    int64_t live = memory->live_blocks;
    uint64_t start, used = 1;
    for (uint64_t at = 1; at <= used; at++) {
        start = memory->calls;
        memory->fail_at = start + at;
        pc_status status = pc__text_to_tokens(t, text, sizeof text - 1, flags, ids, 256, &count);
        used = memory->calls - start;
        if (at > used)
            CHECK_OK(status);
        else
            CHECK(status == PC_ERR_NOMEM && count == 0);
        used += status < 0; /* one call more than that failed */
        CHECK_INT(memory->live_blocks, live);
    }
    used = 1;
    for (uint64_t at = 1; at <= used; at++) {
        start = memory->calls;
        memory->fail_at = start + at;
        pc_status status = pc__tokens_to_text(t, ids, count, PC_TOKENIZE_SPECIAL, back, sizeof back,
                                              &size);
        used = memory->calls - start + (status < 0);
        CHECK(status == PC_OK || (status == PC_ERR_NOMEM && size == 0));
        CHECK_INT(memory->live_blocks, live);
    }
    CHECK(size > 0);
    memory->fail_at = 0;
}

/* Loads with each allocation failing in turn. PCRE2's compiler to machine code may do without. */
static inline void no_memory(const form *f)
{
    const char *path = write_file(f->name, f->data, f->size);
    for (uint64_t at = 1, more = 1; more; at++) {
        pc_test_memory memory = {.fail_at = at};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc__tokenizer *t = (pc__tokenizer *)(uintptr_t)8;
        pc_status status = f->read(&t, &mem, path);
        more = memory.calls >= at;
        if (!more)
            CHECK_OK(status);
        if (status >= 0)
            use(t, &memory);
        else
            CHECK(status == PC_ERR_NOMEM && !t);
        pc__tokenizer_free(status < 0 ? NULL : t);
        CHECK_INT(memory.live_blocks, 0);
    }
}

#endif
