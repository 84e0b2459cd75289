/* Catches: option structs of an older or newer caller that are misread, results written beyond the
 * caller's struct, unknown fields that are silently ignored. */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "testing.h"

/* A struct of this library: version 1 ended behind b. */
typedef struct known {
    size_t struct_size;
    uint64_t a, b;
    uint64_t c, d; /* since version 2 */
} known;
enum { V1 = 24 };

/* The caller's struct in a block of exactly that size, so that a sanitizer sees a read beyond it.
 */
static unsigned char *caller(size_t size, size_t stated)
{
    unsigned char *p = malloc(size);
    for (size_t i = 0; i < size; i++)
        p[i] = (unsigned char)(i + 1);
    memcpy(p, &stated, sizeof stated);
    return p;
}

static void defaults(void)
{
    known k;
    memset(&k, 0xee, sizeof k);
    CHECK_OK(pc__options_read(&k, sizeof k, V1, NULL, "opts"));
    CHECK(k.struct_size == sizeof k && !k.a && !k.b && !k.c && !k.d);
}

static void reads(void)
{
    known k, whole = {sizeof whole, 1, 2, 3, 4};
    CHECK_OK(pc__options_read(&k, sizeof k, V1, &whole, "opts"));
    CHECK(!memcmp(&k, &whole, sizeof k));
    for (size_t size = V1; size <= sizeof k; size++) { /* an older caller: the rest is default */
        unsigned char *old = caller(size, size);
        static const unsigned char zero[sizeof k];
        CHECK_OK(pc__options_read(&k, sizeof k, V1, old, "opts"));
        CHECK_INT(k.struct_size, sizeof k);
        CHECK(!memcmp(&k.a, old + 8, size - 8));
        CHECK(!memcmp((unsigned char *)&k + size, zero, sizeof k - size));
        free(old);
    }
}

static void below_version_1(void)
{
    known k;
    for (size_t size = 0; size < V1; size++) {
        unsigned char *bad = caller(V1, size);
        CHECK_STATUS(pc__options_read(&k, sizeof k, V1, bad, "opts"), PC_ERR_INVALID);
        CHECK_ERROR_HAS("opts");
        CHECK_ERROR_HAS("INIT");
        free(bad);
    }
}

static void newer_caller(void)
{
    const size_t size = sizeof(known) + 9;
    known k;
    unsigned char *p = caller(size, size);
    memset(p + sizeof k, 0, size - sizeof k);
    CHECK_OK(pc__options_read(&k, sizeof k, V1, p, "opts"));
    CHECK(k.struct_size == sizeof k && !memcmp(&k.a, p + 8, sizeof k - 8));
    for (size_t i = sizeof k; i < size; i++) {
        char text[32];
        p[i] = 0x80;
        CHECK_STATUS(pc__options_read(&k, sizeof k, V1, p, "opts"), PC_ERR_UNSUPPORTED);
        snprintf(text, sizeof text, "byte %zu", i);
        CHECK_ERROR_HAS(text);
        CHECK_ERROR_HAS("opts");
        p[i] = 0;
    }
    free(p);
}

static void unaligned(void)
{
    unsigned char room[sizeof(known) + 8];
    known k, whole = {sizeof whole, 5, 6, 7, 8};
    memcpy(room + 3, &whole, sizeof whole);
    CHECK_OK(pc__options_read(&k, sizeof k, V1, room + 3, "opts"));
    CHECK(!memcmp(&k, &whole, sizeof k));
}

static void results(void)
{
    const known from = {12345, 1, 2, 3, 4};
    for (size_t size = 0; size < sizeof from + 20; size++) {
        unsigned char *p = caller(size < V1 ? V1 : size, size), *copy = caller(V1, size);
        pc_status status = pc__result_write(p, V1, &from, sizeof from, "result");
        size_t kept, both = size < sizeof from ? size : sizeof from;
        memcpy(&kept, p, sizeof kept);
        CHECK_INT(kept, size);
        if (size < V1) {
            CHECK_STATUS(status, PC_ERR_INVALID);
            CHECK_ERROR_HAS("result");
            CHECK(!memcmp(p, copy, V1)); /* as it was */
        } else {
            int tail = 0;
            CHECK_OK(status);
            CHECK(!memcmp(p + 8, (const unsigned char *)&from + 8, both - 8));
            for (size_t i = sizeof from; i < size; i++)
                tail |= p[i];
            CHECK(!tail); /* fields that this library does not know */
        }
        free(copy);
        free(p);
    }
    CHECK_STATUS(pc__result_write(NULL, V1, &from, sizeof from, "result"), PC_ERR_INVALID);
    CHECK_ERROR_HAS("result");
}

int main(void)
{
    defaults();
    reads();
    below_version_1();
    newer_caller();
    unaligned();
    results();
    return pc_test_end();
}
