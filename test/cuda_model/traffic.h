// Bank conflicts and sectors: what an instruction of a warp costs, from the addresses of its lanes.
#ifndef PC_TEST_TRAFFIC_H
#define PC_TEST_TRAFFIC_H

#include "shadow.h"
#include <vector>

namespace gpu_model {

// The accesses of a warp's lanes since all of them passed one point together. The n-th access of a
// lane at one place of the code belongs to the n-th one of the other lanes there.
class access_log {
  public:
    void add(uint32_t lane, memory *m, const void *at, size_t bytes, access_kind kind,
             int32_t site);
    void settle(); // counts them, and begins anew
    void drop();

  private:
    struct entry {
        memory *place;
        uintptr_t at;
        int32_t site;
        uint16_t bytes;
        bool writes;
    };
    std::vector<entry> of_lane[32];
    bool lanes_agree() const;
    void settle_by_place();
    static void count(const entry *const *lanes);
};

} // namespace gpu_model

#endif
