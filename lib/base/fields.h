/* The layout of a struct in a file as a table, which both directions use. Integers and doubles are
 * little-endian; members of another size than 4 or 8 are arrays of bytes. */
#ifndef PC_BASE_FIELDS_H
#define PC_BASE_FIELDS_H

#include <stddef.h>
#include <stdint.h>

typedef struct pc__field {
    uint16_t at; /* in the file */
    uint16_t offset, size;
} pc__field;
#define PC__FIELD(type, at, member)                             \
    {                                                           \
        at, offsetof(type, member), sizeof(((type *)0)->member) \
    }

void pc__fields_put(uint8_t *out, const void *from, const pc__field *fields, size_t count);
void pc__fields_get(void *to, const uint8_t *in, const pc__field *fields, size_t count);
#define PC__FIELDS(table) (table), sizeof(table) / sizeof *(table)

#endif
