// Catches a model that counts bank conflicts or sectors wrongly, or at another line.
#include "model_traffic.h"
#include "planted.h"

extern "C" void model_traffic(struct traffic_task);
using namespace gpu_model;

static std::vector<uint32_t> in(WORDS + 8), out(32);

static void run(const traffic_task &task)
{
    reset();
    region("in", in.data(), in.size() * 4, READ_ONLY);
    region("out", out.data(), 32 * 4, UNWRITTEN);
    CHECK(launch<model_traffic>(task, {{1}, {32}, WORDS * 4, 1}));
    CHECK_INT(reports(), 0);
}

static traffic at(const char *mark)
{
    std::string line = marked_line("model_traffic.cu", mark);
    return traffic_at("model_traffic.cu", atoi(line.c_str() + line.find(':') + 1));
}

// What a warp's access costs on a device: from the CUDA C++ programming guide's rules.
struct cost {
    uint32_t stride, first, lanes, width;
    uint64_t wavefronts, least_wavefronts, sectors, least_sectors;
};
static const cost costs[] = {
    {1, 0, 32, 4, 1, 1, 4, 4},    {0, 0, 32, 4, 1, 1, 1, 1}, // all lanes read one word
    {2, 0, 32, 4, 2, 1, 8, 4},    {3, 0, 32, 4, 1, 1, 12, 4},    {4, 0, 32, 4, 4, 1, 16, 4},
    {8, 0, 32, 4, 8, 1, 32, 4},   {32, 0, 32, 4, 32, 1, 32, 4},  {33, 0, 32, 4, 1, 1, 32, 4},
    {72, 0, 32, 4, 8, 1, 32, 4},                                // rows of 64 words and 8 of padding
    {1, 1, 32, 4, 1, 1, 5, 4},                                  // begins within a sector
    {1, 0, 20, 4, 1, 1, 3, 3},    {2, 0, 32, 8, 2, 2, 8, 8},    // half a warp is served at a time
    {4, 0, 32, 8, 4, 2, 16, 8},   {4, 0, 32, 16, 4, 4, 16, 16}, // a quarter of a warp at a time
    {8, 0, 32, 16, 8, 4, 32, 16}, {36, 0, 32, 16, 4, 4, 32, 16},
};

static void check_costs()
{
    for (const cost &one : costs) {
        // sectors begin at multiples of 32 bytes
        size_t skip = (32 - (uintptr_t)in.data() % 32) % 32 / 4;
        run({in.data(), out.data(), one.stride, one.first + (uint32_t)skip, one.lanes, one.width});
        traffic shared = at("from shared"), global = at("from global");
        CHECK_INT(shared.requests, 1);
        CHECK_INT(shared.wavefronts, one.wavefronts);
        CHECK_INT(shared.least_wavefronts, one.least_wavefronts);
        CHECK_INT(global.requests, 1);
        CHECK_INT(global.sectors, one.sectors);
        CHECK_INT(global.least_sectors, one.least_sectors);
        region_traffic moved = traffic_of(in.data());
        CHECK_INT(moved.read_sectors, one.sectors);
        CHECK_INT(moved.written_sectors, 0);
        CHECK_INT(at("fills").requests, WORDS / 32);
        CHECK_INT(at("fills").wavefronts, WORDS / 32);
    }
}

// Lines of functions that were inlined count for the line that called them, and for their own.
static void check_lines()
{
    run({in.data(), out.data(), 2, 0, 32, 4});
    CHECK_INT(at("loads").requests, 2);
    CHECK_INT(at("loads of 8").requests, 0);
    CHECK_INT(traffic_at("model_traffic.cu", 0).requests, total_traffic().requests);
    CHECK_INT(traffic_at("traffic.cu", 0).requests, 0);
    CHECK_INT(traffic_of(out.data()).written_bytes, 32 * 4);
    forget_traffic();
    CHECK_INT(total_traffic().requests, 0);
    CHECK_INT(traffic_of(out.data()).written_bytes, 0);
}

int main()
{
    if (!sees_accesses())
        pc_test_skip("AddressSanitizer's build counts no traffic");
    check_costs();
    check_lines();
    return pc_test_end();
}
