/* The costs of the two forms of latent attention, in products (latent_cost.h). */
#include "model/forward/latent_cost.h"

/* From a latent to the plain part of a key and to a value, or the other way round. */
static uint64_t projections(const pc__arch *arch)
{
    return (uint64_t)arch->latent.rank * (uint64_t)(arch->latent.plain + arch->v_dim);
}

uint64_t pc__latent_absorbed_cost(const pc__arch *arch, const pc__latent_rows *what)
{
    uint64_t pair = (uint64_t)(2 * arch->latent.rank + arch->latent.rotated);
    return what->pairs * pair + what->rows * projections(arch);
}

uint64_t pc__latent_expanded_cost(const pc__arch *arch, const pc__latent_rows *what)
{
    uint64_t pair = (uint64_t)(arch->latent.plain + arch->latent.rotated + arch->v_dim);
    return what->pairs * pair + what->keys * what->expansions * projections(arch);
}
