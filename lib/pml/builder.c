/* What builders of schemas and of prompts share. */
#include "pml/builder.h"

#include <string.h>

#include "base/options.h"
#include "text/utf8.h"

pc_status pc__builder_start(pc__builder *b, const pc_allocator *mem, const char *root,
                            const char *where)
{
    *b = (pc__builder){.mem = mem, .depth = 1};
    if (!(b->root = b->open = pc__element_add(NULL, mem, root)))
        return PC_ERR_NOMEM;
    b->root->where = where;
    b->root->origin = PC__BUILT;
    return PC_OK;
}

void pc__builder_free(pc__builder *b)
{
    pc__element_free(b->root, b->mem);
}

pc_status pc__builder_check_depth(const pc__builder *b, const char *call, size_t more)
{
    if (b->depth + more > PC__ELEMENT_DEPTH)
        return pc__fail(PC_ERR_LIMIT, "%s: elements are nested more than %d deep", call,
                        PC__ELEMENT_DEPTH);
    return PC_OK;
}

pc_status pc__builder_add(pc__builder *b, const char *call, const char *name, pc__element **out)
{
    PC__TRY_RETURN(pc__builder_check_depth(b, call, 1));
    if (!(*out = pc__element_add(b->open, b->mem, name)))
        return PC_ERR_NOMEM;
    (*out)->origin = PC__BUILT;
    (*out)->line = ++b->count;
    return PC_OK;
}

void pc__builder_open_last(pc__builder *b)
{
    b->open = b->open->children[b->open->child_count - 1];
    b->depth++;
}

void pc__builder_drop_last(pc__builder *b)
{
    pc__element_drop_last(b->open, b->mem);
    b->count--;
}

pc_status pc__builder_end(pc__builder *b, const char *call)
{
    if (b->open == b->root)
        return pc__fail(PC_ERR_STATE, "%s: nothing is open", call);
    b->open = b->open->parent;
    b->depth--;
    return PC_OK;
}

pc_status pc__builder_add_text(pc__builder *b, const char *call, const char *text, size_t size,
                               uint64_t flags)
{
    pc__element *added;
    PC__TRY_RETURN(pc__check_array(call, "text", text, size, 1));
    PC__TRY_RETURN(pc__check_flags(call, flags, PC_PROMPT_SPECIAL));
    if (!size)
        return PC_OK;
    if (!(added = pc__element_add(b->open, b->mem, NULL)))
        return PC_ERR_NOMEM;
    added->origin = PC__BUILT;
    added->line = ++b->count;
    added->special = flags != 0;
    if (pc__element_add_text(added, b->mem, text, size) >= 0)
        return PC_OK;
    pc__builder_drop_last(b);
    return PC_ERR_NOMEM;
}

/* Elements for the rest of a path, each in the one before. */
static pc__element *add_rest(pc__element *outer, const pc_allocator *mem, const char *path)
{
    while (outer && *path) {
        size_t n = strcspn(path, "/");
        char *name = pc__strndup(mem, path, n);
        pc__element *inner = name ? pc__element_add(outer, mem, name) : NULL;
        pc__free(mem, name);
        outer->origin = PC__BUILT_AROUND;
        if (inner) {
            inner->origin = PC__BUILT_USE;
            inner->line = outer->line;
        }
        outer = inner;
        path += n + (path[n] == '/');
    }
    return outer;
}

static pc_status check_path(const pc__builder *b, const char *call, const char *path)
{
    size_t names = 1, size = strlen(path);
    for (const char *p = path; *p; p++)
        names += *p == '/';
    if (!size || *path == '/' || path[size - 1] == '/' || strstr(path, "//"))
        return pc__fail(PC_ERR_INVALID, "%s: a name of the path '%.100s' is empty", call, path);
    return pc__builder_check_depth(b, call, names);
}

pc_status pc__builder_use(pc__builder *b, const char *call, const char *path, pc__element **last)
{
    pc__element *first;
    if (!path)
        return pc__fail(PC_ERR_INVALID, "%s: module is NULL", call);
    PC__TRY_RETURN(check_path(b, call, path));
    size_t n = strcspn(path, "/");
    char *name = pc__strndup(b->mem, path, n);
    pc_status status = name ? pc__builder_add(b, call, name, &first) : PC_ERR_NOMEM;
    pc__free(b->mem, name);
    if (status < 0)
        return status;
    first->origin = PC__BUILT_USE;
    pc__element *inner = add_rest(first, b->mem, path + n + (path[n] == '/'));
    if (!inner) {
        pc__builder_drop_last(b);
        return PC_ERR_NOMEM;
    }
    *last = inner;
    return PC_OK;
}

pc_status pc__builder_begin_turn(pc__builder *b, const char *call, const char *role)
{
    pc__element *turn;
    if (!role)
        return pc__fail(PC_ERR_INVALID, "%s: role is NULL", call);
    if (!pc__is_listed("system user assistant", role))
        return pc__fail(PC_ERR_INVALID,
                        "%s: the role is '%.60s'; there are system, user, assistant", call, role);
    PC__TRY_RETURN(pc__builder_add(b, call, role, &turn));
    pc__builder_open_last(b);
    return PC_OK;
}

pc_status pc__builder_check_closed(const pc__builder *b, const char *call)
{
    if (b->open == b->root)
        return PC_OK;
    return pc__fail(PC_ERR_STATE, "%s: element %zu, %.60s, is still open", call, b->open->line,
                    b->open->name);
}
