// Reports: what is wrong, where in the kernel's source, which thread, and the seed of the order.
#ifndef PC_TEST_REPORT_H
#define PC_TEST_REPORT_H

#include "gpu_model.h"

namespace gpu_model {

// Counts it. The first one of a kind and place in the source is printed.
__attribute__((format(printf, 3, 4))) void report(report_kind kind, void *pc, const char *format,
                                                  ...);
// A mistake in the use of the model, or no memory: prints it and aborts.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char *format, ...);

// Until the launch ends, a signal such as SIGSEGV is reported before the program dies of it.
void catch_crashes(bool on);

} // namespace gpu_model

#endif
