/* Which process made an object (process.h). */
#include "base/process.h"

#include <unistd.h>

pid_t pc__process(void)
{
    return getpid();
}

int pc__is_own_process(pid_t maker)
{
    return getpid() == maker;
}

pc_status pc__check_process(pid_t maker, const char *call, const char *object)
{
    if (pc__is_own_process(maker))
        return PC_OK;
    return pc__fail(PC_ERR_STATE,
                    "%s: process %ld made %s before fork(), and has its threads and locks; this "
                    "process needs one of its own",
                    call, (long)maker, object);
}
