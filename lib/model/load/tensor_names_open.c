/* Chooses the table of names for a file. Refuses files with tensors that no role accounts for, or
 * whose biases are not those of the configuration. */
#include <stdlib.h>
#include <string.h>

#include "model/load/tensor_names_internal.h"
#include "text/utf8.h"

/* Whether this architecture has the role in a layer (-1: outside the layers). */
static int has_role(const pc__arch *arch, pc__tensor_role role, int32_t layer)
{
    int experts = layer >= 0 && pc__has_experts(arch, layer);
    switch (role) {
    case PC__ROLE_POSITIONS:
        return arch->position_scheme == PC_POSITION_LEARNED;
    case PC__ROLE_PROJECT_IN:
    case PC__ROLE_PROJECT_OUT:
        return arch->embedding_dim > 0 && arch->embedding_dim != arch->hidden;
    case PC__ROLE_EMBEDDING_NORM:
        return arch->embedding_norm;
    case PC__ROLE_FINAL_NORM:
        return arch->final_norm && !arch->plain_norms;
    case PC__ROLE_HEAD: /* a tied one may have a bias */
        return !arch->tied || pc__head_has_bias(arch);
    case PC__ROLE_NORM1:
        return !arch->no_input_norms && !arch->plain_norms;
    case PC__ROLE_NORM2:
        return arch->residual != PC__RESIDUAL_PARALLEL && !arch->no_input_norms
               && !arch->plain_norms;
    case PC__ROLE_OUTPUT_NORM1:
    case PC__ROLE_OUTPUT_NORM2:
        return arch->output_norms;
    case PC__ROLE_Q_A:
        return arch->latent.q_rank != 0;
    case PC__ROLE_KV_A:
    case PC__ROLE_KV_B:
    case PC__ROLE_K_B:
    case PC__ROLE_V_B:
        return arch->latent.rank != 0;
    case PC__ROLE_K:
    case PC__ROLE_V:
        return !arch->latent.rank;
    case PC__ROLE_Q_NORM:
    case PC__ROLE_K_NORM:
        if (arch->latent.rank)
            return role == PC__ROLE_K_NORM || arch->latent.q_rank;
        return arch->qk_norm != PC__QK_NONE && arch->qk_norm != PC__QK_PLAIN;
    case PC__ROLE_SINKS:
        return arch->sinks;
    case PC__ROLE_GATE:
        return arch->gated && pc__mlp_width(arch, layer);
    case PC__ROLE_UP:
    case PC__ROLE_DOWN:
        return pc__mlp_width(arch, layer) != 0;
    case PC__ROLE_EXPERT_GATE:
        return experts && arch->gated;
    case PC__ROLE_ROUTER:
    case PC__ROLE_EXPERT_UP:
    case PC__ROLE_EXPERT_DOWN:
        return experts;
    case PC__ROLE_SELECTION_BIAS:
        return experts && arch->experts.selection_bias;
    case PC__ROLE_SHARED_SCALE:
        return experts && arch->experts.shared_gated;
    case PC__ROLE_TYPES:
        return arch->encoder.types > 0;
    case PC__ROLE_RELATIVE:
        return arch->encoder.relative > 0;
    case PC__ROLE_RELATIVE_NORM:
        return arch->encoder.relative_norm;
    case PC__ROLE_POSITION_K:
        return arch->encoder.relative && !arch->encoder.shared && arch->encoder.c2p;
    case PC__ROLE_POSITION_Q:
        return arch->encoder.relative && !arch->encoder.shared && arch->encoder.p2c;
    case PC__ROLE_CONV:
    case PC__ROLE_CONV_NORM:
        return arch->encoder.conv > 0;
    case PC__ROLE_POOL:
    case PC__ROLE_CLASSIFIER:
        return !arch->causal;
    default:
        return 1;
    }
}

/* Whether `name` fits a row, with any layer and expert. Sets them (-1: none) and bias. */
static int row_matches(const pc__tensor_names *names, const pc__tensor_name_row *row,
                       const char *name, pc__tensor_place *at)
{
    int32_t *number = &at->layer;
    const char *prefix = row->name[0] == '=' ? "" : names->prefix,
               *want = row->name + pc__is_name_mark(row->name[0]);
    at->layer = at->expert = -1;
    if (strncmp(name, prefix, strlen(prefix)))
        return 0;
    name += strlen(prefix);
    for (; *want; want++) {
        if (want[0] == '%' && want[1] == 'd') {
            size_t digits = strspn(name, "0123456789");
            if (!digits || digits > 6)
                return 0;
            for (*number = 0; digits; digits--)
                *number = *number * 10 + (*name++ - '0');
            number = &at->expert;
            want++;
        } else if (*name++ != *want) {
            return 0;
        }
    }
    at->bias = row->name[0] == '!'
               || (!pc__is_whole_name(row)
                   && (!strcmp(name, pc__name_endings[1][0])
                       || !strcmp(name, pc__name_endings[1][1])));
    if (pc__is_whole_name(row))
        return !*name;
    return at->bias || !strcmp(name, pc__name_endings[0][0])
           || !strcmp(name, pc__name_endings[0][1]);
}

/* Whether a role is read from the tensor. */
static int is_used(const pc__tensor_names *names, const pc__tensor *tensor)
{
    const pc__tensor *found;
    pc__tensor_place at;
    for (const pc__tensor_name_row *row = names->rows; row->name; row++) {
        if (!row_matches(names, row, tensor->name, &at))
            continue;
        if (row->role == PC__ROLE_HEAD && names->arch->tied && !at.bias)
            return 1; /* a copy of the embedding */
        if (at.layer >= names->arch->layers
            || at.expert >= pc__numbered_count(names->arch, row->role)
            || !has_role(names->arch, row->role, at.layer)
            || (at.bias && !names->arch->experts.biased && row->role >= PC__ROLE_ROUTER
                && row->role <= PC__ROLE_SHARED_SCALE && row->role != PC__ROLE_SELECTION_BIAS))
            continue;
        const pc__tensor_name_row *in_use = pc__name_find(names, row->role, at.layer, at.bias,
                                                          &found);
        if (found && (found == tensor || (in_use == row && row->layout == PC__LAYOUT_NUMBERED)))
            return 1;
        if (found && pc__role_is_optional(row->role))
            return 1; /* of two poolers the first row counts */
    }
    return 0;
}

/* Whether a tensor is one of the layers behind the last one that is read: the first number of its
 * name is the layer. */
static int is_after(const pc__arch *arch, const char *name)
{
    size_t at = strcspn(name, "0123456789"), digits = strspn(name + at, "0123456789");
    long layer = digits && digits < 7 ? strtol(name + at, NULL, 10) : -1;
    return layer >= arch->layers && layer - arch->layers < arch->layers_after;
}

static int is_ignored(const char *name, const char *rule)
{
    return *rule == '^' ? !strncmp(name, rule + 1, strlen(rule + 1))
                        : pc__text_ends(pc__text_of(name), pc__text_of(rule));
}

static pc_status check_unused(const pc__tensor_names *names, const pc__tensor_name_family *family)
{
    for (size_t i = 0; i < pc__weights_count(names->weights); i++) {
        const pc__tensor *tensor = pc__weights_at(names->weights, i);
        int ignored = is_after(names->arch, tensor->name);
        for (size_t e = 0; e < 8 && family->ignored[e]; e++)
            ignored |= is_ignored(tensor->name, family->ignored[e]);
        if (!ignored && !is_used(names, tensor))
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "%s: tensor '%s' does not belong to a %s model with this configuration",
                            names->path, tensor->name, names->arch->name);
    }
    return PC_OK;
}

static pc_status check_bias(const pc__tensor_names *names, pc__tensor_role role, int32_t layer)
{
    const pc__tensor *tensor;
    const pc__tensor_name_row *row = pc__name_find(names, role, layer, 1, &tensor);
    int wanted = (names->arch->bias_roles >> role & 1) != 0;
    char name[PC__MAX_NAME];
    if (!row || wanted == (tensor != NULL))
        return PC_OK;
    if (wanted && pc__role_is_optional(role)) {
        pc__name_find(names, role, layer, 0, &tensor);
        if (!tensor)
            return PC_OK;
    }
    pc__name_spell(names, row, (pc__tensor_place){layer, 0, 1, 0}, name);
    if (wanted)
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s' is missing; the configuration needs it",
                        names->path, name);
    return pc__fail(PC_ERR_UNSUPPORTED,
                    "%s: tensor '%s' exists, but the configuration has no such bias", names->path,
                    tensor->name);
}

static pc_status check_biases(const pc__tensor_names *names)
{
    for (int p = 0; p < PC__ROLES; p++) {
        pc__tensor_role role = (pc__tensor_role)p;
        int32_t layers = PC__ROLE_IN_LAYER(p) ? names->arch->layers : 1;
        for (int32_t layer = 0; layer < layers; layer++)
            if (has_role(names->arch, role, layer))
                PC__TRY_RETURN(check_bias(names, role, layer));
    }
    return PC_OK;
}

/* Whether the prefix finds the first layer or the embedding. */
static int prefix_fits(const pc__tensor_names *names)
{
    static const pc__tensor_role tries[] = {PC__ROLE_EMBEDDING, PC__ROLE_FINAL_NORM,
                                            PC__ROLE_NORM1};
    const pc__tensor *tensor;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        const pc__tensor_name_row *row = pc__name_find(names, tries[i], 0, 0, &tensor);
        if (tensor && row->name[0] != '=')
            return 1;
    }
    return 0;
}

pc_status pc__tensor_names_open(pc__tensor_names *out, const pc__weights *weights,
                                const pc__arch *arch, pc__tensor_naming naming)
{
    const pc__tensor_name_family *family = pc__tensor_name_family_of(arch->name, naming);
    pc_status status;
    *out = (pc__tensor_names){.weights = weights, .path = pc__weights_path(weights), .arch = arch};
    if (!family)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: architecture '%s' is not supported in this kind of file", out->path,
                        arch->name);
    out->rows = family->rows;
    for (size_t i = 0; i < 6 && family->prefixes[i]; i++) {
        out->prefix = family->prefixes[i];
        if (prefix_fits(out))
            break;
    }
    if (!prefix_fits(out)) {
        out->prefix = family->prefixes[0];
        return pc__name_missing(out, PC__ROLE_EMBEDDING, -1);
    }
    if (!arch->bias_by_file && (status = check_biases(out)) < 0)
        return status;
    return check_unused(out, family);
}
