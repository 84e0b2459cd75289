// Asynchronous copies land when they are waited for and not before. Until then their target is
// poisoned, and any access to it is an error.
#include "machine.h"
#include "report.h"
#if GPU_MODEL_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace gpu_model {

#define CALLER __builtin_return_address(0)

static bool is_shared(const thread *t, const void *at)
{
    return (size_t)((const uint8_t *)at - t->home->shared.base) < t->home->shared.size;
}

void copy_async(void *to, const void *from, unsigned size, unsigned valid)
{
    thread *t = machine.now;
    void *pc = CALLER;
    check_aligned(to, size, pc);
    if (valid)
        check_aligned(from, size, pc);
    if (valid > size || !is_shared(t, to)) {
        report(OUTSIDE, pc, "an asynchronous copy of %u of %u bytes to %p, not in shared memory",
               valid, size, to);
        stop_launch();
    }
    if (valid)
        access(from, valid, READ, pc);
    access(to, size, COPY_BEGINS, (char *)pc);
    memset(to, 0xff, size);
#if GPU_MODEL_ASAN
    if (size >= 8)
        __asan_poison_memory_region(to, size);
#endif
    t->copies.push_back({(uint8_t *)to, (const uint8_t *)from, (uint8_t)size, (uint8_t)valid, pc});
}

void copy_commit()
{
    thread *t = machine.now;
    t->groups.push_back(t->copies.size());
}

void drop_copies(thread *t)
{
#if GPU_MODEL_ASAN
    for (size_t i = t->landed; i < t->copies.size(); i++)
        __asan_unpoison_memory_region(t->copies[i].to, t->copies[i].size);
#endif
    t->copies.clear();
    t->groups.clear();
    t->landed = t->landed_groups = 0;
}

static void land(const pending_copy &copy)
{
#if GPU_MODEL_ASAN
    __asan_unpoison_memory_region(copy.to, copy.size);
#endif
    if (copy.valid)
        touch(copy.from, copy.valid, READ, copy.pc); // nobody may have changed it since
    touch(copy.to, copy.size, COPY_LANDS, copy.pc);
    memset(copy.to, 0, copy.size);
    memcpy(copy.to, copy.from, copy.valid);
}

void copy_wait(int groups)
{
    thread *t = machine.now;
    for (; t->landed_groups + (size_t)groups < t->groups.size(); t->landed_groups++)
        for (; t->landed < t->groups[t->landed_groups]; t->landed++)
            land(t->copies[t->landed]);
    if (t->landed_groups == t->groups.size() && t->landed == t->copies.size())
        drop_copies(t);
}

} // namespace gpu_model
