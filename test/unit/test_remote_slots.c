/* Catches: wrong hash slots of keys, redirections that are parsed wrongly. */
#include "store/remote/remote_slots.h"

#include <string.h>

#include "testing.h"

static uint32_t slot(const char *key)
{
    return pc__remote_slot_of_name(key, strlen(key));
}

int main(void)
{
    char server[256], text[600];
    uint32_t at;
    uint16_t port;
    CHECK_INT(slot("123456789"), 0x31c3); /* the check value of CRC16/XMODEM, less than 16384 */
    CHECK_INT(slot("foo"), 12182);        /* CLUSTER KEYSLOT foo */
    CHECK_INT(slot("pc1:{foo}:1"), 12182);
    CHECK_INT(slot("{}foo"), slot("{}foo"));
    CHECK(slot("{}foo") != slot("foo"));
    CHECK_INT(slot("a{foo}{bar}"), 12182);
    CHECK(slot("{foo") != 12182);
    CHECK(pc__remote_slot_parse("3999 127.0.0.1:6381", &at, server, &port));
    CHECK_INT(at, 3999);
    CHECK_STR(server, "127.0.0.1");
    CHECK_INT(port, 6381);
    CHECK(pc__remote_slot_parse("0 :6381", &at, server, &port));
    CHECK_STR(server, "");
    CHECK(pc__remote_slot_parse("16383 ::1:1", &at, server, &port));
    CHECK_STR(server, "::1");
    CHECK(!pc__remote_slot_parse("", &at, server, &port));
    CHECK(!pc__remote_slot_parse("1", &at, server, &port));
    CHECK(!pc__remote_slot_parse("16384 h:1", &at, server, &port));
    CHECK(!pc__remote_slot_parse("-1 h:1", &at, server, &port));
    CHECK(!pc__remote_slot_parse("1 h:0", &at, server, &port));
    CHECK(!pc__remote_slot_parse("1 h:65536", &at, server, &port));
    CHECK(!pc__remote_slot_parse("1 h:1x", &at, server, &port));
    CHECK(!pc__remote_slot_parse("1 h:", &at, server, &port));
    CHECK(!pc__remote_slot_parse(":1 2", &at, server, &port));
    memset(text, 'h', sizeof text);
    memcpy(text, "1 ", 2);
    memcpy(text + sizeof text - 3, ":1", 3);
    CHECK(!pc__remote_slot_parse(text, &at, server, &port));
    memcpy(text + 2 + 255, ":1", 3);
    CHECK(pc__remote_slot_parse(text, &at, server, &port));
    CHECK_INT(strlen(server), 255);
    return pc_test_end();
}
