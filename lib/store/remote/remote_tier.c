/* The tier REMOTE: records as values of a Redis or Valkey server, or a cluster of them
 * (doc/format.md, "A server").
 *
 *   remote_tier     what the store asks of a tier; what is known here of the server; counters
 *   remote_source, remote_publish, remote_values   reading and writing one entry; remote_entry: its
 * names and envelope remote_call     one call to the node that has a slot: redirections, what
 * errors mean; remote_nodes: connections, and who is left alone after a failure; remote_cluster:
 * which node has which slots remote_wire     one connection under one deadline; remote_request and
 * remote_reply: what goes over it; remote_tls: its TLS Files that end in _redis.c are built where
 * hiredis is, remote_tls_openssl.c where OpenSSL is, too. */
#include "base/fail.h"
#include "store/remote/remote_address.h"
#if defined(PC_HAVE_HIREDIS)
#include "store/remote/remote_tier.h"
#endif
#include "store/tier.h"

pc_status pc__tier_remote_new(pc__tier **out, const pc__tier_common *common, const char *address)
{
    pc__remote_address parsed;
    pc_status status;
    *out = NULL;
    if (!address)
        return pc__fail(PC_ERR_INVALID, "remote: no address");
    status = pc__remote_address_parse(&parsed, common->mem, address);
    if (status < 0)
        return status;
#if defined(PC_HAVE_HIREDIS)
    return pc__remote_tier_new(out, common, &parsed);
#else
    pc__remote_address_free(&parsed);
    return pc__fail(PC_ERR_UNSUPPORTED, "remote: this library was built without hiredis (Debian: "
                                        "libhiredis-dev, then configure again)");
#endif
}
