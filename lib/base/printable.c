/* Replaces what must not be shown as it is; cuts between characters. */
#include "base/printable.h"

#include <promptcache/admin.h>
#include <stdio.h>
#include <string.h>

size_t pc__utf8_read(const char *text, size_t size, uint32_t *code_point, int *valid)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    uint32_t r = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int ok = n <= size && (s[0] < 0x80 || (s[0] >= 0xc2 && s[0] < 0xf5));
    for (size_t i = 1; ok && i < n; i++) {
        ok = (s[i] & 0xc0) == 0x80;
        r = r << 6 | (s[i] & 0x3f);
    }
    ok = ok && r >= least[n] && r <= 0x10ffff && (r < 0xd800 || r > 0xdfff);
    *valid = ok;
    *code_point = ok ? r : s[0];
    return ok ? n : 1;
}

/* Characters that are not shown as they are: controls, line and paragraph separators, marks of
 * direction, invisible ones that hide text in text. Blanks and joiners within words stay. */
static int is_hidden(uint32_t c)
{
    static const uint32_t ranges[][2] = {{0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},
                                         {0x61c, 0x61c},   {0x180e, 0x180e}, {0x200b, 0x200b},
                                         {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
                                         {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return 1;
    return 0;
}

/* Bytes that are not UTF-8, from `text` on: a character that is cut off counts as one. */
static size_t invalid_run(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t whole = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2, n = 1;
    while (s[0] >= 0xc2 && s[0] < 0xf5 && n < whole - 1 && n < size && (s[n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* Writes what stands for the character at `text` and moves on. */
static size_t show_character(const char *text, size_t size, char shown[16], size_t *used)
{
    uint32_t c;
    int valid;
    size_t n = pc__utf8_read(text, size, &c, &valid);
    if (!valid) {
        memcpy(shown, "\xef\xbf\xbd", 3); /* U+FFFD */
        *used = 3;
        return invalid_run(text, size);
    }
    if (c >= '\t' && c <= '\r')
        *used = (size_t)snprintf(shown, 16, " ");
    else if (is_hidden(c))
        *used = (size_t)snprintf(shown, 16, "<U+%04X>", (unsigned)c);
    else
        memcpy(shown, text, *used = n);
    return n;
}

size_t pc__printable(const char *text, size_t size, char *out, size_t room)
{
    static const char more[] = "...";
    char shown[16];
    size_t at = 0, whole = 0, used; /* whole: what stays if the text is cut */
    for (size_t i = 0; i < size;) {
        i += show_character(text + i, size - i, shown, &used);
        if (at + used >= room) {
            size_t dots = room - 1 - whole < 3 ? room - 1 - whole : 3;
            memcpy(out + whole, more, dots);
            at = whole + dots;
            break;
        }
        memcpy(out + at, shown, used);
        at += used;
        if (at + 3 < room)
            whole = at;
    }
    out[at] = 0;
    return at;
}

const char *pc__quote(const char *text, size_t size, pc__quoted *room)
{
    pc__printable(text, size, room->text, sizeof room->text);
    return room->text;
}

size_t pc_text_show(const char *text, size_t size, char *out, size_t room)
{
    return out && room ? pc__printable(text ? text : "", text ? size : 0, out, room) : 0;
}
