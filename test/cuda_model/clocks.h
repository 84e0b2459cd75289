// Which accesses have happened before which: logical time of threads, and what a thread knows of
// the time of others.
//
// A thread's clock is its block's count of barriers (upper 16 bits) and a count of its own releases
// since then. At a barrier all threads of a block learn everything of each other. At __syncwarp the
// lanes learn each other's clocks. An atomic release writes down what its thread knows; an acquire
// that reads it learns that. Shuffles, votes and products order nothing.
#ifndef PC_TEST_CLOCKS_H
#define PC_TEST_CLOCKS_H

#include <array>
#include <memory>
#include <stdint.h>
#include <vector>

namespace gpu_model {

using lane_clocks = std::array<uint32_t, 32>;

// What is known of other blocks, or through atomics of other warps. It never changes.
struct knowledge {
    std::vector<uint32_t> barriers; // [block of the launch] all before this barrier is known
    struct warp_clocks {
        uint32_t block, warp;
        lane_clocks clock; // all up to this clock is known; 0: nothing
    };
    std::vector<warp_clocks> warps; // ordered by block and warp
    bool has(uint32_t block, uint32_t warp, uint32_t lane, uint32_t clock) const;
};
using known = std::shared_ptr<const knowledge>; // NULL: nothing

// what either knows; one of them if it knows it all
known join(const known &a, const known &b);
// `base`, and one warp with its block up to a barrier
known with_warp(const known &base, uint32_t blocks, uint32_t block, uint32_t barrier, uint32_t warp,
                const lane_clocks &clock);

} // namespace gpu_model

#endif
