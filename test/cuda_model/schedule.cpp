// Whose turn it is: threads run until they meet others or end; then a random one goes on. Threads
// of all resident blocks take turns, so that one block may wait for another.
#include "machine.h"
#include "regions.h"
#include "report.h"
#include <algorithm>

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace gpu_model {

machine_state machine;

uint64_t draw()
{
    machine.random ^= machine.random << 13;
    machine.random ^= machine.random >> 7;
    machine.random ^= machine.random << 17;
    return machine.random >> 8;
}

uint64_t switches()
{
    return machine.switches;
}

// ---- who can run -----------------------------------------------------------------------------

void make_runnable(thread *t)
{
    warp *w = t->crew;
    t->state = RUNNABLE;
    if (!w->runnable) {
        w->place_in_runnable = machine.runnable.size();
        machine.runnable.push_back(w);
    }
    w->runnable |= 1u << t->lane;
}

void make_waiting(thread *t, thread_state state)
{
    warp *w = t->crew;
    t->state = state;
    w->runnable &= ~(1u << t->lane);
    if (!w->runnable) {
        machine.runnable.back()->place_in_runnable = w->place_in_runnable;
        machine.runnable[w->place_in_runnable] = machine.runnable.back();
        machine.runnable.pop_back();
    }
}

// Another warp: mostly one of the same block, whose stacks the CPU's caches hold.
static warp *choose_warp(const warp *current)
{
    warp *w = NULL;
    for (int attempt = 0; attempt < 6; attempt++) {
        w = machine.runnable[draw() % machine.runnable.size()];
        if (!current || w->home == current->home)
            break;
    }
    return w;
}

// Mostly one of the same warp, so that it soon meets; NULL: nobody can run.
static thread *choose()
{
    warp *w = machine.now ? machine.now->crew : NULL;
    uint64_t number = draw();
    if (machine.runnable.empty())
        return NULL;
    if (!w || !w->runnable || number % 16 == 0)
        w = choose_warp(w);
    uint32_t from = number >> 40 & 31;
    uint32_t turned = w->runnable >> from | (from ? w->runnable << (32 - from) : 0);
    return w->lane[((uint32_t)__builtin_ctz(turned) + from) & 31];
}

static dim3 place(uint32_t index, const dim3 &size)
{
    if (index < size.x) // divisions would take most of a switch
        return {index, 0, 0};
    return {index % size.x, index / size.x % size.y, index / size.x / size.y};
}

static void go_on(thread *t)
{
    machine.now = t;
    machine.accesses_in_turn = 0;
    threadIdx = place(t->index, blockDim);
    blockIdx = t->home->at;
}

void give_way(bool ends)
{
    thread *from = machine.now, *to = machine.dead ? NULL : choose();
    if (to == from)
        return;
    machine.switches++;
    if (to) {
        go_on(to);
        fiber_switch(&from->stack, &to->stack, ends);
    } else {
        machine.now = NULL;
        fiber_switch(&from->stack, &machine.host, ends);
    }
}

void pause_thread()
{
    give_way(false);
}

void stop_launch()
{
    machine.dead = true;
    give_way(true);
    abort();
}

// ---- threads and blocks ----------------------------------------------------------------------

static void check_copies(thread *t)
{
    if (t->landed < t->copies.size())
        report(LEFT_IN_FLIGHT, t->copies[t->landed].pc,
               "ends while %zu asynchronous copies have not been waited for; this is the first",
               t->copies.size() - t->landed);
    drop_copies(t);
}

static void end_thread(thread *t)
{
    block *b = t->home;
    warp *w = t->crew;
    check_copies(t);
    make_waiting(t, ENDED);
    w->alive &= ~(1u << t->lane);
    b->alive--;
    machine.idle = 0;
    if (!w->alive)
        w->log.settle();
    else
        meet_without(w);
    if (b->alive && b->at_barrier == b->alive)
        pass_barrier(b);
    b->live = b->alive != 0;
}

static void begin_thread()
{
    fiber_begun();
    machine.body(machine.task);
    thread *t = machine.now;
    end_thread(t);
    if (!t->home->live) { // the host fills the place of the block
        machine.now = NULL;
        machine.switches++;
        fiber_switch(&t->stack, &machine.host, true);
    }
    give_way(true);
    abort();
}

static void make_thread(block *b, size_t slot, uint32_t index)
{
    thread *t = &b->threads[index];
    size_t size;
    uint8_t *stack = stack_at(slot * machine.threads + index, &size);
    t->index = index;
    t->lane = index % 32;
    t->id = machine.first_id + b->index * machine.threads + index;
    t->home = b;
    t->crew = &b->warps[index / 32];
    t->clock = 1; // nobody knows of it
    t->lanes_known = {};
    t->others = t->unfenced = t->fenced = NULL;
    drop_copies(t);
    fiber_make(&t->stack, stack, size, begin_thread);
    t->crew->lane[t->lane] = t;
    t->crew->alive |= 1u << t->lane;
    make_runnable(t);
}

static void start_block(block *b, uint32_t index)
{
    b->index = index;
    b->at = place(index, gridDim);
    b->live = true;
    b->barriers = 0;
    b->alive = machine.threads;
    b->at_barrier = 0;
    memory_clear(&b->shared);
    forget_releases(b->shared.base, b->shared.size);
    if (b->shared.size)
        memset(b->shared.base, 0xff, b->shared.size); // NaN as fp32, fp16 and bf16
    for (uint32_t i = 0; i < b->warps.size(); i++) {
        warp *w = &b->warps[i];
        w->home = b;
        w->index = i;
        w->alive = w->runnable = w->waiting = 0;
        w->log.drop();
    }
    for (uint32_t i = 0; i < machine.threads; i++)
        make_thread(b, (size_t)(b - machine.slots.data()), i);
}

// ---- launches --------------------------------------------------------------------------------

static void report_stuck()
{
    const thread *one = NULL;
    size_t waiting = 0;
    for (const block &b : machine.slots)
        for (const thread &t : b.threads)
            if (b.live && t.state != ENDED) {
                waiting++;
                one = !one || t.state == IN_MEETING ? &t : one;
            }
    machine.now = (thread *)one; // the report names it
    report(STUCK, one->pc, "waits in %s, and nobody can go on; so do %zu threads",
           one->collective_name, waiting);
    machine.now = NULL;
    machine.dead = true;
}

static void make_slots(const launch_shape &shape)
{
    size_t count = std::min<size_t>(std::max(shape.resident, 1u), machine.blocks);
    stacks_reserve(count * machine.threads);
    machine.slots.resize(count);
    for (block &b : machine.slots) {
        b.live = false;
        b.threads = std::vector<thread>(machine.threads);
        b.warps = std::vector<warp>((machine.threads + 31) / 32);
        void *shared = shape.shared ? aligned_alloc(128, (shape.shared + 127) / 128 * 128) : NULL;
        memory_make(&b.shared, "shared memory", shared, shape.shared, UNWRITTEN, true);
    }
}

static void free_slots()
{
    for (block &b : machine.slots) {
        free(b.shared.base);
        memory_free(&b.shared);
    }
    machine.slots.clear();
    machine.runnable.clear();
}

void run_launch(const launch_shape &shape)
{
    std::vector<uint32_t> waiting(machine.blocks);
    for (uint32_t i = 0; i < machine.blocks; i++)
        waiting[i] = i;
    make_slots(shape);
    fiber_of_caller(&machine.host);
    while (!machine.dead) {
        bool any = false;
        for (block &b : machine.slots) {
            if (!b.live && !waiting.empty()) {
                std::swap(waiting[draw() % waiting.size()], waiting.back());
                start_block(&b, waiting.back());
                waiting.pop_back();
            }
            any |= b.live;
        }
        if (!any)
            break;
        thread *first = choose();
        if (!first) {
            report_stuck();
            break;
        }
        go_on(first);
        fiber_switch(&machine.host, &first->stack, false);
    }
    machine.now = NULL;
    free_slots();
}

void note_progress(bool something_changed, void *pc)
{
    const uint64_t patience = 2000;
    size_t threads = machine.slots.size() * machine.threads;
    machine.idle = something_changed ? 0 : machine.idle + 1;
    if (machine.idle < patience * threads)
        return;
    report(STUCK, pc,
           "asks again and again for a change that nobody makes; %zu blocks are resident",
           machine.slots.size());
    stop_launch();
}

} // namespace gpu_model
