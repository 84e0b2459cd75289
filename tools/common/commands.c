/* From the arguments of a program to a command: families, --help, --version, --words and --manual.
 */
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <promptcache/admin.h>
#include <signal.h>
#include <string.h>

#include "help.h"
#include "program.h"

static int is_help(const char *argument)
{
    return !strcmp(argument, "--help") || !strcmp(argument, "-h");
}

static int unknown_command(const command *family, const char *name)
{
    int is_program = !strcmp(family->name, program_name);
    const char *space = is_program ? "" : " ", *of = is_program ? "" : family->name;
    fprintf(stderr, "%s%s%s: there is no command '%s'; `%s%s%s --help` lists them\n", program_name,
            space, of, name, program_name, space, of);
    return EXIT_USAGE;
}

static int run_family(const command *family, int argc, char **argv)
{
    if (argc < 2) {
        print_family_help(family, stderr);
        return EXIT_USAGE;
    }
    if (is_help(argv[1])) {
        print_family_help(family, stdout);
        return EXIT_OK;
    }
    if (!strcmp(argv[1], "--words"))
        return print_family_words(family);
    for (size_t i = 0; family->parts[i]; i++) {
        const command *c = family->parts[i];
        if (!strcmp(argv[1], last_word(c)))
            return c->parts ? run_family(c, argc - 1, argv + 1) : c->run(argc - 1, argv + 1);
    }
    return unknown_command(family, argv[1]);
}

/* The version, and a line for each plug-in module. */
static void print_version(void)
{
    pc_plugin_info info = PC_PLUGIN_INFO_INIT;
    printf("%s\n", pc_version());
    for (size_t i = 0; pc_plugin_get(i, &info) == PC_OK; i++)
        printf("%-9s%s\n", info.name,
               info.state == PC_PLUGIN_LOADED    ? info.path
               : info.state == PC_PLUGIN_INSIDE  ? "linked in"
               : info.state == PC_PLUGIN_MISSING ? info.reason
                                                 : "not built");
}

static int dispatch(const command *program, int argc, char **argv)
{
    static char flag[] = "--help";
    const char *first = argc > 1 ? argv[1] : "";
    int of_program = argc == 2 || (argc > 2 && !strcmp(argv[2], "help"));
    if (!strcmp(first, "--version")) {
        print_version();
        return EXIT_OK;
    }
    if (!strcmp(first, "--manual"))
        return print_manual(program);
    if (strcmp(first, "help") != 0)
        return run_family(program, argc, argv);
    /* help COMMAND is COMMAND --help */
    char *asked[] = {argv[0], of_program ? flag : argv[2], flag, NULL};
    return run_family(program, of_program ? 2 : 3, asked);
}

/* A standard stream that the caller has closed gets /dev/null, opened so that using it fails.
 * Otherwise its number would go to the next file: standard output could become a picture. */
static void hold_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd ? O_RDONLY : O_WRONLY);
}

int run_program(const command *program, int argc, char **argv)
{
    program_name = program->name;
    hold_streams();
    signal(SIGXFSZ, SIG_IGN); /* a file that must not grow is then an error of the write */
    return finish_output(dispatch(program, argc, argv));
}
