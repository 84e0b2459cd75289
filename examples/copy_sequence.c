/* Segments and sequences of the application's own model. The cache and all sequences that attach a
 * segment share it. */
#include <stdlib.h>

#include "copy_model.h"

void copy_release(void *user, void *released)
{
    segment *s = released;
    (void)user;
    if (s && !--s->owners)
        free(s);
}

pc_status copy_sequence_new(void *user, const pc_sequence_args *args, void **out)
{
    sequence *s = *out = calloc(1, sizeof *s);
    (void)user, (void)args; /* it has no adapters, and its K/V have no tenants */
    if (s)
        s->runs[s->count++].segment = &s->own;
    return s ? PC_OK : PC_ERR_NOMEM;
}

pc_status copy_attach(void *user, void *to, const pc_span *placement)
{
    sequence *s = to;
    (void)user;
    if (s->count == COPY_RUNS)
        return PC_ERR_LIMIT;
    ((segment *)placement->segment)->owners++; /* whoever brought it may let go of it first */
    s->runs[s->count++] = *placement;
    return PC_OK;
}

void copy_drop(void *user, void *dropped)
{
    sequence *s = dropped;
    while (s && --s->count)
        copy_release(user, s->runs[s->count].segment);
    free(s);
}
