/* The time: monotonic for deadlines, the date for expiry. */
#ifndef PC_BASE_CLOCK_H
#define PC_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

double pc__now(void);       /* monotonic, seconds */
int64_t pc__now_date(void); /* seconds since 1970 */
/* For waits on a monotonic condition; negative seconds count as 0. */
struct timespec pc__timespec(double seconds);

#endif
