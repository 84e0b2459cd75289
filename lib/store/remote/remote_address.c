/* A parser of addresses that reports the byte of an error. Owns copies of all parts. */
#include "store/remote/remote_address.h"

#include <sodium.h>
#include <string.h>

#include "base/digest.h"
#include "base/fail.h"

enum { DEFAULT_PORT = 6379, MAX_SEEDS = 256, MAX_SERVER_NAME = 255, MAX_DATABASE = 1 << 20 };

static pc_status address_error(const char *text, const char *at, const char *cause)
{
    return pc__fail(PC_ERR_INVALID, "remote address: at byte %zu: %s", (size_t)(at - text), cause);
}

/* Copies text with its %xx decoded. The copy is never moved, so that zeroing it leaves nothing. */
static pc_status decode_text(char **out, const pc_allocator *mem, const char *text,
                             const char *from, const char *to)
{
    char *at = *out = pc__calloc(mem, (size_t)(to - from) + 1, 1);
    if (!at)
        return PC_ERR_NOMEM;
    for (; from < to; from++) {
        int byte;
        if (*from != '%') {
            *at++ = *from;
            continue;
        }
        byte = to - from > 2 ? pc__hex_byte(from + 1) : -1;
        if (byte <= 0)
            return address_error(text, from,
                                 "after % two hexadecimal digits are needed, not both 0");
        *at++ = (char)byte;
        from += 2;
    }
    return PC_OK;
}

/* The whole text as a decimal number. 0: it is none, or too large. */
static int parse_number(const char *from, const char *to, int32_t most, int32_t *out)
{
    int32_t value = 0;
    if (from == to)
        return 0;
    for (; from < to; from++) {
        if (*from < '0' || *from > '9')
            return 0;
        value = 10 * value + (*from - '0');
        if (value > most)
            return 0;
    }
    *out = value;
    return 1;
}

static pc_status add_seed(pc__remote_address *a, const char *text, const char *from, const char *to,
                          int32_t port)
{
    if (from == to)
        return address_error(text, from, "the name of a server is missing");
    if (port && to - from > MAX_SERVER_NAME)
        return address_error(text, from, "the name of a server has more than 255 bytes");
    if (a->count == MAX_SEEDS)
        return address_error(text, from, "more than 256 servers");
    PC__TRY_RETURN(
        pc__grow(&a->mem, (void **)&a->seeds, &a->capacity, a->count + 1, sizeof *a->seeds));
    a->seeds[a->count].port = (uint16_t)port;
    a->seeds[a->count].server = NULL;
    a->count++; /* counted first: a failed decode leaves memory too */
    return decode_text(&a->seeds[a->count - 1].server, &a->mem, text, from, to);
}

/* "server", "server:port", "[v6]", "[v6]:port" */
static pc_status parse_server(pc__remote_address *a, const char *text, const char *from,
                              const char *to)
{
    const char *end = memchr(from, from < to && *from == '[' ? ']' : ':', (size_t)(to - from));
    const char *server = from, *server_end = end ? end : to, *rest = server_end;
    int32_t port = DEFAULT_PORT;
    if (from < to && *from == '[') {
        if (!end)
            return address_error(text, from, "[ without ]");
        server = from + 1;
        rest = end + 1;
    }
    if (rest < to && *rest == ':' && memchr(rest + 1, ':', (size_t)(to - rest - 1)))
        return address_error(text, from, "write an IPv6 address in brackets");
    if (rest < to && (*rest != ':' || !parse_number(rest + 1, to, 65535, &port) || !port))
        return address_error(text, rest, "after the server only :port (1 to 65535) may follow");
    return add_seed(a, text, server, server_end, port);
}

static pc_status parse_user(pc__remote_address *a, const char *text, const char *from,
                            const char *to)
{
    const char *colon = memchr(from, ':', (size_t)(to - from));
    pc_status status;
    if (!colon)
        return address_error(text, from,
                             "a user needs a password; \":password@\" is a password alone");
    if (colon > from)
        PC__TRY_RETURN(decode_text(&a->user, &a->mem, text, from, colon));
    status = decode_text(&a->password, &a->mem, text, colon + 1, to);
    if (status == PC_OK && !a->password[0])
        status = address_error(text, colon, "the password is empty");
    return status;
}

static pc_status parse_servers(pc__remote_address *a, const char *text, const char *from,
                               const char *to)
{
    const char *slash = memchr(from, '/', (size_t)(to - from)), *end = slash ? slash : to;
    if (slash && slash + 1 < to && !parse_number(slash + 1, to, MAX_DATABASE, &a->database))
        return address_error(text, slash, "after / only the number of a database may follow");
    for (;;) {
        const char *comma = memchr(from, ',', (size_t)(end - from));
        pc_status status = parse_server(a, text, from, comma ? comma : end);
        if (status < 0)
            return status;
        if (!comma)
            break;
        from = comma + 1;
    }
    if (a->count > 1 && a->database)
        return address_error(text, slash, "a cluster has database 0 only");
    return PC_OK;
}

/* The field of an option. NULL: no option has this name. */
static char **option_field(pc__remote_tls_options *tls, const char *from, size_t size)
{
    static const char *const names[] = {"cacert", "cert", "key", "sni"};
    char **const fields[] = {&tls->authorities, &tls->certificate, &tls->key, &tls->name};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (size == strlen(names[i]) && !memcmp(from, names[i], size))
            return fields[i];
    return NULL;
}

static pc_status parse_option(pc__remote_address *a, const char *text, const char *from,
                              const char *to)
{
    const char *equal = memchr(from, '=', (size_t)(to - from));
    size_t size = (size_t)((equal ? equal : to) - from);
    char **field = option_field(&a->tls, from, size);
    if (equal && size == 8 && !memcmp(from, "insecure", 8)) {
        if (to - equal != 2 || equal[1] != '1' || a->tls.insecure)
            return address_error(text, from, "insecure can only be 1, and given once");
        a->tls.insecure = 1;
        return PC_OK;
    }
    if (!equal || !field)
        return address_error(text, from,
                             "unknown option; known: cacert=, cert=, key=, sni=, insecure=1");
    if (*field)
        return address_error(text, from, "an option is given twice");
    if (equal + 1 == to)
        return address_error(text, from, "an option has no value");
    return decode_text(field, &a->mem, text, equal + 1, to);
}

static pc_status parse_options(pc__remote_address *a, const char *text, const char *from)
{
    if (strchr(from, '@'))
        return address_error(
            text, from,
            "in an address with options, write ? and & of user and password as %3F and %26, "
            "and @ of options as %40");
    for (const char *at = from;;) {
        const char *end = at + strcspn(at, "&");
        pc_status status = parse_option(a, text, at, end);
        if (status < 0)
            return status;
        if (!*end)
            break;
        at = end + 1;
    }
    if (a->tls.key && !a->tls.certificate)
        return address_error(text, from, "key= needs cert=");
    if (a->tls.insecure && a->tls.authorities)
        return address_error(text, from, "insecure=1 and cacert= exclude each other");
    return PC_OK;
}

/* The question mark before the options, or the end. A password of redis:// may contain one. */
static const char *find_options(const char *from, int tls)
{
    const char *at = strrchr(from, '@');
    return tls || !at ? from + strcspn(from, "?") : at + strcspn(at, "?");
}

pc_status pc__remote_address_parse(pc__remote_address *out, const pc_allocator *mem,
                                   const char *text)
{
    static const char tcp[] = "redis://", local[] = "redis+unix://", tls[] = "rediss://";
    int is_local = !strncmp(text, local, sizeof local - 1),
        is_tls = !strncmp(text, tls, sizeof tls - 1);
    const char *from = text
                       + (is_local ? sizeof local
                          : is_tls ? sizeof tls
                                   : sizeof tcp)
                       - 1,
               *end, *at;
    pc_status status = PC_OK;
    memset(out, 0, sizeof *out);
    out->mem = *mem;
    out->tls.wanted = is_tls;
    if (!is_local && !is_tls && strncmp(text, tcp, sizeof tcp - 1))
        return address_error(text, text,
                             "an address begins with redis://, rediss:// or redis+unix://");
    end = is_local ? from + strlen(from) : find_options(from, is_tls);
    if (*end && !is_tls)
        return address_error(text, end, "only rediss:// has options (?)");
    if (*end)
        PC__TRY(parse_options(out, text, end + 1), fail);
    for (at = end; at > from && at[-1] != '@';)
        at--;
    if (at > from) {
        PC__TRY(parse_user(out, text, from, at - 1), fail);
        from = at;
    }
    if (is_local && *from != '/')
        status = address_error(text, from, "the path of a socket must begin with /");
    else
        status = is_local ? add_seed(out, text, from, end, 0) : parse_servers(out, text, from, end);
    if (status == PC_OK)
        return PC_OK;
fail:
    pc__remote_address_free(out);
    return status;
}

static void zero_text(const pc_allocator *mem, char *text)
{
    if (text)
        sodium_memzero(text, strlen(text));
    pc__free(mem, text);
}

void pc__remote_address_free(pc__remote_address *address)
{
    if (!address->mem.alloc)
        return;
    zero_text(&address->mem, address->user);
    zero_text(&address->mem, address->password);
    pc__free(&address->mem, address->tls.authorities);
    pc__free(&address->mem, address->tls.certificate);
    pc__free(&address->mem, address->tls.key);
    pc__free(&address->mem, address->tls.name);
    for (size_t i = 0; i < address->count; i++)
        pc__free(&address->mem, address->seeds[i].server);
    pc__free(&address->mem, address->seeds);
    memset(address, 0, sizeof *address);
}
