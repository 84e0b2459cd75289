// Runs a case of attention over the model of the machine.
#ifndef PC_TEST_ATTEND_LAUNCH_H
#define PC_TEST_ATTEND_LAUNCH_H

extern "C" {
#include "attend_case.h"
}
#include "gpu_model.h"

// Declares the case's memory to the model, and launches attention and merge. Blocks: at most so
// many, which run at the same time; 0: as many as there are items. false: a launch broke off.
bool run_case(attend_case &c, uint64_t seed, unsigned most_blocks = 3);
void free_results(attend_case &c);
// The bytes of pages that the last run read.
uint64_t page_bytes_read(const attend_case &c);

#endif
