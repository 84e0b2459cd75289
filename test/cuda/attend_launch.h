// Runs a case of attention over the model of the machine.
#ifndef PC_TEST_ATTEND_LAUNCH_H
#define PC_TEST_ATTEND_LAUNCH_H

extern "C" {
#include "attend_case.h"
}
#include "gpu_model.h"

// Declares the case's memory to the model, and launches attention and merge. Blocks: at most so
// many, which run at the same time; 0: as many as there are items. false: a launch broke off. The
// word of claims is 0 before, and has to be 0 after it.
bool run_case(attend_case &c, uint64_t seed, unsigned most_blocks = 3);
// The same with a kernel that the caller chooses.
using attend_launcher = bool (*)(const attend_case &c, const gpu_model::launch_shape &shape);
bool run_case_with(attend_launcher launcher, attend_case &c, uint64_t seed, unsigned most_blocks);
template <auto kernel> bool run_case(attend_case &c, uint64_t seed, unsigned most_blocks)
{
    return run_case_with(
        [](const attend_case &made, const gpu_model::launch_shape &shape) {
            return gpu_model::launch<kernel>(made.task, shape);
        },
        c, seed, most_blocks);
}
void free_results(attend_case &c);
// The bytes of pages that the last run read.
uint64_t page_bytes_read(const attend_case &c);

#endif
