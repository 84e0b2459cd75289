/* Makes the REMOTE tier of an address. Built also without hiredis, to say that it is missing. */
#include "store/remote/remote_tier.h"

#include "base/fail.h"

pc_status pc__tier_remote_new(pc__tier **out, const pc__tier_common *common, const char *address)
{
    pc__remote_address parsed;
    pc_status status;
    *out = NULL;
    if (!address)
        return pc__fail(PC_ERR_INVALID, "remote: the address is NULL");
    status = pc__remote_address_parse(&parsed, common->mem, address);
    if (status < 0)
        return status;
#if defined(PC_HAVE_HIREDIS)
    return pc__remote_tier_new(out, common, &parsed);
#else
    pc__remote_address_free(&parsed);
    return pc__fail(PC_ERR_UNSUPPORTED,
                    "remote: this library was built without hiredis; install it "
                    "(Debian: libhiredis-dev) and configure again");
#endif
}
