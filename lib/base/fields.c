/* Writes and reads structs by their tables (fields.h). */
#include "base/fields.h"

#include <string.h>

#include "base/little_endian.h"

void pc__fields_put(uint8_t *out, const void *from, const pc__field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *member = (const uint8_t *)from + fields[i].offset;
        uint32_t small;
        uint64_t large;
        if (fields[i].size == sizeof small) {
            memcpy(&small, member, sizeof small);
            pc__put_u32(out + fields[i].at, small);
        } else if (fields[i].size == sizeof large) {
            memcpy(&large, member, sizeof large);
            pc__put_u64(out + fields[i].at, large);
        } else {
            memcpy(out + fields[i].at, member, fields[i].size);
        }
    }
}

void pc__fields_get(void *to, const uint8_t *in, const pc__field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *member = (uint8_t *)to + fields[i].offset;
        uint32_t small = fields[i].size == sizeof small ? pc__get_u32(in + fields[i].at) : 0;
        uint64_t large = fields[i].size == sizeof large ? pc__get_u64(in + fields[i].at) : 0;
        const void *value = fields[i].size == sizeof small   ? (const void *)&small
                            : fields[i].size == sizeof large ? (const void *)&large
                                                             : in + fields[i].at;
        memcpy(member, value, fields[i].size);
    }
}
