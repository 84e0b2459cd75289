// Catches a model that misses a race, names another line, or reports one in a kernel that is right:
// between copies and their use, lanes, warps, and blocks that are ordered by atomics. Also one that
// looks at more or less than it is told to.
#include "model_races.h"
#include "planted.h"

extern "C" {
void model_stages(struct race_task);
void model_warp(struct race_task);
void model_sums(struct race_task);
void model_last_block(struct race_task);
void model_chain(struct race_task);
void model_claims(struct race_task);
void model_readers(struct race_task);
void model_source(struct race_task);
}
using namespace gpu_model;

enum { BLOCKS = 4, THREADS = 64, TILES = 7, SHARED = THREADS * 32 };

static std::vector<uint32_t> in, out, partial;
static uint32_t counter[2];

template <auto kernel> static void run(const planted &one, uint32_t seed)
{
    in.assign(BLOCKS * TILES * THREADS * 4, 1);
    out.assign(TILES * THREADS, 0);
    partial.assign(BLOCKS * THREADS, 0);
    counter[0] = counter[1] = 0;
    race_task task = {in.data(), out.data(), partial.data(), counter, TILES, one.fault};
    reset();
    region("in", in.data(), in.size() * 4, WRITTEN);
    region("out", out.data(), out.size() * 4, UNWRITTEN);
    region("partial", partial.data(), partial.size() * 4, UNWRITTEN);
    region("counter", counter, sizeof counter, WRITTEN);
    CHECK(launch<kernel>(task, {{BLOCKS}, {THREADS}, SHARED, seed}));
    if (sees_accesses())
        check_planted("model_races.cu", one);
}

// Faults that AddressSanitizer would stop at are left out there, as are those that it cannot see.
template <auto kernel> static void check(const std::vector<planted> &all)
{
    for (const planted &one : all)
        for (uint32_t seed = 1; seed <= 3; seed++)
            if (sees_accesses() || one.kind == NO_REPORT)
                run<kernel>(one, seed);
}

static void check_blocks()
{
    check<model_last_block>({{"last block", NO_FAULT, NO_REPORT, ""},
                             {"fences", WITH_FENCES, NO_REPORT, ""},
                             {"relaxed count", NO_RELEASE, RACE, "sum of the parts"},
                             {"count without acquire", NO_ACQUIRE, RACE, "sum of the parts"},
                             {"no barrier before", NO_BARRIER_RELEASE, RACE, "sum of the parts"},
                             {"no barrier after", NO_BARRIER_ACQUIRE, RACE, "sum of the parts"},
                             {"no fence before", NO_FENCE, RACE, "sum of the parts"}});
    CHECK_INT(out[5], 5 * BLOCKS);
    check<model_chain>({{"chain", NO_FAULT, NO_REPORT, ""},
                        {"relaxed store", RELAXED_STORE, RACE, "of the block before"},
                        {"relaxed load", RELAXED_LOAD, RACE, "of the block before"}});
    check<model_sums>({{"sums", NO_FAULT, NO_REPORT, ""},
                       {"plain add", PLAIN_ADD, RACE, "plain add"},
                       {"plain look", PLAIN_LOOK, RACE, "plain look"}});
    CHECK_INT(counter[0], BLOCKS * THREADS);
    check<model_claims>(
        {{"claims", NO_FAULT, NO_REPORT, ""}, {"slot", SLOT_REUSED, RACE, "claim"}});
    CHECK_INT(out[(TILES - 1) * THREADS], TILES - 1);
}

// Of a race, with a right result all the same.
static void check_attention()
{
    const planted unseen = {"no barrier before the copy", NO_BARRIER_BEFORE, NO_REPORT, ""};
    const planted seen = {"no barrier before the copy", NO_BARRIER_BEFORE, RACE, "next copy"};
    if (sees_accesses()) {
        run<model_stages>(seen, 1);
        CHECK(total_traffic().requests > 0);
        reset();
        look_at(ACCESSES);
        run<model_stages>(seen, 1);
        CHECK_INT(total_traffic().requests, 0);
    }
    reset();
    look_at(VALUES);
    if (sees_accesses()) // AddressSanitizer sees it all the same
        run<model_stages>(unseen, 1);
    run<model_stages>({"stages", NO_FAULT, NO_REPORT, ""}, 1);
    for (size_t i = 0; i < BLOCKS * THREADS; i++)
        CHECK_INT(out[i], 4 * TILES);
}

int main()
{
    quiet(true);
    check<model_stages>({{"stages", NO_FAULT, NO_REPORT, ""},
                         {"no wait", NO_WAIT, IN_FLIGHT, "use of the copy"},
                         {"no barrier after the wait", NO_BARRIER_AFTER, RACE, "use of the copy"},
                         {"no barrier before the copy", NO_BARRIER_BEFORE, RACE, "next copy"}});
    check<model_warp>({{"warp", NO_FAULT, NO_REPORT, ""},
                       {"no __syncwarp", NO_WARP_BARRIER, RACE, "use of the turned"},
                       {"wrong mask", HALF_MASKS, RACE, "use of the turned"},
                       {"no second __syncwarp", SECOND_TURN, RACE, "second turn"}});
    check<model_source>({{"source", NO_FAULT, NO_REPORT, ""},
                         {"source changed", SOURCE_CHANGED, RACE, "copy of the source"}});
    check<model_readers>({{"readers", NO_FAULT, NO_REPORT, ""},
                          {"of a warp", READ_BY_WARP, RACE, "write after all reads"},
                          {"of a block", READ_BY_BLOCK, RACE, "write after all reads"},
                          {"of blocks", READ_BY_BLOCKS, RACE, "write after all reads"}});
    check_blocks();
    check_attention();
    return pc_test_end();
}
