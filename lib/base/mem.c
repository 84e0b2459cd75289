/* Allocations with a header, through the caller's allocator; the C library's allocator. */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"

/* Stands right before every block, `offset` bytes after the allocator's address. */
typedef struct block_header {
    size_t size; /* of the block, without the header */
    uint32_t align;
    uint32_t offset;
} block_header;

/* Every forward pass reads all weights and K/V: with pages of 4 KiB, address translation takes a
 * quarter of the memory bandwidth. Large blocks are mappings of their own with huge pages, which do
 * not stay in the heap and do not grow under small blocks. AddressSanitizer does not see mappings,
 * so there all blocks come from malloc. */
#if defined(MADV_HUGEPAGE) && !defined(__SANITIZE_ADDRESS__)
enum { HUGE_PAGE = 2 << 20, SMALL_PAGE = 1 << 16 }; /* a multiple of all small page sizes */

static int is_large(size_t size)
{
    return size >= 2 * (size_t)HUGE_PAGE;
}

static size_t mapped_size(size_t size)
{
    return (size + SMALL_PAGE - 1) / SMALL_PAGE * SMALL_PAGE;
}

static void *map_large(size_t size)
{
    size_t length = mapped_size(size), room = length + HUGE_PAGE, before;
    char *base = size > SIZE_MAX - 2 * HUGE_PAGE
                     ? MAP_FAILED
                     : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    before = (HUGE_PAGE - (uintptr_t)base % HUGE_PAGE) % HUGE_PAGE;
    if (before)
        munmap(base, before);
    if (before < HUGE_PAGE)
        munmap(base + before + length, HUGE_PAGE - before);
    madvise(base + before, length, MADV_HUGEPAGE); /* a refusal does no harm */
    return base + before;
}

static void unmap_large(void *ptr, size_t size)
{
    munmap(ptr, mapped_size(size));
}
#else
static int is_large(size_t size)
{
    (void)size;
    return 0;
}

static void *map_large(size_t size)
{
    (void)size;
    return NULL;
}

static void unmap_large(void *ptr, size_t size)
{
    (void)ptr, (void)size;
}
#endif

static void *libc_alloc(void *user, size_t size, size_t align)
{
    void *ptr = NULL;
    (void)user;
    if (is_large(size))
        return map_large(size);
    if (align <= 16)
        return malloc(size);
    return posix_memalign(&ptr, align, size) ? NULL : ptr;
}

static void libc_free(void *user, void *ptr, size_t size, size_t align)
{
    (void)user, (void)align;
    if (is_large(size))
        unmap_large(ptr, size);
    else
        free(ptr);
}

const pc_allocator pc__libc_allocator = {sizeof(pc_allocator), NULL, libc_alloc, libc_free};

/* Returns the whole pages of a malloc block that is about to be freed to the system. malloc's own
 * data in free blocks lies at their ends. */
static void discard_pages(void *ptr, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (page - (uintptr_t)ptr % page) % page;
    if (size >= before + page)
        madvise((char *)ptr + before, (size - before) / page * page,
                MADV_DONTNEED); /* a refusal does no harm */
}

static block_header *header_of(void *ptr)
{
    return (block_header *)((char *)ptr - sizeof(block_header));
}

void *pc__alloc_aligned(const pc_allocator *mem, size_t size, size_t align)
{
    size_t offset = align > sizeof(block_header) ? align : sizeof(block_header);
    char *raw = size > SIZE_MAX - offset ? NULL : mem->alloc(mem->user, size + offset, align);
    if (!raw) {
        pc__fail(PC_ERR_NOMEM, "out of memory (%zu bytes)", size);
        return NULL;
    }
    block_header *h = header_of(raw + offset);
    h->size = size;
    h->align = (uint32_t)align;
    h->offset = (uint32_t)offset;
    return raw + offset;
}

void *pc__alloc(const pc_allocator *mem, size_t size)
{
    return pc__alloc_aligned(mem, size, 16);
}

void *pc__calloc(const pc_allocator *mem, size_t count, size_t size)
{
    size_t bytes;
    void *ptr;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        pc__fail(PC_ERR_NOMEM, "out of memory (%zu elements of %zu bytes)", count, size);
        return NULL;
    }
    ptr = pc__alloc(mem, bytes);
    return ptr ? memset(ptr, 0, bytes) : NULL;
}

size_t pc__block_size(void *ptr)
{
    return header_of(ptr)->size;
}

void pc__free(const pc_allocator *mem, void *ptr)
{
    if (ptr) {
        block_header h = *header_of(ptr);
        mem->free(mem->user, (char *)ptr - h.offset, h.size + h.offset, h.align);
    }
}

void pc__free_to_system(const pc_allocator *mem, void *ptr)
{
    if (ptr && mem->free == libc_free && !is_large(header_of(ptr)->size + header_of(ptr)->offset))
        discard_pages(ptr, header_of(ptr)->size);
    pc__free(mem, ptr);
}

void *pc__realloc(const pc_allocator *mem, void *ptr, size_t size)
{
    void *moved = pc__alloc(mem, size);
    if (moved && ptr) {
        size_t old = header_of(ptr)->size;
        memcpy(moved, ptr, old < size ? old : size);
        pc__free(mem, ptr);
    }
    return moved;
}

static void *alloc_from(void *user, size_t size, size_t align)
{
    const pc_allocator *from = &((const pc__zeroing *)user)->from;
    return from->alloc(from->user, size, align);
}

static void zero_and_free(void *user, void *ptr, size_t size, size_t align)
{
    const pc_allocator *from = &((const pc__zeroing *)user)->from;
    explicit_bzero(ptr, size);
    from->free(from->user, ptr, size, align);
}

void pc__zeroing_init(pc__zeroing *zeroing, const pc_allocator *from)
{
    zeroing->from = *from;
    zeroing->mem = (pc_allocator){sizeof(pc_allocator), zeroing, alloc_from, zero_and_free};
}

char *pc__strndup(const pc_allocator *mem, const char *text, size_t size)
{
    char *copy = pc__alloc(mem, size < SIZE_MAX ? size + 1 : size);
    if (copy) {
        memcpy(copy, text, size);
        copy[size] = 0;
    }
    return copy;
}

char *pc__strdup(const pc_allocator *mem, const char *text)
{
    return pc__strndup(mem, text, strlen(text));
}

pc_status pc__grow(const pc_allocator *mem, void **array, size_t *capacity, size_t need,
                   size_t element)
{
    size_t want = *capacity + *capacity / 2 + 8, bytes;
    void *moved;
    if (need <= *capacity)
        return PC_OK;
    if (want < need)
        want = need;
    if (__builtin_mul_overflow(want, element, &bytes))
        return pc__fail(PC_ERR_NOMEM, "out of memory (%zu elements of %zu bytes)", want, element);
    moved = pc__realloc(mem, *array, bytes);
    if (!moved)
        return PC_ERR_NOMEM;
    *array = moved;
    *capacity = want;
    return PC_OK;
}

pc_status pc__bytes_add(pc__bytes *bytes, const void *data, size_t size)
{
    if (size >= SIZE_MAX - bytes->size)
        return pc__fail(PC_ERR_NOMEM, "out of memory (%zu bytes and %zu more)", bytes->size, size);
    PC__TRY_RETURN(
        pc__grow(bytes->mem, (void **)&bytes->data, &bytes->capacity, bytes->size + size + 1, 1));
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    bytes->data[bytes->size] = 0;
    return PC_OK;
}

pc_status pc__bytes_add_text(pc__bytes *bytes, const char *text)
{
    return pc__bytes_add(bytes, text, strlen(text));
}

void pc__bytes_free(pc__bytes *bytes)
{
    pc__free(bytes->mem, bytes->data);
    bytes->data = NULL;
    bytes->size = bytes->capacity = 0;
}
