// The declared regions of memory. gpu_model.h has what tests call.
#ifndef PC_TEST_REGIONS_H
#define PC_TEST_REGIONS_H

#include "shadow.h"

namespace gpu_model {

void memory_make(memory *m, const char *name, void *base, size_t size, region_use use, bool shared);
void memory_clear(memory *m); // as after memory_make
void memory_free(memory *m);

memory *find_region(const void *at);        // NULL: none
const memory *region_below(const void *at); // the last one that begins at or below this; NULL: none
std::vector<region_view> all_regions();     // ordered by address
void forget_regions();
void forget_region_traffic();
void forget_threads(); // who wrote and read; what is written stays

} // namespace gpu_model

#endif
