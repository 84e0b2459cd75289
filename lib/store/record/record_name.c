/* Names of records (record_name.h). */
#include "store/record/record_name.h"

#include <stdio.h>
#include <string.h>

#include "store/record/seal.h"

enum { SEAL_DIGITS = 2 * PC__SEAL_KEY_ID };

static void seal_digits(const uint8_t id[PC__SEAL_KEY_ID], char out[SEAL_DIGITS + 1])
{
    for (size_t i = 0; i < PC__SEAL_KEY_ID; i++)
        snprintf(out + 2 * i, 3, "%02x", id[i]);
}

pc__record_name pc__record_name_of(const pc__id *key, const pc__record_options *options)
{
    pc__record_name record_name = {.key = pc__shown_key(key, options)};
    uint8_t id[PC__SEAL_KEY_ID];
    if (options->seal_key) {
        pc__seal_key_id(options->seal_key, id);
        seal_digits(id, record_name.variant);
    } else if (options->kernels) {
        snprintf(record_name.variant, PC__VARIANT, "%s", options->kernels);
    }
    return record_name;
}

int pc__variant_read(const char *text, size_t size, char variant[PC__VARIANT])
{
    if (!size || size >= PC__VARIANT
        || strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz+-.") < size)
        return 0;
    memset(variant, 0, PC__VARIANT);
    memcpy(variant, text, size);
    return 1;
}

/* 32 digits, perhaps with more behind a point, are for sealed records alone. */
static int has_seal(const char *variant)
{
    return strspn(variant, "0123456789abcdef") == SEAL_DIGITS
           && (!variant[SEAL_DIGITS] || variant[SEAL_DIGITS] == '.');
}

int pc__record_name_matches(const pc__record_name *record_name, const pc__record *record)
{
    char digits[SEAL_DIGITS + 1];
    const uint8_t *id = pc__record_seal_id(record);
    if (!pc__id_equal(&pc__record_shown(record)->key, &record_name->key))
        return 0;
    if (!id)
        return !has_seal(record_name->variant);
    seal_digits(id, digits);
    return !strcmp(digits, record_name->variant);
}

pc__id pc__record_name_id(const pc__record_name *record_name)
{
    pc__digest d;
    if (!record_name->variant[0])
        return record_name->key;
    pc__digest_start(&d, "record-name/1");
    pc__digest_bytes(&d, record_name->key.bytes, sizeof record_name->key.bytes);
    pc__digest_text(&d, record_name->variant);
    return pc__digest_end(&d);
}
