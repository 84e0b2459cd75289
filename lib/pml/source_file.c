/* Reads and checks the file that a src= attribute names. */
#include "pml/source_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { LIMIT = 64 << 20 };

/* The first byte that begins no UTF-8 character, or is 0; SIZE_MAX: there is none. */
static size_t first_invalid(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        if (!s[i])
            return i;
        size_t n = s[i] < 0x80 ? 1 : s[i] >= 0xf0 ? 4 : s[i] >= 0xe0 ? 3 : 2;
        if (i + n > size || (s[i] >= 0x80 && s[i] < 0xc2) || s[i] > 0xf4)
            return i;
        for (size_t j = 1; j < n; j++)
            if ((s[i + j] & 0xc0) != 0x80)
                return i;
        i += n;
    }
    return SIZE_MAX;
}

static void drop_mark(char *text, size_t *size)
{
    size_t mark = pc__utf8_mark(text, *size);
    *size -= mark;
    memmove(text, text + mark, *size + 1);
}

/* The file lies in the folder or below, with all links followed. */
static int lies_inside(const char *folder, const char *path)
{
    char root[PATH_MAX], file[PATH_MAX];
    if (!realpath(folder, root) || !realpath(path, file))
        return 1; /* opening it will fail with the clearer error */
    size_t n = strlen(root);
    return !strcmp(root, "/") || (!strncmp(root, file, n) && (file[n] == '/' || !file[n]));
}

static pc_status check_source_text(const pc__xml *element, const char *src, const char *text,
                                   size_t size)
{
    size_t bad;
    if (size == pc__utf8_mark(text, size))
        return pc__xml_fault(element, "src='%.100s': the file is empty", src);
    if (pc__is_wide_text(text, size))
        return pc__xml_fault(element, "src='%.100s': this is UTF-16 or UTF-32, not UTF-8", src);
    if ((bad = first_invalid(text, size)) != SIZE_MAX)
        return pc__xml_fault(element, "src='%.100s': byte %zu is not UTF-8", src, bad);
    return PC_OK;
}

pc_status pc__source_file_read(const pc__pml_env *env, const pc__xml *element, const char *src,
                               char **text, size_t *size)
{
    char *path;
    pc_status status;
    *text = NULL;
    if (!*src)
        return pc__xml_fault(element, "src='' names no file");
    if (!env->base_folder)
        return pc__xml_fault(element,
                             "src='%.100s': text from memory has no folder; set base_folder", src);
    if (!(path = pc__path_join(env->mem, env->base_folder, src)))
        return PC_ERR_NOMEM;
    if (!(env->flags & PC_PML_SRC_ANYWHERE) && !lies_inside(env->base_folder, path))
        status = pc__xml_fault(
            element,
            "src='%.100s' lies outside the schema's folder (PC_PML_SRC_ANYWHERE allows that)", src);
    else if ((status = pc__file_read(env->mem, path, LIMIT, text, size)) < 0)
        status = status == PC_ERR_NOMEM ? status
                                        : pc__fail_in(PC_ERR_PML, "%s:%zu:%zu: src", env->where,
                                                      element->line, element->column);
    else if ((status = check_source_text(element, src, *text, *size)) >= 0)
        drop_mark(*text, size);
    if (status < 0) {
        pc__free(env->mem, *text);
        *text = NULL;
    }
    pc__free(env->mem, path);
    return status;
}
