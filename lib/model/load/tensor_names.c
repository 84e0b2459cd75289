/* Finds tensors by role: spells names by the tables, checks shapes and types, reads rows. Refuses
 * files with tensors that no role accounts for. */
#include "model/load/tensor_names.h"

#include <stdio.h>
#include <string.h>

#include "model/load/quantised_rows.h"
#include "model/load/tensor_name_tables.h"
#include "text/utf8.h"

enum { MAX_NAME = 160 };

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
        return arch->final_norm;
    case PC__ROLE_HEAD:
        return !arch->tied;
    case PC__ROLE_NORM2:
        return arch->residual != PC__RESIDUAL_PARALLEL;
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

/* The place of a tensor; expert counts only if the name has a second number. */
typedef struct tensor_place {
    int32_t layer, expert;
    int bias;
    int old; /* 1: with old files' ending for norms */
} tensor_place;

static const char *const endings[2][2] = {{".weight", ".gamma"}, {".bias", ".beta"}};

/* Whether a model may lack the role; its bias comes with its matrix. */
static int is_optional(pc__tensor_role role)
{
    return role == PC__ROLE_POOL || role == PC__ROLE_CLASSIFIER;
}

static int is_name_mark(char c)
{
    return c == '=' || c == '!';
}

static void spell_at(const pc__tensor_names *names, const pc__tensor_name_row *row, tensor_place at,
                     char out[MAX_NAME])
{
    const char *prefix = row->name[0] == '=' ? "" : names->prefix,
               *name = row->name + is_name_mark(row->name[0]), *number;
    int32_t numbers[2] = {at.layer, at.expert};
    size_t used = (size_t)snprintf(out, MAX_NAME, "%s", prefix);
    for (int i = 0; i < 2 && (number = strstr(name, "%d")); i++, name = number + 2)
        used += (size_t)snprintf(out + used, MAX_NAME - used, "%.*s%d", (int)(number - name), name,
                                 numbers[i]);
    snprintf(out + used, MAX_NAME - used, "%s%s", name,
             row->name[0] == '!' ? "" : endings[at.bias][at.old]);
}

static void spell(const pc__tensor_names *names, const pc__tensor_name_row *row, int32_t layer,
                  int bias, char out[MAX_NAME])
{
    spell_at(names, row, (tensor_place){layer, 0, bias, 0}, out);
}

static const pc__tensor *tensor_of(const pc__tensor_names *names, const pc__tensor_name_row *row,
                                   tensor_place at)
{
    char name[MAX_NAME];
    spell_at(names, row, at, name);
    return pc__weights_find(names->weights, name);
}

/* The first row whose tensor exists (of numbered experts: of the first). *tensor NULL: none does;
 * returns the last row tried, or NULL if there is none. */
static const pc__tensor_name_row *find_row(const pc__tensor_names *names, pc__tensor_role role,
                                           int32_t layer, int bias, const pc__tensor **tensor)
{
    const pc__tensor_name_row *last = NULL;
    *tensor = NULL;
    for (const pc__tensor_name_row *row = names->rows; row->name; row++) {
        if (row->role != role || (row->name[0] == '!' && !bias))
            continue;
        last = row;
        for (int old = 0; old < 2; old++)
            if ((*tensor = tensor_of(names, row, (tensor_place){layer, 0, bias, old})))
                return row;
    }
    /* some files have a tied matrix under the head's name only */
    if (role == PC__ROLE_EMBEDDING && names->arch->tied && !bias)
        return find_row(names, PC__ROLE_HEAD, layer, bias, tensor);
    return last;
}

static pc_status missing_role(const pc__tensor_names *names, pc__tensor_role role, int32_t layer)
{
    char name[MAX_NAME], list[2 * MAX_NAME] = "";
    size_t used = 0;
    for (const pc__tensor_name_row *row = names->rows; row->name; row++) {
        if (row->role != role)
            continue;
        spell(names, row, layer, 0, name);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s'%s'", used ? " or " : "",
                                 name);
        used = used < sizeof list ? used : sizeof list - 1;
    }
    return pc__fail(PC_ERR_NOT_FOUND, "%s: no %s: tensor %s is missing", names->path,
                    pc__tensor_role_name(role), used ? list : "of this architecture");
}

/* Sets how the rows of a role lie among the `*total` rows of the file's matrix. */
static void locate_rows(const pc__arch *arch, pc__tensor_role role, pc__tensor_layout layout,
                        pc__matrix_source *source, size_t *total)
{
    size_t k = (size_t)arch->head_dim, v = arch->v_dim > 0 ? (size_t)arch->v_dim : k;
    size_t heads = (size_t)arch->heads, groups = (size_t)arch->kv_heads, q = heads / groups * k;
    source->first = 0;
    source->run = source->rows ? source->rows : 1;
    source->stride = 0;
    *total = source->rows;
    switch (layout) {
    case PC__LAYOUT_PLAIN:
        break;
    case PC__LAYOUT_STACKED:
        *total = heads * k + groups * (k + v);
        source->first = role == PC__ROLE_Q   ? 0
                        : role == PC__ROLE_K ? heads * k
                                             : heads * k + groups * k;
        break;
    case PC__LAYOUT_GROUPED:
        source->stride = q + k + v;
        *total = groups * source->stride;
        source->first = role == PC__ROLE_Q ? 0 : role == PC__ROLE_K ? q : q + k;
        source->run = role == PC__ROLE_Q ? q : role == PC__ROLE_K ? k : v;
        break;
    case PC__LAYOUT_HALVES:
        *total = 2 * source->rows;
        source->first = role == PC__ROLE_GATE ? 0 : source->rows;
        break;
    case PC__LAYOUT_NUMBERED:
        *total = source->run = source->rows / (size_t)arch->experts.count;
        break;
    }
}

static void shape_text(const pc__tensor *tensor, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (uint32_t i = 0; i < tensor->rank; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%llu", i ? ", " : "",
                                 (unsigned long long)tensor->shape[i]);
    snprintf(out + used, size - used, "]");
}

/* Refuses integer types, and block formats where single values are read. */
static pc_status check_type(const pc__tensor_names *names, const pc__tensor *tensor, int single)
{
    int is_integer = tensor->type >= PC__T_I8 && tensor->type <= PC__T_U8;
    if (is_integer || (single && pc__ttypes[tensor->type].block != 1))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: tensor '%s' has type %s, which is not supported there", names->path,
                        tensor->name, pc__ttypes[tensor->type].name);
    return PC_OK;
}

/* Whether a tensor has the shape [rows][cols]; experts may be [experts][rows / experts][cols], one
 * row [cols]. */
static int is_matrix(const pc__tensor_names *names, pc__tensor_role role, const pc__tensor *tensor,
                     size_t rows, size_t cols)
{
    uint64_t experts = (uint64_t)names->arch->experts.count;
    if (tensor->rank == 3 && role >= PC__ROLE_EXPERT_GATE && role <= PC__ROLE_EXPERT_DOWN)
        return tensor->shape[0] == experts && tensor->shape[1] == rows / experts
               && tensor->shape[2] == cols;
    if (tensor->rank == 1 && role == PC__ROLE_SHARED_SCALE)
        return rows == 1 && tensor->shape[0] == cols;
    if (tensor->rank == 3 && role == PC__ROLE_CONV)
        return tensor->shape[0] == rows && tensor->shape[1] * tensor->shape[2] == cols;
    return tensor->rank == 2 && tensor->shape[0] == rows && tensor->shape[1] == cols;
}

static pc_status check_matrix(const pc__tensor_names *names, pc__tensor_role role,
                              const pc__tensor *tensor, size_t rows, size_t cols, int single)
{
    char found[96];
    if (is_matrix(names, role, tensor, rows, cols))
        return check_type(names, tensor, single);
    shape_text(tensor, found, sizeof found);
    return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s': shape %s, expected [%zu, %zu]", names->path,
                    tensor->name, found, rows, cols);
}

/* Checks the tensors of all experts but the first, which is checked like any other. */
static pc_status check_numbered(const pc__tensor_names *names, pc__matrix_source *source,
                                size_t rows)
{
    for (int32_t e = 1; e < names->arch->experts.count; e++) {
        tensor_place at = {source->layer, e, 0, 0};
        const pc__tensor *tensor = tensor_of(names, source->row, at);
        char name[MAX_NAME];
        if (tensor) {
            source->mixed |= tensor->type != source->tensor->type;
            PC__TRY_RETURN(check_matrix(names, source->row->role, tensor, rows, source->cols, 0));
            continue;
        }
        spell_at(names, source->row, at, name);
        return pc__fail(PC_ERR_NOT_FOUND, "%s: no %s: tensor '%s' is missing", names->path,
                        pc__tensor_role_name(source->row->role), name);
    }
    return PC_OK;
}

pc_status pc__tensor_names_matrix(const pc__tensor_names *names, pc__tensor_role role,
                                  int32_t layer, size_t rows, size_t cols, pc__matrix_source *out)
{
    const pc__tensor *tensor;
    const pc__tensor_name_row *row = find_row(names, role, layer, 0, &tensor);
    size_t total;
    *out = (pc__matrix_source){.tensor = tensor, .rows = rows, .cols = cols, .layer = layer};
    if (!tensor)
        return missing_role(names, role, layer);
    locate_rows(names->arch, role, row->layout, out, &total);
    out->transposed = row->transposed;
    out->file_cols = row->transposed ? total : cols;
    pc_status status = check_matrix(names, role, tensor, row->transposed ? cols : total,
                                    out->file_cols, out->transposed);
    if (status >= 0 && rows
        && (rows - 1) / out->run * out->stride + out->first + (rows - 1) % out->run >= total)
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s' cannot be the %s of %zu rows", names->path,
                        tensor->name, pc__tensor_role_name(role), rows);
    if (status < 0 || row->layout != PC__LAYOUT_NUMBERED)
        return status;
    out->names = names;
    out->row = row;
    return check_numbered(names, out, total);
}

/* The tensor with row r of the role. */
static const pc__tensor *tensor_at(const pc__matrix_source *source, size_t r)
{
    if (!source->names)
        return source->tensor;
    return tensor_of(source->names, source->row,
                     (tensor_place){source->layer, (int32_t)(r / source->run), 0, 0});
}

/* How many of `count` rows, from `r` on, are consecutive in the file, from *at on. */
static size_t rows_together(const pc__matrix_source *source, size_t r, size_t count, size_t *at)
{
    size_t inside = r % source->run, n = source->run - inside;
    *at = source->first + r / source->run * source->stride + inside;
    return n < count ? n : count;
}

/* Reads `count` columns of the file's matrix, from `at` on, as rows. */
static void read_columns(const pc__matrix_source *source, size_t at, size_t count, float *out)
{
    enum { WIDE = 64 };
    float some[WIDE];
    for (size_t c = 0; c < count; c += WIDE) {
        size_t n = count - c < WIDE ? count - c : WIDE;
        for (size_t i = 0; i < source->cols; i++) {
            pc__tensor_floats(source->tensor, (uint64_t)i * source->file_cols + at + c, n, some);
            for (size_t j = 0; j < n; j++)
                out[(c + j) * source->cols + i] = some[j];
        }
    }
}

void pc__source_rows(void *user, size_t first, size_t count, float *out)
{
    const pc__matrix_source *source = user;
    for (size_t done = 0, n, at; done < count; done += n, out += n * source->cols) {
        n = rows_together(source, first + done, count - done, &at);
        if (source->transposed)
            read_columns(source, at, n, out);
        else
            pc__tensor_floats(tensor_at(source, first + done), (uint64_t)at * source->cols,
                              (uint64_t)n * source->cols, out);
    }
}

static void source_quantised_rows(void *user, size_t first, size_t count, uint8_t *q, float *scale,
                                  float *minimum)
{
    const pc__matrix_source *source = user;
    size_t groups = source->cols / pc__ttype_quantised(source->tensor->type).group;
    for (size_t done = 0, n, at; done < count; done += n) {
        n = rows_together(source, first + done, count - done, &at);
        pc__tensor_quantised_rows(tensor_at(source, first + done), (uint64_t)at * source->cols,
                                  (uint64_t)n * source->cols, q + done * source->cols,
                                  scale + done * groups, minimum + done * groups);
    }
}

pc_status pc__tensor_names_vector(void *user, pc__tensor_role role, int32_t layer, int bias,
                                  size_t count, float *out)
{
    const pc__tensor_names *names = user;
    const pc__tensor *tensor;
    const pc__tensor_name_row *row = find_row(names, role, layer, bias, &tensor);
    pc__matrix_source source = {.tensor = tensor, .rows = count, .cols = 1};
    size_t total;
    char found[96];
    if (!tensor)
        return 0;
    locate_rows(names->arch, role, row->layout, &source, &total);
    if (tensor->rank != 1 || tensor->shape[0] != total) {
        shape_text(tensor, found, sizeof found);
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s': shape %s, expected [%zu]", names->path,
                        tensor->name, found, total);
    }
    PC__TRY_RETURN(check_type(names, tensor, 1));
    pc__source_rows(&source, 0, count, out);
    return 1;
}

size_t pc__tensor_names_table_rows(void *user, pc__tensor_role role)
{
    const pc__tensor_names *names = user;
    const pc__tensor *tensor;
    find_row(names, role, -1, 0, &tensor);
    return tensor && tensor->rank ? (size_t)tensor->shape[0] : 0;
}

/* Whether `name` fits a row, with any layer and expert. Sets them (-1: none) and bias. */
static int row_matches(const pc__tensor_names *names, const pc__tensor_name_row *row,
                       const char *name, tensor_place *at)
{
    int32_t *number = &at->layer;
    const char *prefix = row->name[0] == '=' ? "" : names->prefix,
               *want = row->name + is_name_mark(row->name[0]);
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
    at->bias = row->name[0] == '!' || !strcmp(name, endings[1][0]) || !strcmp(name, endings[1][1]);
    if (row->name[0] == '!')
        return !*name;
    return at->bias || !strcmp(name, endings[0][0]) || !strcmp(name, endings[0][1]);
}

/* Whether a role is read from the tensor. */
static int is_used(const pc__tensor_names *names, const pc__tensor *tensor)
{
    const pc__tensor *found;
    tensor_place at;
    for (const pc__tensor_name_row *row = names->rows; row->name; row++) {
        if (!row_matches(names, row, tensor->name, &at))
            continue;
        if (row->role == PC__ROLE_HEAD && names->arch->tied && !at.bias)
            return 1; /* a copy of the embedding */
        if (at.layer >= names->arch->layers || at.expert >= names->arch->experts.count
            || !has_role(names->arch, row->role, at.layer)
            || (at.bias && row->role >= PC__ROLE_ROUTER && row->role <= PC__ROLE_SHARED_SCALE))
            continue;
        const pc__tensor_name_row *in_use = find_row(names, row->role, at.layer, at.bias, &found);
        if (found && (found == tensor || (in_use == row && row->layout == PC__LAYOUT_NUMBERED)))
            return 1;
        if (found && is_optional(row->role))
            return 1; /* of two poolers the first row counts */
    }
    return 0;
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
        int ignored = 0;
        for (size_t e = 0; e < 4 && family->ignored[e]; e++)
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
    const pc__tensor_name_row *row = find_row(names, role, layer, 1, &tensor);
    int wanted = (names->arch->bias_roles >> role & 1) != 0;
    char name[MAX_NAME];
    if (!row || wanted == (tensor != NULL))
        return PC_OK;
    if (wanted && is_optional(role)) {
        find_row(names, role, layer, 0, &tensor);
        if (!tensor)
            return PC_OK;
    }
    spell(names, row, layer, 1, name);
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
        const pc__tensor_name_row *row = find_row(names, tries[i], 0, 0, &tensor);
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
    for (size_t i = 0; i < 4 && family->prefixes[i]; i++) {
        out->prefix = family->prefixes[i];
        if (prefix_fits(out))
            break;
    }
    if (!prefix_fits(out)) {
        out->prefix = family->prefixes[0];
        return missing_role(out, PC__ROLE_EMBEDDING, -1);
    }
    if (!arch->bias_by_file && (status = check_biases(out)) < 0)
        return status;
    return check_unused(out, family);
}

static pc_status provide_matrix(void *user, pc__tensor_role role, int32_t layer, size_t rows,
                                size_t cols, pc__weight_source *out)
{
    pc__tensor_names *names = user;
    pc__matrix_source *source = &names->ring[names->next++ % 8];
    pc_status status = pc__tensor_names_matrix(names, role, layer, rows, cols, source);
    *out = (pc__weight_source){.user = source, .rows = pc__source_rows};
    if (status >= 0 && !source->transposed && !source->mixed
        && source->cols % pc__ttypes[source->tensor->type].block == 0) {
        out->format = pc__ttype_quantised(source->tensor->type);
        out->quantised_rows = source_quantised_rows;
    }
    return status;
}

void pc__tensor_names_provider(pc__tensor_names *names, pc__weight_provider *out)
{
    *out = (pc__weight_provider){names, provide_matrix, pc__tensor_names_vector,
                                 pc__tensor_names_table_rows};
}
