/* Makes a REMOTE tier by its plug-in module, or says why that is not there. */
#include "store/remote/remote_tier.h"

#include "base/fail.h"

/* NULL: the error text says why. */
static const pc__remote_functions *open_module(void)
{
#if defined(PC_HAVE_HIREDIS)
    const pc__module_found *found = pc__module_open("remote", pc__linked_remote);
    if (!found->table)
        pc__fail(PC_ERR_UNSUPPORTED, "remote: %s", found->reason);
    return found->table;
#else
    pc__fail(PC_ERR_UNSUPPORTED, "remote: this library was built without hiredis; install it "
                                 "(Debian: libhiredis-dev) and configure again");
    return NULL;
#endif
}

pc_status pc__tier_remote_new(pc__tier **out, const pc__tier_common *common, const char *address)
{
    pc__remote_address parsed;
    *out = NULL;
    PC__TRY_RETURN(pc__remote_address_parse(&parsed, common->mem, address));
    const pc__remote_functions *remote = open_module();
    if (remote)
        return remote->create(out, common, &parsed);
    pc__remote_address_free(&parsed);
    return PC_ERR_UNSUPPORTED;
}
