/* The name of a record in a folder or on a server: the key that it shows (shown.h), and a variant
 * for what its readers must have in common.
 *
 * Caches with different seal keys cannot read each other's records. Under one name each would
 * replace the other's records for ever. So the variant of a sealed record holds the id of its seal
 * key, and the records lie side by side. The same holds for caches that use only states of their
 * own kernels (PC_CACHE_OWN_KERNELS): their variant names the kernels; a sealed record's shown key
 * hides them instead. A record under a name of ours that we cannot open is useless: a writer
 * replaces it. */
#ifndef PC_STORE_RECORD_NAME_H
#define PC_STORE_RECORD_NAME_H

#include "base/digest.h"
#include "store/record/record.h"

enum { PC__VARIANT = 64 }; /* with a NUL */

typedef struct pc__record_name {
    pc__id key; /* as shown */
    /* As in names (doc/format.md, "The folder"); "": not sealed, any kernels. */
    char variant[PC__VARIANT];
} pc__record_name;

/* Of the record of this key that is written and read with these options. */
pc__record_name pc__record_name_of(const pc__id *key, const pc__record_options *options);
/* 1: these [size] characters can be a variant; it is in `variant` now. */
int pc__variant_read(const char *text, size_t size, char variant[PC__VARIANT]);
/* 1: the record shows this key, and has the seal that the variant names, or none. */
int pc__record_name_matches(const pc__record_name *record_name, const pc__record *record);
/* A digest of both, for look-ups. */
pc__id pc__record_name_id(const pc__record_name *record_name);

#endif
