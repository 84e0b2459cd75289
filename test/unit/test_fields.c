/* Catches: members at the wrong place or with the wrong order of bytes, bytes between the fields
 * that are touched, values that a file does not give back. */
#include <string.h>

#include "base/fields.h"
#include "testing.h"

typedef struct sample {
    int32_t small;
    uint8_t bytes[3];
    double real;
    uint64_t large;
} sample;

#define SAMPLE(at, member) PC__FIELD(sample, at, member)
static const pc__field fields[] = {SAMPLE(1, large), SAMPLE(10, small), SAMPLE(14, bytes),
                                   SAMPLE(17, real)};

int main(void)
{
    static const uint8_t want[27] = {
        0xee, 8,    7,    6,    5,   4,   3,   2,    1,    0xee,
        0xfe, 0xff, 0xff, 0xff, 'a', 'b', 'c',                    /* -2, "abc" */
        0,    0,    0,    0,    0,   0,   4,   0xc0, 0xee, 0xee}; /* -2.5 */
    sample one = {-2, {'a', 'b', 'c'}, -2.5, UINT64_C(0x0102030405060708)}, got = {0};
    uint8_t file[27];
    memset(file, 0xee, sizeof file);
    pc__fields_put(file, &one, PC__FIELDS(fields));
    CHECK(!memcmp(file, want, sizeof want));
    pc__fields_get(&got, want, PC__FIELDS(fields));
    CHECK(got.small == one.small && got.real == one.real && got.large == one.large);
    CHECK(!memcmp(got.bytes, one.bytes, sizeof one.bytes));
    return pc_test_end();
}
