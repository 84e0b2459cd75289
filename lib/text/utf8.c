#include "text/tokenizer_body.h"

size_t pc__rune(const char *text, size_t size, uint32_t *rune, int *valid)
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
    *rune = ok ? r : s[0];
    return ok ? n : 1;
}

size_t pc__rune_write(uint32_t rune, char out[4])
{
    if (rune < 0x80) {
        out[0] = (char)rune;
        return 1;
    }
    if (rune < 0x800) {
        out[0] = (char)(0xc0 | rune >> 6);
        out[1] = (char)(0x80 | (rune & 0x3f));
        return 2;
    }
    if (rune < 0x10000) {
        out[0] = (char)(0xe0 | rune >> 12);
        out[1] = (char)(0x80 | (rune >> 6 & 0x3f));
        out[2] = (char)(0x80 | (rune & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | rune >> 18);
    out[1] = (char)(0x80 | (rune >> 12 & 0x3f));
    out[2] = (char)(0x80 | (rune >> 6 & 0x3f));
    out[3] = (char)(0x80 | (rune & 0x3f));
    return 4;
}

/* Printable bytes stand for themselves, the others for 256, 257 … in their order (GPT-2). */
static int printable(unsigned b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
}

int32_t pc__rune_to_byte(uint32_t rune)
{
    uint32_t next = 256;
    if (rune < 256)
        return printable(rune) ? (int32_t)rune : -1;
    for (unsigned b = 0; b < 256; b++)
        if (!printable(b) && next++ == rune)
            return (int32_t)b;
    return -1;
}
