// The parts of the machine while a launch runs: threads, warps, blocks, and how threads meet.
#ifndef PC_TEST_MACHINE_H
#define PC_TEST_MACHINE_H

#include "clocks.h"
#include "fiber.h"
#include "gpu_device.h"
#include "gpu_model.h"
#include "shadow.h"
#include "traffic.h"
#include <vector>

namespace gpu_model {

struct thread;
struct warp;
struct block;

// The lanes of a warp that have met in one collective. arguments[lane] is what each of them gave,
// and where it takes its result.
struct meeting {
    warp *place;
    unsigned mask;
    void *arguments[32];
    void *pc;
};
using collective = void (*)(meeting &);

struct pending_copy {
    uint8_t *to;
    const uint8_t *from;
    uint8_t size, valid;
    void *pc;
};

enum thread_state { RUNNABLE, IN_MEETING, AT_BARRIER, ENDED };

struct thread {
    fiber stack;
    thread_state state;
    uint32_t index; // in its block
    uint32_t lane;
    uint32_t id; // of all threads of all launches
    block *home;
    warp *crew;
    // the collective or barrier that it waits in
    collective collective_wanted;
    const char *collective_name;
    unsigned mask;
    void *arguments, *pc;
    // clocks.h
    uint32_t clock;
    lane_clocks lanes_known;
    known others;   // learned
    known unfenced; // read by relaxed atomics, learned at the next fence
    known fenced;   // known at the last fence; relaxed atomics hand it on
    // asynchronous copies; those of the open group come last
    std::vector<pending_copy> copies;
    std::vector<size_t> groups; // where each closed group ends among them, the oldest first
    size_t landed;              // copies, from the first on
    size_t landed_groups;
};

struct warp {
    block *home;
    uint32_t index;
    uint32_t alive, runnable, waiting; // lanes
    thread *lane[32];
    thread *arrived;          // the last one that waits in a collective
    bool all_want_the_same;   // all that wait are in one place, with the whole warp as their mask
    size_t place_in_runnable; // in machine.runnable
    access_log log;
};

struct block {
    bool live;
    uint32_t index; // linear, in the launch
    dim3 at;
    uint32_t barriers;
    size_t alive, at_barrier;
    std::vector<thread> threads;
    std::vector<warp> warps;
    memory shared;
};

// One launch at a time.
struct machine_state {
    kernel_body body;
    const void *task;
    uint32_t threads, blocks;
    uint32_t first_id; // threads of earlier launches have smaller ones
    uint64_t seed, random, switches;
    attention looks_at = TRAFFIC;
    bool running, dead; // dead: after an error that a device would not survive
    thread *now;        // NULL: the host
    fiber host;
    std::vector<block> slots;
    std::vector<warp *> runnable;
    uint64_t accesses_in_turn; // since the running thread was switched to
    uint64_t idle;             // atomics in a row that changed nothing, while nothing else happened
};
extern machine_state machine;

uint64_t draw(); // of the seed's random numbers
// Ends the launch: nothing of it runs any more. Never returns to a thread of the launch.
void stop_launch();
// Lets others run; the thread itself can go on at any time.
void pause_thread();
// Waits until all lanes of the mask are in the same collective, then one of them runs it.
void meet(const char *name, collective run, unsigned mask, void *arguments, void *pc);
void meet_block(void *pc);
// Between schedule.cpp and meetings.cpp: who can run, and what a thread that ends leaves behind.
void make_runnable(thread *t);
void make_waiting(thread *t, thread_state state);
void give_way(bool ends); // to another thread; `ends`: for good
void meet_without(warp *w);
void pass_barrier(block *b);
void run_launch(const launch_shape &shape);
// After an atomic: finds threads that spin for ever.
void note_progress(bool something_changed, void *pc);
void drop_copies(thread *t); // those that have not landed never will
// What atomics have left there is of no use any more.
void forget_releases(const void *from, size_t bytes);

} // namespace gpu_model

#endif
