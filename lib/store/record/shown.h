/* The ids that a record shows: in its face, in its name, in the index of a folder, in the envelope
 * on a server. All of these lie in the clear, for tiers and for everybody who can read there.
 *
 * A record without a seal shows the ids as they are. Whoever can guess a tenant's salt or a prompt
 * can compute them and see whether the guess is right. A sealed record shows digests of them, keyed
 * by subkeys of the seal key: nobody without that key can compute one. Equal ids show as equal
 * under one seal key, which the tiers need: to find records, parents, contents and tenants. */
#ifndef PC_STORE_SHOWN_H
#define PC_STORE_SHOWN_H

#include "store/image.h"

struct pc__record_options;

typedef struct pc__shown {
    pc__id key, salt, content, parent; /* zeros: there is none */
} pc__shown;

/* Of a record that is written with these options. */
void pc__shown_of(pc__shown *out, const pc__image *image, const struct pc__record_options *options);
/* The key also hides the class of kernels that the options ask for: with another class, or none,
 * it shows as another one. */
pc__id pc__shown_key(const pc__id *key, const struct pc__record_options *options);
pc__id pc__shown_salt(const pc__id *salt, const struct pc__record_options *options);
pc__id pc__shown_content(const pc__id *content, const struct pc__record_options *options);

#endif
