/* Where a record lies in a folder or on a server: under its key, and under what its readers must
 * have in common.
 *
 * Caches with different seal keys cannot read each other's records. Under one name each would take
 * away what the other has written, for ever; so the name of a sealed record has the id of its key
 * in it, and all of them live side by side. So do the states of caches that take only what their
 * own kernels have computed (PC_CACHE_OWN_KERNELS): theirs have the kernels in their names, and
 * have seen nothing that others have computed. What lies under a name of ours all the same, and
 * cannot be opened by us, is nobody's: a writer replaces it. */
#ifndef PC_STORE_RECORD_NAME_H
#define PC_STORE_RECORD_NAME_H

#include "base/digest.h"
#include "store/record/record.h"

enum { PC__VARIANT = 64 }; /* with a NUL */

typedef struct pc__record_name {
    pc__id key;
    char variant[PC__VARIANT]; /* as in names (doc/format.md, "The folder"); "": a record that is
                                  not sealed, of any kernels */
} pc__record_name;

/* Of the records that are written and read with these options. */
void pc__variant_of(const pc__record_options *options, char variant[PC__VARIANT]);
pc__record_name pc__record_name_of(const pc__id *key, const char *variant); /* [PC__VARIANT] */
/* 1: [size] characters may be the variant of a name, and are in `variant` now. Whose they are is
 * not asked. */
int pc__variant_read(const char *text, size_t size, char variant[PC__VARIANT]);
/* 1: it is the key's record, and sealed with the key that the variant names, or with none. */
int pc__record_name_matches(const pc__record_name *record_name, const pc__record *record);
pc__id pc__record_name_id(
    const pc__record_name *record_name); /* one number for both, to look it up by */
int pc__record_name_equal(const pc__record_name *a, const pc__record_name *b);

#endif
