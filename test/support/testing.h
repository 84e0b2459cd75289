/* What every test uses: checks that count, temporary folders, the place of test data, an allocator
 * that fails on order. */
#ifndef PC_TESTING_H
#define PC_TESTING_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <promptcache.h>

/* Tests continue after a failed check; pc_test_end() returns the exit status and prints the
 * count. */
#define CHECK(condition) pc_test_check((condition) ? 1 : 0, __FILE__, __LINE__, #condition)
#define CHECK_INT(got, want) pc_test_int((int64_t)(got), (int64_t)(want), __FILE__, __LINE__, #got)
#define CHECK_STR(got, want) pc_test_str((got), (want), __FILE__, __LINE__, #got)
#define CHECK_OK(call) pc_test_status((call), PC_OK, __FILE__, __LINE__, #call)
#define CHECK_STATUS(call, want) pc_test_status((call), (want), __FILE__, __LINE__, #call)
/* the error text of the last failing call contains this */
#define CHECK_ERROR_HAS(part) pc_test_has(pc_error_text(), (part), __FILE__, __LINE__)

int pc_test_check(int ok, const char *file, int line, const char *what);
int pc_test_int(int64_t got, int64_t want, const char *file, int line, const char *what);
int pc_test_str(const char *got, const char *want, const char *file, int line, const char *what);
int pc_test_status(pc_status got, pc_status want, const char *file, int line, const char *what);
int pc_test_has(const char *text, const char *part, const char *file, int line);
int pc_test_end(void);
/* Prints the reason and ends the test as skipped. */
void pc_test_skip(const char *reason);

/* "<PC_TEST_DATA or ../shared beside the source tree>/<path>" in a static ring of buffers; where
 * that is not there, the file of our own of that name (golden/models), or NULL. */
const char *pc_test_data(const char *path);
/* A fresh folder, removed with its contents at exit. */
const char *pc_test_folder(void);
void pc_test_write(const char *path, const void *data, size_t size);
/* Whole file, NUL-terminated, to be freed by free(); NULL if it cannot be read. */
char *pc_test_read(const char *path, size_t *size);

/* The number of descriptors that this process has open; the one that counts them is included. */
size_t pc_test_open_files(void);

/* The text of a generation in one piece, NUL-terminated: for on_text. If there is no room left, the
 * generation ends. */
typedef struct pc_test_text {
    char data[512];
    size_t size;
} pc_test_text;
int32_t pc_test_collect(void *text, uint32_t sample, const char *data, size_t size);

/* Counts allocations and fails at one index (0: never); leaks show as live blocks. */
typedef struct pc_test_memory {
    uint64_t calls;
    uint64_t fail_at; /* this call (from 1) and none after it fails */
    int64_t live_blocks;
    int64_t live_bytes;
} pc_test_memory;
pc_allocator pc_test_allocator(pc_test_memory *memory);

/* A reproducible generator: uniform in [0, 1), and standard normal. */
typedef struct pc_test_rng {
    uint64_t state;
} pc_test_rng;
uint64_t pc_test_bits(pc_test_rng *rng);
float pc_test_uniform(pc_test_rng *rng);
float pc_test_normal(pc_test_rng *rng);

#endif
