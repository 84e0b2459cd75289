/* Writes and reads structs by their tables (fields.h). */
#include "base/fields.h"

/* The same in both directions: a big-endian machine reverses the bytes of a number. */
static void copy_member(uint8_t *to, const uint8_t *from, size_t size)
{
    int reverse = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && (size == 4 || size == 8);
    for (size_t i = 0; i < size; i++)
        to[i] = from[reverse ? size - 1 - i : i];
}

void pc__fields_put(uint8_t *out, const void *from, const pc__field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        copy_member(out + fields[i].at, (const uint8_t *)from + fields[i].offset, fields[i].size);
}

void pc__fields_get(void *to, const uint8_t *in, const pc__field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        copy_member((uint8_t *)to + fields[i].offset, in + fields[i].at, fields[i].size);
}
