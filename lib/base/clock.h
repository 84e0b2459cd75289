/* The time: monotonic for deadlines, the date for expiry. */
#ifndef PC_BASE_CLOCK_H
#define PC_BASE_CLOCK_H

#include <stdint.h>

double pc__now(void);       /* monotonic, seconds */
int64_t pc__now_date(void); /* seconds since 1970 */

#endif
