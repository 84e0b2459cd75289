// Atomics with order. A release leaves what its thread knows at the address; later read-modify-
// writes keep it there; an acquire that reads it learns it. A relaxed atomic hands on what was
// known at the last fence, and what it reads is known after the next one.
#include "machine.h"
#include "report.h"
#include <unordered_map>

namespace gpu_model {

#define CALLER __builtin_return_address(0)

static std::unordered_map<const void *, known> released;

void forget_releases(const void *from, size_t bytes)
{
    for (auto one = released.begin(); one != released.end();)
        one = (size_t)((const uint8_t *)one->first - (const uint8_t *)from) < bytes
                  ? released.erase(one)
                  : std::next(one);
}

// All that the thread has done or knows of. Its later accesses get another clock.
static known all_known(thread *t)
{
    block *b = t->home;
    lane_clocks clock = t->lanes_known;
    clock[t->lane] = t->clock;
    known all = with_warp(t->others, machine.blocks, b->index, b->barriers, t->index / 32, clock);
    if ((++t->clock & 0xffff) == 0)
        fail("more than 65535 releases of a thread between two barriers");
    return all;
}

void fence()
{
    thread *t = machine.now;
    t->others = join(t->others, t->unfenced);
    t->fenced = all_known(t);
}

// What the atomic leaves at its address.
static void leave(thread *t, const void *at, atomic_kind kind, memory_order order)
{
    if (kind == LOAD)
        return;
    known before = kind == STORE ? NULL : released[at]; // a plain store begins anew
    known mine = order & RELEASE ? all_known(t) : t->fenced;
    known both = join(before, mine);
    if (both)
        released[at] = both;
    else
        released.erase(at);
}

static void learn(thread *t, const void *at, atomic_kind kind, memory_order order)
{
    auto found = released.find(at);
    if (kind == STORE || found == released.end())
        return;
    known *to = order & ACQUIRE ? &t->others : &t->unfenced;
    *to = join(*to, found->second);
}

uint32_t atomic(atomic_kind kind, memory_order order, uint32_t *at, uint32_t value)
{
    thread *t = machine.now;
    void *pc = CALLER;
    check_aligned(at, 4, pc);
    if (kind == LOAD || draw() % 4 == 0)
        pause_thread(); // others may come first
    access_kind how = kind == LOAD ? ATOMIC_READ : kind == STORE ? ATOMIC_STORE : ATOMIC_WRITE;
    learn(t, at, kind, order); // an acquire is ordered after the release that it reads
    touch(at, 4, how, pc);
    uint32_t before, after;
    memcpy(&before, at, 4);
    after = kind == LOAD ? before : kind == STORE ? value : before + value;
    leave(t, at, kind, order);
    memcpy(at, &after, 4);
    note_progress(kind == STORE || after != before, pc);
    return before;
}

} // namespace gpu_model
