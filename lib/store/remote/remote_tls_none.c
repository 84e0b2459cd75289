/* Stands in for remote_tls_openssl.c in a build without OpenSSL. */
#include "base/fail.h"
#include "store/remote/remote_tls.h"

static pc_status absent(void)
{
    return pc__fail(PC_ERR_UNSUPPORTED, "remote address: rediss:// needs TLS, and this library was "
                                        "built without OpenSSL; install it (Debian: libssl-dev) "
                                        "and configure again");
}

pc_status pc__remote_tls_new(pc__remote_tls **out, const pc_allocator *mem,
                             const pc__remote_tls_options *options)
{
    (void)mem;
    (void)options;
    *out = NULL;
    return absent();
}

void pc__remote_tls_free(pc__remote_tls *tls)
{
    (void)tls;
}

pc_status pc__remote_tls_session_new(pc__remote_tls_session **out, const pc__remote_tls *tls,
                                     int fd, const char *server)
{
    (void)tls;
    (void)fd;
    (void)server;
    *out = NULL;
    return absent();
}

void pc__remote_tls_session_free(pc__remote_tls_session *session)
{
    (void)session;
}

pc_status pc__remote_tls_handshake(pc__remote_tls_session *session, short *wants)
{
    (void)session;
    (void)wants;
    return absent();
}

pc_status pc__remote_tls_receive(pc__remote_tls_session *session, void *data, size_t size,
                                 size_t *got, short *wants)
{
    (void)session;
    (void)data;
    (void)size;
    (void)got;
    (void)wants;
    return absent();
}

pc_status pc__remote_tls_send(pc__remote_tls_session *session, const void *data, size_t size,
                              short *wants)
{
    (void)session;
    (void)data;
    (void)size;
    (void)wants;
    return absent();
}

int pc__remote_tls_is_idle(pc__remote_tls_session *session)
{
    (void)session;
    return 0;
}
