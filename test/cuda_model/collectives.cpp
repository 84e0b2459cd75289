// Barriers, shuffles and votes. They take their place in the kernel from their return address.
#include "machine.h"
#include "report.h"
#include <algorithm>

namespace gpu_model {

#define CALLER __builtin_return_address(0)

static void order_lanes(meeting &all)
{
    lane_clocks clock = {};
    known others;
    for (uint32_t lane = 0; lane < 32; lane++)
        if (all.mask >> lane & 1) {
            thread *t = all.place->lane[lane];
            clock[lane] = t->clock;
            others = join(others, t->others);
            for (uint32_t i = 0; i < 32; i++)
                clock[i] = std::max(clock[i], t->lanes_known[i]);
        }
    for (uint32_t lane = 0; lane < 32; lane++)
        if (all.mask >> lane & 1) {
            thread *t = all.place->lane[lane];
            t->lanes_known = clock;
            t->others = others;
            t->clock++;
        }
}

void warp_barrier(unsigned mask)
{
    meet("__syncwarp", order_lanes, mask, NULL, CALLER);
}

void block_barrier()
{
    meet_block(CALLER);
}

void trap()
{
    report(CRASHED, CALLER, "calls __trap");
    stop_launch();
    abort();
}

// ---- shuffles --------------------------------------------------------------------------------

struct shuffle_call {
    shuffle_kind kind;
    int by, width;
    uint64_t bits, result;
};

static int source_lane(const shuffle_call &call, int lane)
{
    int first = lane / call.width * call.width, from = lane;
    switch (call.kind) {
    case SHUFFLE_FROM:
        return first + (call.by & (call.width - 1));
    case SHUFFLE_XOR:
        from = lane ^ call.by;
        return from < first + call.width ? from : lane; // an earlier part may be read
    case SHUFFLE_UP:
        return lane - call.by >= first ? lane - call.by : lane;
    case SHUFFLE_DOWN:
        return lane + call.by < first + call.width ? lane + call.by : lane;
    }
    return lane;
}

static void run_shuffle(meeting &all)
{
    for (int lane = 0; lane < 32; lane++) {
        if (!(all.mask >> lane & 1))
            continue;
        shuffle_call *call = (shuffle_call *)all.arguments[lane];
        int from = source_lane(*call, lane) & 31;
        if (all.mask >> from & 1)
            call->result = ((shuffle_call *)all.arguments[from])->bits;
        else
            report(DIVERGED, all.pc, "a shuffle of lane %d reads lane %d, which takes no part",
                   lane, from);
    }
}

uint64_t shuffle(shuffle_kind kind, unsigned mask, uint64_t bits, int by, int width)
{
    shuffle_call call = {kind, by, width, bits, 0xffffffffffffffffu};
    meet("a shuffle", run_shuffle, mask, &call, CALLER);
    return call.result;
}

// ---- votes -----------------------------------------------------------------------------------

struct vote_call {
    vote_kind kind;
    bool yes;
    unsigned result;
};

static void run_vote(meeting &all)
{
    unsigned yes = 0;
    for (int lane = 0; lane < 32; lane++)
        if ((all.mask >> lane & 1) && ((vote_call *)all.arguments[lane])->yes)
            yes |= 1u << lane;
    for (int lane = 0; lane < 32; lane++)
        if (all.mask >> lane & 1) {
            vote_call *call = (vote_call *)all.arguments[lane];
            call->result = call->kind == VOTE_BALLOT ? yes
                           : call->kind == VOTE_ANY  ? yes != 0
                                                     : yes == all.mask;
        }
}

unsigned vote(vote_kind kind, unsigned mask, int predicate)
{
    vote_call call = {kind, predicate != 0, 0};
    meet("a vote", run_vote, mask, &call, CALLER);
    return call.result;
}

} // namespace gpu_model
