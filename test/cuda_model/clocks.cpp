// Knowledge is joined as vector clocks are: the later of both clocks of every thread.
#include "clocks.h"
#include <algorithm>

namespace gpu_model {

bool knowledge::has(uint32_t block, uint32_t warp, uint32_t lane, uint32_t clock) const
{
    if (block < barriers.size() && clock >> 16 < barriers[block])
        return true;
    for (const warp_clocks &one : warps)
        if (one.block == block && one.warp == warp)
            return clock <= one.clock[lane];
    return false;
}

static bool before(const knowledge::warp_clocks &a, const knowledge::warp_clocks &b)
{
    return a.block != b.block ? a.block < b.block : a.warp < b.warp;
}

static void add(knowledge *to, const knowledge::warp_clocks &more)
{
    auto at = std::lower_bound(to->warps.begin(), to->warps.end(), more, before);
    if (at == to->warps.end() || before(more, *at)) {
        to->warps.insert(at, more);
        return;
    }
    for (size_t lane = 0; lane < 32; lane++)
        at->clock[lane] = std::max(at->clock[lane], more.clock[lane]);
}

// Clocks from before a barrier that is known say nothing more.
static void drop_old(knowledge *k)
{
    auto old = [k](const knowledge::warp_clocks &one) {
        uint32_t last = *std::max_element(one.clock.begin(), one.clock.end());
        return one.block < k->barriers.size() && last >> 16 < k->barriers[one.block];
    };
    k->warps.erase(std::remove_if(k->warps.begin(), k->warps.end(), old), k->warps.end());
}

static bool covers(const knowledge &a, const knowledge &b)
{
    if (b.barriers.size() > a.barriers.size())
        return false;
    for (size_t i = 0; i < b.barriers.size(); i++)
        if (b.barriers[i] > a.barriers[i])
            return false;
    for (const auto &one : b.warps)
        for (uint32_t lane = 0; lane < 32; lane++)
            if (one.clock[lane] && !a.has(one.block, one.warp, lane, one.clock[lane]))
                return false;
    return true;
}

known join(const known &a, const known &b)
{
    if (!b || a == b)
        return a;
    if (!a || covers(*b, *a))
        return b;
    if (covers(*a, *b))
        return a;
    auto both = std::make_shared<knowledge>(*a);
    both->barriers.resize(std::max(a->barriers.size(), b->barriers.size()));
    for (size_t i = 0; i < b->barriers.size(); i++)
        both->barriers[i] = std::max(both->barriers[i], b->barriers[i]);
    for (const auto &one : b->warps)
        add(both.get(), one);
    drop_old(both.get());
    return both;
}

known with_warp(const known &base, uint32_t blocks, uint32_t block, uint32_t barrier, uint32_t warp,
                const lane_clocks &clock)
{
    auto more = base ? std::make_shared<knowledge>(*base) : std::make_shared<knowledge>();
    more->barriers.resize(blocks);
    more->barriers[block] = std::max(more->barriers[block], barrier);
    add(more.get(), {block, warp, clock});
    drop_old(more.get());
    return more;
}

} // namespace gpu_model
