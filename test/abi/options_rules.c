#include "options_rules.h"

#include <stdlib.h>
#include <string.h>

#include "testing.h"

enum { ROOM = 512 };

/* A fresh block of exactly `size` bytes, so that a sanitizer sees every read past its end. */
static unsigned char *block(const pc_read_case *c, size_t size)
{
    unsigned char *bytes = calloc(1, size);
    if (!bytes)
        abort();
    memcpy(bytes, c->init, size < c->size ? size : c->size);
    memcpy(bytes, &size, sizeof size);
    return bytes;
}

static void refused(const pc_read_case *c, unsigned char *bytes, pc_status want)
{
    if (!CHECK_STATUS(c->use(bytes), want))
        fprintf(stderr, "  in %s\n", c->name);
    CHECK(strlen(pc_error_text()) > 10);
}

static void sizes(const pc_read_case *c)
{
    const size_t small[] = {0, 1, sizeof(size_t), c->v1_size / 2, c->v1_size - 1};
    CHECK(c->size >= c->v1_size);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        unsigned char *bytes = block(c, c->v1_size);
        memcpy(bytes, &small[i], sizeof small[i]);
        refused(c, bytes, small[i] < c->v1_size ? PC_ERR_INVALID : PC_OK);
        CHECK_ERROR_HAS(c->name);
        CHECK_ERROR_HAS("INIT");
        free(bytes);
    }
    /* What an older caller does not have is the default. */
    for (size_t size = c->v1_size; size <= c->size; size += 8) {
        unsigned char *bytes = block(c, size);
        if (!CHECK(c->use(bytes) >= 0))
            fprintf(stderr, "  in %s of %zu bytes: %s\n", c->name, size, pc_error_text());
        free(bytes);
    }
}

static void newer_callers(const pc_read_case *c)
{
    for (size_t more = 8; more <= 64; more *= 2) {
        unsigned char *bytes = block(c, c->size + more);
        CHECK(c->use(bytes) >= 0);
        for (size_t at = 0; at < more; at += more - 1) { /* the first and the last unknown byte */
            bytes[c->size + at] = 1;
            refused(c, bytes, PC_ERR_UNSUPPORTED);
            CHECK_ERROR_HAS(c->name);
            bytes[c->size + at] = 0;
        }
        free(bytes);
    }
}

static void bits(const pc_read_case *c)
{
    unsigned char *bytes = block(c, c->size);
    for (int bit = 0; bit < 64 && c->flags != PC_NO_FIELD; bit++) {
        uint64_t flags = UINT64_C(1) << bit;
        if (c->known_flags & flags)
            continue;
        memcpy(bytes + c->flags, &flags, sizeof flags);
        refused(c, bytes, PC_ERR_INVALID);
    }
    memcpy(bytes, c->init, c->size);
    for (int bit = 0; bit < 32 && c->reserved != PC_NO_FIELD; bit++) {
        uint32_t reserved = UINT32_C(1) << bit;
        memcpy(bytes + c->reserved, &reserved, sizeof reserved);
        refused(c, bytes, PC_ERR_INVALID);
    }
    free(bytes);
}

static void known_flags(const pc_read_case *c)
{
    unsigned char *bytes = block(c, c->size);
    for (int bit = 0; bit < 64 && c->flags != PC_NO_FIELD; bit++) {
        uint64_t flags = UINT64_C(1) << bit & c->known_flags;
        memcpy(bytes + c->flags, &flags, sizeof flags);
        if (flags)
            CHECK(c->use(bytes) >= 0);
    }
    free(bytes);
}

void pc_check_read(const pc_read_case *c)
{
    CHECK(!c->nullable || c->use(NULL) >= 0);
    if (!CHECK(c->use(c->init) >= 0))
        fprintf(stderr, "  in %s: %s\n", c->name, pc_error_text());
    sizes(c);
    newer_callers(c);
    bits(c);
    known_flags(c);
}

/* `room` bytes; the library is given `size` as their number. */
static pc_status fill(const pc_write_case *c, unsigned char *bytes, size_t room, size_t size)
{
    memset(bytes, 0xa5, room);
    memcpy(bytes, &size, sizeof size);
    return c->fill(bytes);
}

static int all(const unsigned char *bytes, size_t from, size_t to, unsigned char value)
{
    for (size_t i = from; i < to; i++)
        if (bytes[i] != value)
            return 0;
    return 1;
}

void pc_check_write(const pc_write_case *c)
{
    unsigned char bytes[ROOM];
    size_t kept;
    CHECK(c->size >= c->v1_size);
    for (size_t size = 0; size < c->v1_size; size += 8) {
        CHECK_STATUS(fill(c, bytes, ROOM, size), PC_ERR_INVALID);
        CHECK_ERROR_HAS(c->name);
        CHECK(all(bytes, sizeof size, ROOM, 0xa5));
    }
    for (size_t size = c->v1_size; size <= c->size + 64; size += 8) {
        if (!CHECK(fill(c, bytes, ROOM, size) >= 0))
            fprintf(stderr, "  in %s\n", c->name);
        memcpy(&kept, bytes, sizeof kept);
        CHECK_INT(kept, size);
        CHECK(!all(bytes, sizeof size, size < c->size ? size : c->size, 0xa5));
        /* What the library does not know is zero. */
        CHECK(size <= c->size || all(bytes, c->size, size, 0));
        CHECK(all(bytes, size, ROOM, 0xa5));
    }
}
