// Catches a model that misses races, or reports some where there are none.
extern "C" {
#include "testing.h"
}
#include "gpu_model.h"
#include "model_races.h"
#include <vector>

extern "C" void model_stages(struct race_task);
using namespace gpu_model;

int main()
{
    enum { BLOCKS = 3, THREADS = 64, TILES = 4 };
    std::vector<uint32_t> in(BLOCKS * TILES * THREADS * 4, 1), out(BLOCKS * THREADS);
    for (uint32_t fault = NO_FAULT; fault <= NO_BARRIER_BEFORE; fault++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            reset();
            quiet(seed > 1);
            region("in", in.data(), in.size() * 4, READ_ONLY);
            region("out", out.data(), out.size() * 4, UNWRITTEN);
            launch<model_stages>(race_task{in.data(), out.data(), TILES, fault},
                                 {{BLOCKS}, {THREADS}, THREADS * 32, seed});
            uint64_t races = reports(RACE), early = reports(IN_FLIGHT) + reports(UNWRITTEN_READ);
            CHECK(fault == NO_BARRIER_AFTER || fault == NO_BARRIER_BEFORE ? races : !races);
            CHECK((fault == NO_WAIT) ? early : true);
            if (fault == NO_FAULT)
                CHECK_INT(reports(), 0);
        }
    return pc_test_end();
}
