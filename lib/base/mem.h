/* The only place that calls an allocator. A header before each block remembers size and alignment,
 * which the application's `free` is given. A failed allocation sets the error text. */
#ifndef PC_BASE_MEM_H
#define PC_BASE_MEM_H

#include <promptcache.h>

/* The C library's own. */
extern const pc_allocator pc__libc_allocator;

void *pc__alloc(const pc_allocator *mem, size_t size); /* aligned to 16; size 0 gives a block */
/* `align`: a power of two from 16 to 4096. */
void *pc__alloc_aligned(const pc_allocator *mem, size_t size, size_t align);
/* Zeroed. An overflow of count * size is out of memory. */
void *pc__calloc(const pc_allocator *mem, size_t count, size_t size);
/* `ptr`: of pc__alloc; NULL allocates. */
void *pc__realloc(const pc_allocator *mem, void *ptr, size_t size);
void pc__free(const pc_allocator *mem, void *ptr); /* any of these; NULL does nothing */
size_t pc__block_size(void *ptr);                  /* as it was asked for */
/* The same, and memory of the C library returns to the system at once, so that free blocks between
 * others do not count as memory of the process. For evicted states only: pages must be faulted in
 * again, which costs more than reusing memory that malloc still holds. */
void pc__free_to_system(const pc_allocator *mem, void *ptr);
/* An allocator around another one that zeroes memory before it frees it. */
typedef struct pc__zeroing {
    pc_allocator mem; /* to be used */
    pc_allocator from;
} pc__zeroing;
/* `zeroing` must not be moved afterwards. */
void pc__zeroing_init(pc__zeroing *zeroing, const pc_allocator *from);
/* The next `bytes` of a block that holds several arrays, each on its own cache lines; *at begins
 * 64-byte aligned. */
static inline void *pc__carve(uint8_t **at, size_t bytes)
{
    void *p = *at;
    if (bytes) /* there is no memory if all arrays are empty */
        *at += (bytes + 63) / 64 * 64;
    return p;
}
char *pc__strdup(const pc_allocator *mem, const char *text);
char *pc__strndup(const pc_allocator *mem, const char *text, size_t size); /* adds the NUL */

/* Makes room for `need` elements in *array (grown by half at least); PC_ERR_NOMEM leaves it as it
 * was. status = pc__grow(mem, (void **)&v->items, &v->capacity, v->count + 1, sizeof *v->items); */
pc_status pc__grow(const pc_allocator *mem, void **array, size_t *capacity, size_t need,
                   size_t element);

/* A growing string of bytes; always NUL-terminated once something was added. Zero-initialise (but
 * for mem). */
typedef struct pc__bytes {
    const pc_allocator *mem;
    char *data;
    size_t size;
    size_t capacity;
} pc__bytes;
pc_status pc__bytes_add(pc__bytes *bytes, const void *data, size_t size);
pc_status pc__bytes_add_text(pc__bytes *bytes, const char *text); /* NUL-terminated */
void pc__bytes_free(pc__bytes *bytes);

#endif
