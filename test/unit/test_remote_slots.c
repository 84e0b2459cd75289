/* Catches: keys that are looked for in the wrong slot of a cluster, redirections that are misread.
 */
#include "store/remote/remote_slots.h"

#include <string.h>

#include "testing.h"

static uint32_t slot(const char *key)
{
    return pc__slot_of(key, strlen(key));
}

int main(void)
{
    char host[256], text[600];
    uint32_t at;
    uint16_t port;
    CHECK_INT(slot("123456789"), 0x31c3); /* the check value of CRC16/XMODEM, less than 16384 */
    CHECK_INT(slot("foo"), 12182);        /* CLUSTER KEYSLOT foo */
    CHECK_INT(slot("pc1:{foo}:1"), 12182);
    CHECK_INT(slot("{}foo"), slot("{}foo"));
    CHECK(slot("{}foo") != slot("foo"));
    CHECK_INT(slot("a{foo}{bar}"), 12182);
    CHECK(slot("{foo") != 12182);
    CHECK(pc__slot_parse("3999 127.0.0.1:6381", &at, host, &port));
    CHECK_INT(at, 3999);
    CHECK_STR(host, "127.0.0.1");
    CHECK_INT(port, 6381);
    CHECK(pc__slot_parse("0 :6381", &at, host, &port));
    CHECK_STR(host, "");
    CHECK(pc__slot_parse("16383 ::1:1", &at, host, &port));
    CHECK_STR(host, "::1");
    CHECK(!pc__slot_parse("", &at, host, &port));
    CHECK(!pc__slot_parse("1", &at, host, &port));
    CHECK(!pc__slot_parse("16384 h:1", &at, host, &port));
    CHECK(!pc__slot_parse("-1 h:1", &at, host, &port));
    CHECK(!pc__slot_parse("1 h:0", &at, host, &port));
    CHECK(!pc__slot_parse("1 h:65536", &at, host, &port));
    CHECK(!pc__slot_parse("1 h:1x", &at, host, &port));
    CHECK(!pc__slot_parse("1 h:", &at, host, &port));
    CHECK(!pc__slot_parse(":1 2", &at, host, &port));
    memset(text, 'h', sizeof text);
    memcpy(text, "1 ", 2);
    memcpy(text + sizeof text - 3, ":1", 3);
    CHECK(!pc__slot_parse(text, &at, host, &port));
    memcpy(text + 2 + 255, ":1", 3);
    CHECK(pc__slot_parse(text, &at, host, &port));
    CHECK_INT(strlen(host), 255);
    return pc_test_end();
}
