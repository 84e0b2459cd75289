// Catches a model that always runs threads, warps or blocks in one order, which would hide faults,
// or in another order with the same seed, which would hide them the second time.
#include "model_order.h"
#include "planted.h"
#include <algorithm>
#include <set>

extern "C" void model_order(struct order_task);
using namespace gpu_model;

enum { BLOCKS = 12, THREADS = 96, COUNT = BLOCKS * THREADS };
using numbers = std::vector<uint32_t>;

struct order {
    numbers begun, ended;
};

static order run(uint64_t seed, unsigned resident)
{
    order all = {numbers(COUNT), numbers(COUNT)};
    uint32_t counter[2] = {0, 0};
    reset();
    region("counter", counter, sizeof counter, WRITTEN);
    region("begun", all.begun.data(), COUNT * 4, UNWRITTEN);
    region("ended", all.ended.data(), COUNT * 4, UNWRITTEN);
    CHECK(launch<model_order>(order_task{counter, all.begun.data(), all.ended.data()},
                              {{BLOCKS}, {THREADS}, 0, seed, resident}));
    CHECK_INT(reports(), 0);
    return all;
}

static bool has_all(numbers order)
{
    std::sort(order.begin(), order.end());
    for (uint32_t i = 0; i < COUNT; i++)
        if (order[i] != i)
            return false;
    return true;
}

// which blocks, or which lanes of the first block, in the order in which they begin
static numbers blocks_of(const numbers &order)
{
    numbers blocks;
    for (uint32_t who : order)
        if (std::find(blocks.begin(), blocks.end(), who / THREADS) == blocks.end())
            blocks.push_back(who / THREADS);
    return blocks;
}

static numbers first_warp(const numbers &order)
{
    numbers lanes;
    for (uint32_t who : order)
        if (who < 32)
            lanes.push_back(who);
    return lanes;
}

// blocks that began before the first one ended
static size_t at_the_same_time(const order &all)
{
    std::set<uint32_t> blocks;
    for (uint32_t who : all.begun) {
        blocks.insert(who / THREADS);
        if (who == all.ended[THREADS - 1])
            break;
    }
    return blocks.size();
}

int main()
{
    std::set<numbers> orders_of_blocks, orders_of_lanes;
    size_t most = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        order all = run(seed, 8);
        CHECK(has_all(all.begun) && has_all(all.ended));
        orders_of_blocks.insert(blocks_of(all.begun));
        orders_of_lanes.insert(first_warp(all.begun));
        most = std::max(most, at_the_same_time(all));
        order again = run(seed, 8);
        CHECK(again.begun == all.begun && again.ended == all.ended);
    }
    CHECK_INT(orders_of_blocks.size(), 10);
    CHECK_INT(orders_of_lanes.size(), 10);
    CHECK(most > 1 && most <= 8);
    CHECK_INT(at_the_same_time(run(1, 1)), 1);
    return pc_test_end();
}
