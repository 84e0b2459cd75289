/* Catches: foreign text that reaches a terminal or an error text with control characters, marks of
 * direction or bytes that are not UTF-8; a character that is cut in two; a cut that nothing tells
 * of; a write beyond the room. */
#include "base/printable.h"

#include <promptcache/admin.h>
#include <string.h>

#include "base/fail.h"
#include "testing.h"

static void show(const char *text, size_t size, const char *want)
{
    char out[256];
    memset(out, 0x55, sizeof out);
    CHECK_INT(pc_text_show(text, size, out, sizeof out), strlen(want));
    CHECK_STR(out, want);
}
#define SHOW(text, want) show(text, sizeof(text) - 1, want)

static void characters(void)
{
    SHOW("", "");
    SHOW("llama 3\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80",
         "llama 3\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80");
    SHOW("a\tb\r\nc\v\f", "a b  c  ");
    SHOW("\x1b]0;x\a\x1b[2J", "<U+001B>]0;x<U+0007><U+001B>[2J");
    SHOW("a\0b", "a<U+0000>b");
    SHOW("\x7f\xc2\x9b"
         "31m\xc2\x80",
         "<U+007F><U+009B>31m<U+0080>");
    SHOW("a\xe2\x80\xae"
         "b\xe2\x81\xa6\xd8\x9c",
         "a<U+202E>b<U+2066><U+061C>");
    SHOW("\xe2\x80\xa8\xef\xbb\xbf\xf3\xa0\x81\x81", "<U+2028><U+FEFF><U+E0041>");
    SHOW("\xff\xfe"
         "a\x80",
         "\xef\xbf\xbd\xef\xbf\xbd"
         "a\xef\xbf\xbd");
    SHOW("\xe4\xb8'", "\xef\xbf\xbd'"); /* a character that another cut has halved */
    SHOW("\xc0\x80\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    SHOW("x\xf0\x9f\x98", "x\xef\xbf\xbd");
    SHOW("\xe2\x80\x8d\xc2\xa0", "\xe2\x80\x8d\xc2\xa0"); /* a joiner, a blank */
    CHECK_INT(pc_text_show("a", 1, NULL, 5), 0);
    CHECK_INT(pc_text_show(NULL, 0, (char[4]){1}, 4), 0);
}

/* Whether all of it is UTF-8. */
static int is_valid(const char *text)
{
    uint32_t c;
    int valid = 1;
    for (size_t i = 0, size = strlen(text); i < size && valid;)
        i += pc__utf8_read(text + i, size - i, &c, &valid);
    return valid;
}

/* Texts of characters of 1 to 4 bytes in rooms of every size. */
static void cuts(void)
{
    static const char *const units[] = {"a", "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80",
                                        "\x1b"};
    for (size_t u = 0; u < 5; u++) {
        for (size_t count = 0; count < 12; count++) {
            char text[64] = "", whole[128], out[128];
            for (size_t i = 0; i < count; i++)
                strcat(text, units[u]);
            size_t full = pc_text_show(text, strlen(text), whole, sizeof whole);
            for (size_t room = 1; room < 110; room++) {
                memset(out, 0x55, sizeof out);
                size_t n = pc_text_show(text, strlen(text), out, room);
                CHECK(n < room && strlen(out) == n && out[room] == 0x55 && is_valid(out));
                if (full < room)
                    CHECK_STR(out, whole);
                else if (room > 3)
                    CHECK(!strcmp(out + n - 3, "...") && !strncmp(out, whole, n - 3));
            }
        }
    }
}

/* An error text of any length, with any prefix before it. */
static void error_texts(void)
{
    char text[1200];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'a', sizeof text);
        for (size_t i = shift; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xe4\xb8\xad", 3);
        text[sizeof text - 1] = 0;
        for (size_t size = 480; size < 560; size++) {
            pc__fail(PC_ERR_IO, "x: %.*s", (int)size, text);
            CHECK(is_valid(pc_error_text()) && strlen(pc_error_text()) < 512);
            pc__fail_in(PC_ERR_IO, "%.*s", (int)(size - 250), text);
            CHECK(is_valid(pc_error_text()) && strlen(pc_error_text()) < 512);
            text[size + 600] = 0;
            pc_error_set(text);
            CHECK(is_valid(pc_error_text()) && strlen(pc_error_text()) < 512);
            text[size + 600] = 'a';
        }
    }
    pc__fail(PC_ERR_IO, "%s: \x1b[31mred\xc2\x9b", "f\xff");
    CHECK_STR(pc_error_text(), "f\xef\xbf\xbd: <U+001B>[31mred<U+009B>");
    pc__fail_in(PC_ERR_IO, "g\xe2\x80\xae");
    CHECK_STR(pc_error_text(), "g<U+202E>: f\xef\xbf\xbd: <U+001B>[31mred<U+009B>");
    pc_error_set("a\x7f");
    CHECK_STR(pc_error_text(), "a<U+007F>");
}

int main(void)
{
    characters();
    cuts();
    error_texts();
    return pc_test_end();
}
