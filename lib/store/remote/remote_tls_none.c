/* Stands in for remote_tls_openssl.c in a build without OpenSSL: refuses TLS. */
#include "base/fail.h"
#include "store/remote/remote_tls.h"

static pc_status refuse_tls(pc__remote_tls **out, const pc_allocator *mem,
                            const pc__remote_tls_options *options)
{
    (void)mem, (void)options;
    *out = NULL;
    return pc__fail(PC_ERR_UNSUPPORTED, "remote address: rediss:// needs TLS, and this library was "
                                        "built without OpenSSL; install it (Debian: libssl-dev) "
                                        "and configure again");
}

const pc__remote_tls_ops pc__tls = {.open = refuse_tls};
