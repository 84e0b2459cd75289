/* Catches: a server that is not reached because it does not listen on the first address of its
 * name; an address that works and is not tried first the next time; a name that is not resolved
 * again although all its addresses fail. */
#include "store/remote/remote_resolver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "testing.h"

static int look_ups;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out);
void __wrap_freeaddrinfo(struct addrinfo *list);

/* A name with two addresses: 127.0.0.1 and 127.0.0.2. */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out)
{
    static struct sockaddr_in address[2];
    static struct addrinfo list[2];
    (void)host, (void)port;
    *out = NULL;
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    look_ups++;
    for (uint32_t i = 0; i < 2; i++) {
        address[i] = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_addr = {htonl(0x7f000001 + i)}};
        list[i] = (struct addrinfo){.ai_family = AF_INET,
                                    .ai_addr = (struct sockaddr *)&address[i],
                                    .ai_addrlen = sizeof *address,
                                    .ai_next = i ? NULL : &list[1]};
    }
    *out = list;
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

static pc__remote_socket_address next_address(pc__remote_resolver *resolver, uint32_t want)
{
    pc__remote_deadline limit = {pc__now() + 10, 0};
    pc__remote_socket_address found = {.size = 0};
    struct sockaddr_in address;
    CHECK_OK(pc__remote_resolver_get(resolver, &found, &limit));
    memcpy(&address, &found.storage, sizeof address);
    CHECK_INT(ntohl(address.sin_addr.s_addr), 0x7f000000 + want);
    return found;
}

int main(void)
{
    pc__remote_resolver *resolver = NULL;
    CHECK_OK(pc__remote_resolver_new(&resolver, &pc__libc_allocator, "name", 6379));
    pc__remote_socket_address one = next_address(resolver, 1);
    CHECK_INT(pc__remote_resolver_failed(resolver, &one), 1);
    pc__remote_socket_address two = next_address(resolver, 2);
    CHECK_INT(pc__remote_resolver_failed(resolver, &one),
              1); /* of another thread: it changes nothing */
    next_address(resolver, 2);
    pc__remote_resolver_answered(resolver);
    next_address(resolver, 2);
    CHECK_INT(pc__remote_resolver_failed(resolver, &two), 1);
    one = next_address(resolver, 1);
    CHECK_INT(look_ups, 1);
    CHECK_INT(pc__remote_resolver_failed(resolver, &one), 0);
    next_address(resolver, 1);
    CHECK_INT(look_ups, 2);
    pc__remote_resolver_free(resolver);
    return pc_test_end();
}
