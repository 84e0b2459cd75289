/* Finds tensors by role: spells names by the tables, and looks them up. */
#include <stdio.h>
#include <string.h>

#include "model/load/tensor_names_internal.h"

const char *const pc__name_endings[2][2] = {{".weight", ".gamma"}, {".bias", ".beta"}};

int pc__role_is_optional(pc__tensor_role role)
{
    return role == PC__ROLE_POOL || role == PC__ROLE_CLASSIFIER;
}

int pc__is_name_mark(char c)
{
    return c == '=' || c == '!' || c == '#';
}

/* Whether the row has the matrix, or the bias, of its role. */
static int row_has(const pc__tensor_name_row *row, int bias)
{
    return row->name[0] != (bias ? '#' : '!');
}

int pc__is_whole_name(const pc__tensor_name_row *row)
{
    return row->name[0] == '!' || row->name[0] == '#';
}

void pc__name_spell(const pc__tensor_names *names, const pc__tensor_name_row *row,
                    pc__tensor_place at, char out[PC__MAX_NAME])
{
    const char *prefix = row->name[0] == '=' ? "" : names->prefix,
               *name = row->name + pc__is_name_mark(row->name[0]), *number;
    int32_t numbers[2] = {at.layer, at.expert};
    size_t used = (size_t)snprintf(out, PC__MAX_NAME, "%s", prefix);
    for (int i = 0; i < 2 && (number = strstr(name, "%d")); i++, name = number + 2)
        used += (size_t)snprintf(out + used, PC__MAX_NAME - used, "%.*s%d", (int)(number - name),
                                 name, numbers[i]);
    snprintf(out + used, PC__MAX_NAME - used, "%s%s", name,
             pc__is_whole_name(row) ? "" : pc__name_endings[at.bias][at.old]);
}

static void spell(const pc__tensor_names *names, const pc__tensor_name_row *row, int32_t layer,
                  int bias, char out[PC__MAX_NAME])
{
    pc__name_spell(names, row, (pc__tensor_place){layer, 0, bias, 0}, out);
}

const pc__tensor *pc__name_tensor(const pc__tensor_names *names, const pc__tensor_name_row *row,
                                  pc__tensor_place at)
{
    char name[PC__MAX_NAME];
    pc__name_spell(names, row, at, name);
    return pc__weights_find(names->weights, name);
}

static const pc__tensor_name_row *find_own(const pc__tensor_names *names, pc__tensor_role role,
                                           int32_t layer, int bias, const pc__tensor **tensor)
{
    const pc__tensor_name_row *last = NULL;
    *tensor = NULL;
    for (const pc__tensor_name_row *row = names->rows; row->name; row++) {
        if (row->role != role || !row_has(row, bias))
            continue;
        last = row;
        for (int old = 0; old < 2; old++)
            if ((*tensor = pc__name_tensor(names, row, (pc__tensor_place){layer, 0, bias, old})))
                return row;
    }
    return last;
}

const pc__tensor_name_row *pc__name_find(const pc__tensor_names *names, pc__tensor_role role,
                                         int32_t layer, int bias, const pc__tensor **tensor)
{
    const pc__tensor_name_row *row = find_own(names, role, layer, bias, tensor);
    if (*tensor || bias || !names->arch->tied)
        return row;
    /* some files have a tied matrix under one of its names only */
    if (role == PC__ROLE_EMBEDDING)
        return find_own(names, PC__ROLE_HEAD, layer, bias, tensor);
    if (role == PC__ROLE_HEAD)
        return find_own(names, PC__ROLE_EMBEDDING, layer, bias, tensor);
    return row;
}

pc_status pc__name_missing(const pc__tensor_names *names, pc__tensor_role role, int32_t layer)
{
    char name[PC__MAX_NAME], list[2 * PC__MAX_NAME] = "";
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

int32_t pc__numbered_count(const pc__arch *arch, pc__tensor_role role)
{
    return role == PC__ROLE_Q_NORM   ? arch->heads
           : role == PC__ROLE_K_NORM ? arch->kv_heads
                                     : arch->experts.count;
}

int pc__tensor_names_has(const pc__tensor_names *names, pc__tensor_role role, int32_t layer)
{
    const pc__tensor *tensor;
    pc__name_find(names, role, layer, 0, &tensor);
    return tensor != NULL;
}

int pc__tensor_names_own_head(const pc__tensor_names *names)
{
    const pc__tensor *head, *table;
    find_own(names, PC__ROLE_HEAD, -1, 0, &head);
    find_own(names, PC__ROLE_EMBEDDING, -1, 0, &table);
    if (!head || !table || !head->data || !table->data)
        return 0;
    /* other values differ from the start or to the end: a part of both is enough to tell */
    uint64_t bytes = table->bytes, part = bytes < 65536 ? bytes : 65536;
    return head->type != table->type || head->bytes != bytes
           || memcmp(head->data, table->data, part) != 0
           || memcmp(head->data + bytes - part, table->data + bytes - part, part) != 0;
}

size_t pc__tensor_names_table_rows(void *user, pc__tensor_role role)
{
    const pc__tensor_names *names = user;
    const pc__tensor *tensor;
    pc__name_find(names, role, -1, 0, &tensor);
    return tensor && tensor->rank ? (size_t)tensor->shape[0] : 0;
}
