/* Catches: option structs of an older or newer caller that are misread, results written beyond the
 * caller's struct, unknown fields that are silently ignored; arrays
 * of structs of another size than ours that are read or written past their elements. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
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

/* Elements of arrays have no struct_size; version 1 of this one ended behind b. */
typedef struct element {
    uint64_t a, b;
    uint64_t c; /* since version 2 */
} element;
enum { ELEMENT_V1 = 16, COUNT = 3 };

/* Elements of `stride` bytes in a block of exactly that size; bytes 1, 2, 3, … of each. */
static unsigned char *elements(size_t stride)
{
    unsigned char *p = malloc(COUNT * stride + 1);
    for (size_t i = 0; i < COUNT * stride; i++)
        p[i] = (unsigned char)(i % stride + 1);
    return p;
}

static pc_status array_in(const void **dense, void **copy, const void *array, size_t stride,
                          size_t count)
{
    return pc__array_in(dense, copy, &pc__libc_allocator, PC__ARRAY("call", "things", element, b),
                        array, stride, count);
}

static void arrays_in(void)
{
    const void *dense;
    void *copy;
    for (size_t stride = ELEMENT_V1; stride <= sizeof(element) + 9; stride++) {
        unsigned char *given = elements(stride);
        size_t shared = stride < sizeof(element) ? stride : sizeof(element);
        if (stride > sizeof(element)) { /* a newer caller: only zeros are known */
            CHECK_STATUS(array_in(&dense, &copy, given, stride, COUNT), PC_ERR_UNSUPPORTED);
            CHECK_ERROR_HAS("call: byte 24 of things[0], a element, is set");
            CHECK(!dense && !copy);
            for (size_t i = 0; i < COUNT; i++)
                memset(given + i * stride + sizeof(element), 0, stride - sizeof(element));
        }
        CHECK_OK(array_in(&dense, &copy, given, stride, COUNT));
        CHECK((dense == given && !copy) == (stride == sizeof(element)));
        for (size_t i = 0; i < COUNT; i++) {
            element want = {0};
            memcpy(&want, given + i * stride, shared);
            CHECK(!memcmp((const element *)dense + i, &want, sizeof want));
        }
        pc__free(&pc__libc_allocator, copy);
        free(given);
    }
}

static void bad_arrays(void)
{
    const void *dense;
    void *copy;
    element e[COUNT] = {{0}};
    CHECK_OK(array_in(&dense, &copy, NULL, 0, 0)); /* nothing needs no stride */
    for (size_t stride = 0; stride < ELEMENT_V1; stride++) {
        CHECK_STATUS(array_in(&dense, &copy, e, stride, COUNT), PC_ERR_INVALID);
        CHECK_ERROR_HAS("call: the stride of things is ");
        CHECK_ERROR_HAS("set it to sizeof(element)");
    }
    CHECK_STATUS(array_in(&dense, &copy, NULL, sizeof *e, COUNT), PC_ERR_INVALID);
    CHECK_STATUS(array_in(&dense, &copy, e, sizeof *e, SIZE_MAX / 8), PC_ERR_INVALID);
    CHECK_STATUS(array_in(&dense, &copy, e, SIZE_MAX / 2, COUNT), PC_ERR_INVALID);
    CHECK_STATUS(array_in(&dense, &copy, e, (1 << 16) + 1, 1), PC_ERR_INVALID);
}

static void arrays_out(void)
{
    const element from = {1, 2, 3};
    for (size_t stride = ELEMENT_V1; stride <= sizeof(element) + 9; stride++) {
        unsigned char *to = elements(stride);
        for (size_t i = 0; i < COUNT; i++)
            pc__array_out(PC__ARRAY("call", "things", element, b), to, stride, i, &from);
        for (size_t i = 0; i < COUNT * stride; i++)
            CHECK_INT(to[i],
                      i % stride < sizeof from ? ((const unsigned char *)&from)[i % stride] : 0);
        free(to);
    }
}

int main(void)
{
    defaults();
    reads();
    below_version_1();
    newer_caller();
    unaligned();
    results();
    arrays_in();
    bad_arrays();
    arrays_out();
    return pc_test_end();
}
