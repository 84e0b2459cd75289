// Shadow memory: for each word that kernels may touch, who wrote it, who read it, and when.
#ifndef PC_TEST_SHADOW_H
#define PC_TEST_SHADOW_H

#include "gpu_model.h"
#include <array>
#include <vector>

namespace gpu_model {

struct thread;

enum access_kind : uint8_t {
    READ,
    WRITE,
    ATOMIC_READ,
    ATOMIC_WRITE, // reads and writes
    ATOMIC_STORE,
    COPY_BEGINS, // an asynchronous copy will write here
    COPY_LANDS
};

// How many threads have read a cell since it was written.
enum readers : uint8_t { NO_READER, ONE_THREAD, ONE_WARP, ONE_BLOCK, MANY_BLOCKS };

// The history of one word, or of one byte of a split word. All zero: never touched.
struct cell {
    uint32_t writer, written_at; // thread id (0: nobody) and its clock
    int32_t writer_site;
    uint32_t reader, read_at; // one of the readers, and the latest clock
    int32_t reader_site;
    uint8_t touched;   // its first write differs from what the region began with
    uint8_t in_flight; // an asynchronous copy has not landed
    readers read_by;
    uint8_t atomics; // bits below
    uint32_t side;   // index into memory.parts or memory.readers; 0: none
};
enum { WRITER_ATOMIC = 1, READERS_ATOMIC = 2, SPLIT = 4 };

// A region, or the shared memory of a block.
struct memory {
    const char *name;
    uint8_t *base;
    size_t size;
    region_use use;
    bool shared;
    cell *cells; // of the words from the one that holds `base`; NULL: read-only memory has none
    size_t cell_count;
    std::vector<std::array<cell, 4>> parts; // bytes of split words
    std::vector<uint32_t> free_parts;
    std::vector<std::vector<std::array<uint32_t, 2>>> many; // thread ids and clocks of readers
    region_traffic moved;
};

// What is wrong with an access; REPORT_KINDS: nothing.
struct verdict {
    report_kind kind = REPORT_KINDS;
    bool with_reader = false;
    cell seen = {};
};

// Checks and records an access of a thread to bytes of one memory.
void touch_words(const thread *t, memory *m, const uint8_t *at, size_t bytes, access_kind kind,
                 int32_t site, verdict *bad);
void split_word(memory *m, cell *word); // from now on its bytes have histories of their own

// Records one access of the running thread, checks it, and gives the memory that it goes to. NULL:
// the thread's own variables, or constants. Does not return from an access outside all memory.
// `pc`: in the kernel.
memory *touch(const void *at, size_t bytes, access_kind kind, void *pc);
// the same, counted as a part of an instruction of the warp
void access(const void *at, size_t bytes, access_kind kind, void *pc);

// Ends the launch if the address is no multiple.
void check_aligned(const void *at, size_t bytes, void *pc);

// Pieces of code are named by their distance from the model's own code.
int32_t site_of(const void *pc);
void *pc_of(int32_t site);

} // namespace gpu_model

#endif
