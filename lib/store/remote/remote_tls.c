/* TLS by OpenSSL through a BIO of our own: OpenSSL's socket BIO would raise SIGPIPE, which a
 * library must not switch off for the application. OpenSSL allocates for itself; our structs come
 * from the caller's allocator. Without OpenSSL, TLS is refused. */
#include "store/remote/remote_tls.h"

#include "base/fail.h"

#if !defined(PC_HAVE_OPENSSL)

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

#else

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct pc__remote_tls {
    pc_allocator mem;
    SSL_CTX *context;
    BIO_METHOD *method;
    char *name; /* instead of the server's own; NULL: that one */
};

struct pc__remote_tls_session {
    pc_allocator mem;
    SSL *ssl;
    int fd;
    int error; /* errno of the socket's last call; 0: none */
    int is_up; /* the handshake is done and the session good: shutdown may be sent */
    char name[256];
};

/* ---------------------------------------------------------------- the socket */

/* After a system call that returned `n`. `retry`: the flag that says what OpenSSL waits for. */
static int socket_result(BIO *bio, ssize_t n, int retry)
{
    pc__remote_tls_session *session = BIO_get_data(bio);
    session->error = n < 0 ? errno : 0;
    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    return (int)n;
}

static int socket_write(BIO *bio, const char *data, int size)
{
    const pc__remote_tls_session *session = BIO_get_data(bio);
    return socket_result(bio, send(session->fd, data, (size_t)size, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static int socket_read(BIO *bio, char *data, int size)
{
    const pc__remote_tls_session *session = BIO_get_data(bio);
    return socket_result(bio, recv(session->fd, data, (size_t)size, 0), BIO_FLAGS_READ);
}

static long socket_control(BIO *bio, int command, long number, void *data)
{
    (void)bio, (void)number, (void)data;
    return command == BIO_CTRL_FLUSH;
}

/* ---------------------------------------------------------------- what connections share */

/* OpenSSL's reason for a failure. Empties its error queue of this thread, which the application may
 * use too. */
static const char *reason(void)
{
    unsigned long error = ERR_peek_last_error();
    const char *text = error ? ERR_reason_error_string(error) : NULL;
    ERR_clear_error();
    return text ? text : "no reason given";
}

/* Refuses encrypted keys: OpenSSL would ask for the password at the terminal. */
static int refuse_password(char *data, int size, int writing, void *user)
{
    (void)data, (void)size, (void)writing;
    *(int *)user = 1;
    return -1;
}

static pc_status check_path(const char *path, const char *option, int *is_folder)
{
    struct stat info;
    if (stat(path, &info))
        return pc__fail(PC_ERR_IO, "remote address: %s: %s: %s", option, path, strerror(errno));
    *is_folder = S_ISDIR(info.st_mode);
    return PC_OK;
}

static pc_status load_authorities(SSL_CTX *context, const char *path)
{
    int is_folder = 0;
    if (path)
        PC__TRY_RETURN(check_path(path, "cacert", &is_folder));
    if (path ? SSL_CTX_load_verify_locations(context, is_folder ? NULL : path,
                                             is_folder ? path : NULL)
             : SSL_CTX_set_default_verify_paths(context))
        return PC_OK;
    return pc__fail(PC_ERR_INVALID, "remote address: cacert: %s: %s",
                    path ? path : "the system's authorities", reason());
}

static pc_status load_certificate(SSL_CTX *context, const pc__remote_tls_options *options)
{
    const char *key = options->key ? options->key : options->certificate;
    int is_folder, is_locked = 0;
    pc_status status = PC_OK;
    PC__TRY_RETURN(check_path(options->certificate, "cert", &is_folder));
    PC__TRY_RETURN(check_path(key, "key", &is_folder));
    if (SSL_CTX_use_certificate_chain_file(context, options->certificate) != 1)
        return pc__fail(PC_ERR_INVALID, "remote address: cert: %s: %s", options->certificate,
                        reason());
    SSL_CTX_set_default_passwd_cb(context, refuse_password);
    SSL_CTX_set_default_passwd_cb_userdata(context, &is_locked);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) {
        const char *why = reason();
        status = pc__fail(PC_ERR_INVALID, "remote address: key: %s: %s", key,
                          is_locked ? "the key is locked with a password; use one without" : why);
    }
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    if (status == PC_OK && SSL_CTX_check_private_key(context) != 1)
        status = pc__fail(PC_ERR_INVALID, "remote address: key: %s: %s", key, reason());
    return status;
}

/* The system's policy (openssl.cnf) may be stricter. */
static int set_modes(SSL_CTX *context, int insecure)
{
    int least = (int)SSL_CTX_get_min_proto_version(context);
    if (least < TLS1_2_VERSION && !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION))
        return 0;
    SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(context, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    return 1;
}

static pc_status set_up(pc__remote_tls *t, const pc__remote_tls_options *options)
{
    pc_status status = PC_OK;
    if (options->name && !(t->name = pc__strdup(&t->mem, options->name)))
        return PC_ERR_NOMEM;
    /* Its clean-up at exit would free memory that threads of a living cache use. The first caller
     * in a process decides. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    ERR_clear_error();
    t->context = SSL_CTX_new(TLS_client_method());
    t->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "promptcache socket");
    if (!t->context || !t->method || !set_modes(t->context, options->insecure)
        || !BIO_meth_set_write(t->method, socket_write)
        || !BIO_meth_set_read(t->method, socket_read)
        || !BIO_meth_set_ctrl(t->method, socket_control))
        return pc__fail(PC_ERR_INTERNAL, "remote: OpenSSL cannot be initialised: %s", reason());
    if (!options->insecure)
        status = load_authorities(t->context, options->authorities);
    if (status == PC_OK && options->certificate)
        status = load_certificate(t->context, options);
    return status;
}

static void close_tls(pc__remote_tls *tls)
{
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    pc__free(&tls->mem, tls->name);
    pc__free(&tls->mem, tls);
}

static pc_status open_tls(pc__remote_tls **out, const pc_allocator *mem,
                          const pc__remote_tls_options *options)
{
    pc__remote_tls *t = *out = pc__calloc(mem, 1, sizeof *t);
    pc_status status;
    if (!t)
        return PC_ERR_NOMEM;
    t->mem = *mem;
    status = set_up(t, options);
    ERR_clear_error();
    if (status == PC_OK)
        return PC_OK;
    close_tls(t);
    *out = NULL;
    return status;
}

/* ---------------------------------------------------------------- one connection */

/* Sets the name that the certificate must have. A final dot and the zone of a number are not part
 * of it; SNI does not take numbers (RFC 6066). */
static int set_name(pc__remote_tls_session *session, const char *name)
{
    X509_VERIFY_PARAM *check = SSL_get0_param(session->ssl);
    unsigned char number[sizeof(struct in6_addr)];
    size_t size = strcspn(name, "%");
    if (size && name[size - 1] == '.')
        size--;
    if (!size || size >= sizeof session->name)
        return 0;
    memcpy(session->name, name, size);
    if (inet_pton(AF_INET, session->name, number) == 1
        || inet_pton(AF_INET6, session->name, number) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(check, session->name);
    X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(check, session->name, 0)
           && SSL_set_tlsext_host_name(session->ssl, session->name);
}

static void free_session(pc__remote_tls_session *session)
{
    if (session->is_up)
        SSL_shutdown(session->ssl);
    SSL_free(session->ssl);
    ERR_clear_error();
    pc__free(&session->mem, session);
}

static pc_status new_session(pc__remote_tls_session **out, const pc__remote_tls *tls, int fd,
                             const char *server)
{
    const char *name = tls->name ? tls->name : server;
    pc__remote_tls_session *session = *out = pc__calloc(&tls->mem, 1, sizeof *session);
    BIO *bio;
    if (!session)
        return PC_ERR_NOMEM;
    session->mem = tls->mem;
    session->fd = fd;
    ERR_clear_error();
    session->ssl = SSL_new(tls->context);
    bio = BIO_new(tls->method);
    if (session->ssl && bio && set_name(session, name)) {
        BIO_set_data(bio, session);
        BIO_set_init(bio, 1);
        SSL_set_bio(session->ssl, bio, bio); /* takes the BIO over */
        SSL_set_connect_state(session->ssl);
        return PC_OK;
    }
    pc__fail(PC_ERR_IO, "TLS: cannot set up a session with '%.255s': %s", name, reason());
    BIO_free(bio);
    free_session(session);
    *out = NULL;
    return PC_ERR_IO;
}

static int is_ssl(unsigned long error, int why)
{
    return ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == why;
}

static pc_status session_error(const pc__remote_tls_session *session, unsigned long error,
                               const char *what)
{
    long verified = SSL_get_verify_result(session->ssl);
    int other_name = verified == X509_V_ERR_HOSTNAME_MISMATCH
                     || verified == X509_V_ERR_IP_ADDRESS_MISMATCH;
    if (is_ssl(error, SSL_R_CERTIFICATE_VERIFY_FAILED) && other_name)
        return pc__fail(PC_ERR_IO, "TLS: the server's certificate is not made out to '%s'",
                        session->name);
    if (is_ssl(error, SSL_R_CERTIFICATE_VERIFY_FAILED))
        return pc__fail(PC_ERR_IO, "TLS: the server's certificate is refused: %s",
                        X509_verify_cert_error_string(verified));
    if (is_ssl(error, SSL_R_WRONG_VERSION_NUMBER) && !SSL_is_init_finished(session->ssl))
        return pc__fail(PC_ERR_IO,
                        "TLS: the server's reply is not TLS; check that the port is its TLS port");
#if defined(SSL_R_UNEXPECTED_EOF_WHILE_READING) /* since OpenSSL 3 */
    if (is_ssl(error, SSL_R_UNEXPECTED_EOF_WHILE_READING))
        return pc__fail(PC_ERR_IO, "TLS: %s: the server has closed the connection", what);
#endif
    return pc__fail(PC_ERR_IO, "TLS: %s: %s", what, reason());
}

/* The status of an OpenSSL call; `result` 1: it succeeded. */
static pc_status session_result(pc__remote_tls_session *session, int result, const char *what,
                                short *wants)
{
    int kind = SSL_get_error(session->ssl, result);
    pc_status status = PC_ERR_IO;
    if (result == 1)
        return PC_OK;
    *wants = kind == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return PC_AGAIN;
    if (kind == SSL_ERROR_SSL)
        status = session_error(session, ERR_peek_error(), what);
    else if (kind == SSL_ERROR_SYSCALL && session->error)
        pc__fail(status, "TLS: %s: %s", what, strerror(session->error));
    else
        pc__fail(status, "TLS: %s: the server has closed the connection", what);
    session->is_up = 0;
    ERR_clear_error();
    return status;
}

static pc_status shake_hands(pc__remote_tls_session *session, short *wants)
{
    int result;
    ERR_clear_error();
    result = SSL_connect(session->ssl);
    session->is_up = result == 1;
    return session_result(session, result, "handshake", wants);
}

static pc_status receive_tls(pc__remote_tls_session *session, void *data, size_t size, size_t *got,
                             short *wants)
{
    ERR_clear_error();
    return session_result(session, SSL_read_ex(session->ssl, data, size, got), "receive", wants);
}

static pc_status send_tls(pc__remote_tls_session *session, const void *data, size_t size,
                          short *wants)
{
    size_t sent; /* always all: partial writes are not enabled */
    ERR_clear_error();
    return session_result(session, SSL_write_ex(session->ssl, data, size, &sent), "send", wants);
}

static int session_is_idle(pc__remote_tls_session *session)
{
    char byte;
    size_t got;
    int result, quiet;
    ERR_clear_error();
    result = SSL_peek_ex(session->ssl, &byte, 1, &got); /* processes tickets and new keys */
    quiet = result != 1 && SSL_get_error(session->ssl, result) == SSL_ERROR_WANT_READ;
    session->is_up = quiet && session->is_up;
    ERR_clear_error();
    return quiet;
}

const pc__remote_tls_ops pc__tls = {
    .open = open_tls,
    .close = close_tls,
    .session_new = new_session,
    .session_free = free_session,
    .handshake = shake_hands,
    .receive = receive_tls,
    .send = send_tls,
    .is_idle = session_is_idle,
};

#endif
