/* UTF-8 by hand: no locale, no allocation. */
#include "text/utf8.h"

#include <string.h>

pc__text pc__text_of(const char *text)
{
    return (pc__text){text, strlen(text)};
}

int pc__text_begins(pc__text text, pc__text with)
{
    return text.size >= with.size && (!with.size || !memcmp(text.data, with.data, with.size));
}

int pc__text_ends(pc__text text, pc__text with)
{
    return text.size >= with.size
           && (!with.size || !memcmp(text.data + text.size - with.size, with.data, with.size));
}

pc__text pc__text_strip(pc__text text)
{
    while (text.size && pc__is_blank(text.data[text.size - 1]))
        text.size--;
    while (text.size && pc__is_blank(*text.data)) {
        text.data++;
        text.size--;
    }
    return text;
}

int pc__text_equals(pc__text a, pc__text b)
{
    return a.size == b.size && pc__text_begins(a, b);
}

int pc__is_listed(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = names; n && !strchr(name, ' ') && (p = strstr(p, name)); p += n)
        if ((p == names || p[-1] == ' ') && (!p[n] || p[n] == ' '))
            return 1;
    return 0;
}

int pc__utf8_next(const char *text, size_t size, pc__character *c)
{
    c->at += c->size;
    if (c->at >= size)
        return 0;
    c->size = pc__utf8_read(text + c->at, size - c->at, &c->code_point, &c->valid);
    return 1;
}

size_t pc__utf8_write(uint32_t code_point, char out[4])
{
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (char)(0xc0 | code_point >> 6);
        out[1] = (char)(0x80 | (code_point & 0x3f));
        return 2;
    }
    if (code_point < 0x10000) {
        out[0] = (char)(0xe0 | code_point >> 12);
        out[1] = (char)(0x80 | (code_point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code_point & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code_point >> 18);
    out[1] = (char)(0x80 | (code_point >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code_point >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code_point & 0x3f));
    return 4;
}

/* Printable bytes stand for themselves; the others are 256, 257, ... in their order. */
static int printable(unsigned b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
}

int32_t pc__code_point_byte(uint32_t code_point)
{
    uint32_t next = 256;
    if (code_point < 256)
        return printable(code_point) ? (int32_t)code_point : -1;
    for (unsigned b = 0; b < 256; b++)
        if (!printable(b) && next++ == code_point)
            return (int32_t)b;
    return -1;
}

int pc__code_point_is_blank(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680
           || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f
           || c == 0x205f || c == 0x3000;
}
