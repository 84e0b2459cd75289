/* Objects and fork(). A child has the memory of its parent, but none of its threads; descriptors,
 * and with them the locks on files, are shared. So an object with threads, locks or files belongs
 * to the process that made it: elsewhere its calls fail, and freeing it gives back memory only. */
#ifndef PC_BASE_PROCESS_H
#define PC_BASE_PROCESS_H

#include <sys/types.h>

#include "base/fail.h"

pid_t pc__process(void); /* this one; an object keeps it */
int pc__is_own_process(pid_t maker);
/* PC_ERR_STATE in another process than the maker's. call: "pc_x"; object: "the cache". */
pc_status pc__check_process(pid_t maker, const char *call, const char *object);

#endif
