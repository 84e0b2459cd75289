/* Reads and checks the file that a src= attribute names. */
#include "pml/source_file.h"

#include <errno.h>
#include <string.h>

#include "base/beneath.h"
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

static pc_status check_source_text(const pc__element *element, const char *src, const char *text,
                                   size_t size)
{
    size_t bad;
    if (size == pc__utf8_mark(text, size))
        return pc__element_fault(element, "src='%.100s': the file is empty", src);
    if (pc__is_wide_text(text, size))
        return pc__element_fault(element, "src='%.100s': this is UTF-16 or UTF-32, not UTF-8", src);
    if ((bad = first_invalid(text, size)) != SIZE_MAX)
        return pc__element_fault(element, "src='%.100s': byte %zu is not UTF-8", src, bad);
    return PC_OK;
}

/* The open file is checked and read, so that nothing can take its place in between. */
static pc_status read_beneath(const pc__pml_env *env, const char *src, const char *path,
                              char **text, size_t *size)
{
    int fd = pc__open_beneath(env->base_folder, src);
    if (fd < 0 && errno == EXDEV)
        return pc__fail(PC_ERR_PML,
                        "'%.100s' lies outside the schema's folder (PC_PML_SRC_ANYWHERE allows "
                        "that)",
                        src);
    PC__TRY_RETURN(pc__file_take(fd, path, size));
    return pc__file_read_open(env->mem, fd, path, LIMIT, text, *size);
}

static pc_status read_source(const pc__pml_env *env, const char *src, char **text, size_t *size)
{
    char *path = pc__path_join(env->mem, env->base_folder, src);
    pc_status status;
    if (!path)
        return PC_ERR_NOMEM;
    status = env->flags & PC_PML_SRC_ANYWHERE ? pc__file_read(env->mem, path, LIMIT, text, size)
                                              : read_beneath(env, src, path, text, size);
    pc__free(env->mem, path);
    return status;
}

pc_status pc__source_file_read(const pc__pml_env *env, const pc__element *element, const char *src,
                               char **text, size_t *size)
{
    pc_status status;
    *text = NULL;
    if (!*src)
        return pc__element_fault(element, "src='' names no file");
    if (!env->base_folder)
        return pc__element_fault(
            element, "src='%.100s': text from memory has no folder; set base_folder", src);
    if ((status = read_source(env, src, text, size)) < 0)
        return status == PC_ERR_NOMEM
                   ? status
                   : (pc__fail_in(PC_ERR_PML, "src"),
                      pc__place_in(PC_ERR_PML, env->where, element->line, element->column));
    if ((status = check_source_text(element, src, *text, *size)) >= 0) {
        drop_mark(*text, size);
        return PC_OK;
    }
    pc__free(env->mem, *text);
    *text = NULL;
    return status;
}
