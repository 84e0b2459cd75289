/* Commands that are families: `bench ttft`, `memo build`. */
#include <string.h>

#include "program.h"

static int help(const command_family *f)
{
    printf("usage: promptcache %s\n\n", f->about->usage);
    for (size_t i = 0; i < f->count; i++)
        printf("  %-*s %s\n", f->width, f->parts[i].name, f->parts[i].summary);
    printf("\n`promptcache %s NAME --help` tells more%s.\n", f->about->name, f->end);
    return EXIT_OK;
}

int run_part(const command_family *f, int argc, char **argv)
{
    const char *name = f->about->name;
    if (argc < 2)
        return usage_error(f->about, "which %s? `promptcache %s --help` lists them", f->kind, name);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return help(f);
    for (size_t i = 0; i < f->count; i++)
        if (!strcmp(argv[1], f->parts[i].name))
            return f->parts[i].run(argc - 1, argv + 1);
    return usage_error(f->about, "there is no %s '%s'; `promptcache %s --help` lists them", f->kind,
                       argv[1], name);
}
