/* Plug-in modules for test_module.c, one a set of definitions: FAKE_NAME, FAKE_VERSION and
 * FAKE_BUILD as the module says them, FAKE_START (the result of its start). */
#include "fake_module.h"

#include <stdatomic.h>

#include "base/module.h"

static atomic_int starts;

static int count_starts(void)
{
    return atomic_load(&starts);
}

static pc_status fail_with(int number)
{
    return pc__fail(PC_ERR_LIMIT, "fake %d", number);
}

static pc_status start(const pc__module_host *host, const void **table)
{
    static const fake_module functions = {count_starts, fail_with};
    pc__module_join(host);
    atomic_fetch_add(&starts, 1);
    if (FAKE_START < 0)
        return pc__fail(FAKE_START, "the fake device has no name");
    *table = &functions;
    return PC_OK;
}

#define MODULE(name) PC__MODULE(name)
MODULE(FAKE_NAME) = {FAKE_VERSION, FAKE_BUILD, start};
