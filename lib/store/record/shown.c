/* Shows ids as they are, or keyed (shown.h). */
#include "store/record/shown.h"

#include <string.h>

#include "store/record/record.h"
#include "store/record/seal.h"

pc__id pc__shown_key(const pc__id *key, const pc__record_options *options)
{
    struct {
        pc__id key;
        char kernels[PC__RECORD_CLASS];
    } of = {.key = *key};
    if (!options->seal_key)
        return *key;
    if (options->kernels)
        strncpy(of.kernels, options->kernels, sizeof of.kernels - 1);
    return pc__seal_digest(options->seal_key, PC__SEAL_NAMES, &of, sizeof of);
}

static pc__id show(const pc__id *id, uint32_t purpose, const pc__record_options *options)
{
    return options->seal_key ? pc__seal_digest(options->seal_key, purpose, id, sizeof *id) : *id;
}

pc__id pc__shown_salt(const pc__id *salt, const pc__record_options *options)
{
    return show(salt, PC__SEAL_SALTS, options);
}

pc__id pc__shown_content(const pc__id *content, const pc__record_options *options)
{
    return show(content, PC__SEAL_CONTENTS, options);
}

void pc__shown_of(pc__shown *out, const pc__image *image, const pc__record_options *options)
{
    memset(out, 0, sizeof *out);
    out->key = pc__shown_key(&image->key, options);
    out->salt = pc__shown_salt(&image->salt, options);
    if (image->has_content)
        out->content = pc__shown_content(&image->content, options);
    if (image->has_parent)
        out->parent = pc__shown_key(&image->parent, options);
}
