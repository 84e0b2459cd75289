/* Checks the headers of a shared object (ELF) against the size of its file. The dynamic linker
 * opens anything, also a pipe, and maps what the headers say: what lies behind the end of the file
 * ends the process with SIGBUS, later or at once. */
#include "base/shared_object.h"

#include <link.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { OWN_ORDER = ELFDATA2LSB };
#else
enum { OWN_ORDER = ELFDATA2MSB };
#endif
enum { OWN_CLASS = sizeof(ElfW(Addr)) == 8 ? ELFCLASS64 : ELFCLASS32 };

typedef struct object {
    const char *path;
    int fd;
    uint64_t size;
    ElfW(Ehdr) header;
} object;

static pc_status fault(const object *o, const char *what)
{
    return pc__fail(PC_ERR_FORMAT, "%s: %s", o->path, what);
}

static int lies_inside(const object *o, uint64_t at, uint64_t size)
{
    return at <= o->size && size <= o->size - at;
}

static int read_part(const object *o, uint64_t at, void *part, size_t size)
{
    return lies_inside(o, at, size) && pc__read_at(o->fd, part, size, at) == (int64_t)size;
}

static pc_status check_header(object *o)
{
    const unsigned char *id = o->header.e_ident;
    if (!read_part(o, 0, &o->header, sizeof o->header) || memcmp(id, ELFMAG, SELFMAG) != 0)
        return fault(o, "not a shared object (it has no ELF header)");
    if (id[EI_CLASS] != OWN_CLASS || id[EI_DATA] != OWN_ORDER)
        return fault(o, "a shared object of another kind of machine");
    if (o->header.e_type != ET_DYN)
        return fault(o, "an ELF file, but not a shared object");
    return PC_OK;
}

/* What is mapped. */
static pc_status check_segments(const object *o)
{
    const ElfW(Ehdr) *h = &o->header;
    size_t loaded = 0;
    if (h->e_phentsize != sizeof(ElfW(Phdr)))
        return fault(o, "its program headers have a wrong size");
    for (size_t i = 0; i < h->e_phnum; i++) {
        ElfW(Phdr) segment;
        if (!read_part(o, h->e_phoff + i * sizeof segment, &segment, sizeof segment))
            return fault(o, "truncated: its program headers lie behind its end");
        if (!lies_inside(o, segment.p_offset, segment.p_filesz))
            return fault(o, "truncated: a segment ends behind its end");
        if (segment.p_type == PT_LOAD && segment.p_filesz > segment.p_memsz)
            return fault(o, "a segment is larger in the file than in memory");
        loaded += segment.p_type == PT_LOAD;
    }
    return loaded ? PC_OK : fault(o, "it has nothing to load");
}

/* What lies behind the segments: shows a copy that ended early. A file may have no sections. */
static pc_status check_sections(const object *o)
{
    const ElfW(Ehdr) *h = &o->header;
    if (h->e_shoff && (!h->e_shnum || h->e_shentsize != sizeof(ElfW(Shdr))))
        return fault(o, "its section headers have a wrong size");
    for (size_t i = 0; h->e_shoff && i < h->e_shnum; i++) {
        ElfW(Shdr) section;
        if (!read_part(o, h->e_shoff + i * sizeof section, &section, sizeof section))
            return fault(o, "truncated: its section headers lie behind its end");
        if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL
            && !lies_inside(o, section.sh_offset, section.sh_size))
            return fault(o, "truncated: a section ends behind its end");
    }
    return PC_OK;
}

pc_status pc__shared_object_check(const char *path)
{
    object o = {.path = path};
    size_t size;
    pc_status status;
    PC__TRY_RETURN(pc__file_open(path, &o.fd, &size));
    o.size = size;
    PC__TRY(check_header(&o), done);
    PC__TRY(check_segments(&o), done);
    status = check_sections(&o);
done:
    close(o.fd);
    return status;
}
