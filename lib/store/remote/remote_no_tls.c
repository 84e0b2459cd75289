/* In place of remote_tls_openssl.c where OpenSSL is not: without a pc__tls nothing else of it is
 * ever called. */
#include "base/fail.h"
#include "store/remote/remote_tls.h"

static pc_status absent(void)
{
    return pc__fail(PC_ERR_UNSUPPORTED, "remote address: this library was built without TLS "
                                        "(rediss://): it needs OpenSSL (Debian: libssl-dev, then "
                                        "configure again)");
}

pc_status pc__tls_new(pc__tls **out, const pc_allocator *mem, const pc__remote_tls *options)
{
    (void)mem;
    (void)options;
    *out = NULL;
    return absent();
}

void pc__tls_free(pc__tls *tls)
{
    (void)tls;
}

pc_status pc__tls_link_new(pc__tls_link **out, const pc__tls *tls, int fd, const char *host)
{
    (void)tls;
    (void)fd;
    (void)host;
    *out = NULL;
    return absent();
}

void pc__tls_link_free(pc__tls_link *link)
{
    (void)link;
}

pc_status pc__tls_shake(pc__tls_link *link, short *wants)
{
    (void)link;
    (void)wants;
    return absent();
}

pc_status pc__tls_receive(pc__tls_link *link, void *data, size_t size, size_t *got, short *wants)
{
    (void)link;
    (void)data;
    (void)size;
    (void)got;
    (void)wants;
    return absent();
}

pc_status pc__tls_send(pc__tls_link *link, const void *data, size_t size, short *wants)
{
    (void)link;
    (void)data;
    (void)size;
    (void)wants;
    return absent();
}

int pc__tls_is_quiet(pc__tls_link *link)
{
    (void)link;
    return 0;
}
