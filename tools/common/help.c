/* Help as text, as a man page and as words. A man page asks each command for its --help while
 * `in_manual` is set: only the command itself knows its table of options. */
#include "help.h"

#include <promptcache.h>
#include <string.h>

#include "program.h"

enum { WIDTH = 100, INDENT = 25 };
static int in_manual;

static const char exit_codes[] = "0 done, 1 a check failed, 2 wrong usage, 3 bad input or output,"
                                 " 130 interrupted";

const char *last_word(const command *c)
{
    const char *space = strrchr(c->name, ' ');
    return space ? space + 1 : c->name;
}

/* What stands for the value of an option; "" for none. */
static const char *value_word(const option_row *row)
{
    static const char *const words[] = {"",     "TEXT", "FILE", "DIR",  "PATH", "FILE",
                                        "PATH", "N",    "X",    "NAME", ""};
    return words[row->kind];
}

/* "promptcache memo", "promptcache" for a program itself. */
static const char *full_name(const command *c)
{
    static char name[64];
    if (!strcmp(c->name, program_name))
        return c->name;
    snprintf(name, sizeof name, "%s %s", program_name, c->name);
    return name;
}

/* -------------------------------------------------------------------- roff */

/* Text of a line: backslashes, dashes and a control character at its start are escaped. */
static void put_roff(const char *text, size_t size)
{
    if (size && (*text == '.' || *text == '\''))
        fputs("\\&", stdout);
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\\')
            fputs("\\e", stdout);
        else if (text[i] == '-')
            fputs("\\-", stdout);
        else
            putchar(text[i]);
}

/* Lines as they are; those that begin with a blank keep their columns. */
static void put_paragraph(const char *text)
{
    int is_table = 0;
    for (const char *at = text; *at;) {
        size_t size = strcspn(at, "\n");
        if ((*at == ' ') != is_table) {
            puts(is_table ? ".fi" : ".nf");
            is_table = !is_table;
        }
        if (size)
            put_roff(at, size);
        else
            fputs(".PP", stdout);
        putchar('\n');
        at += size + (at[size] == '\n');
    }
    if (is_table)
        puts(".fi");
}

static void put_option(const option_row *row)
{
    const char *value = value_word(row);
    printf(".TP\n\\fB\\-\\-");
    put_roff(row->name, strlen(row->name));
    printf("\\fR%s%s%s\n", *value ? " \\fI" : "", value, *value ? "\\fR" : "");
    put_roff(row->help, strlen(row->help));
    if (row->choices) {
        fputs(": ", stdout);
        put_roff(row->choices, strlen(row->choices));
    }
    putchar('\n');
}

static void put_title(const command *c)
{
    fputs(".SS \"", stdout);
    put_roff(program_name, strlen(program_name));
    putchar(' ');
    put_roff(c->usage, strlen(c->usage));
    puts("\"");
    put_paragraph(c->details ? c->details : c->summary);
}

static void put_command(const command *c)
{
    char name[64], flag[] = "--help", *argv[] = {name, flag, NULL};
    snprintf(name, sizeof name, "%s", last_word(c));
    if (c->is_external)
        put_title(c);
    else if (c->parts)
        for (size_t i = 0; c->parts[i]; i++)
            put_command(c->parts[i]);
    else
        c->run(2, argv);
}

int print_manual(const command *p)
{
    printf(".TH \"%s\" 1 \"\" \"promptcache %s\"\n.SH NAME\n", p->name, pc_version());
    put_roff(p->name, strlen(p->name));
    printf(" \\- %s\n.SH SYNOPSIS\n.B ", p->summary);
    put_roff(p->usage, strlen(p->usage));
    printf("\n.SH COMMANDS\n");
    in_manual = 1;
    for (size_t i = 0; p->parts[i]; i++)
        put_command(p->parts[i]);
    in_manual = 0;
    printf(".SH \"EXIT STATUS\"\n%s.\n", exit_codes);
    if (p->details) {
        puts(".SH NOTES");
        put_paragraph(p->details);
    }
    return EXIT_OK;
}

/* -------------------------------------------------------------------- text */

/* Words in lines of 100 columns; the cursor is at `column`, further lines begin at INDENT. */
static int put_words(const char *text, int column)
{
    while (*text) {
        int size = (int)strcspn(text, " ");
        if (column + 1 + size > WIDTH && column > INDENT) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
        }
        column += printf("%s%.*s", column > INDENT ? " " : "", size, text);
        text += size;
        text += strspn(text, " ");
    }
    return column;
}

static void print_option(const option_row *row)
{
    const char *value = value_word(row);
    int column = printf("  --%s%s%s", row->name, *value ? " " : "", value);
    if (column < INDENT)
        column += printf("%*s", INDENT - column, "");
    column = put_words(row->help, column);
    if (row->choices) {
        putchar(':');
        put_words(row->choices, column + 1);
    }
    putchar('\n');
}

int print_help(const command *about, const option_row *rows, size_t count)
{
    if (in_manual) {
        put_title(about);
        for (size_t i = 0; i < count; i++)
            put_option(&rows[i]);
        return EXIT_OK;
    }
    printf("usage: %s %s\n%s\n\n", program_name, about->usage,
           about->details ? about->details : about->summary);
    for (size_t i = 0; i < count; i++)
        print_option(&rows[i]);
    printf("  %-22s %s\n", "--help", "this text");
    return EXIT_OK;
}

void print_family_help(const command *f, FILE *out)
{
    int is_program = !strcmp(f->name, program_name), width = 0;
    for (size_t i = 0; f->parts[i]; i++)
        if ((int)strlen(last_word(f->parts[i])) > width)
            width = (int)strlen(last_word(f->parts[i]));
    if (is_program)
        fprintf(out, "%s %s: %s\n\n", f->name, pc_version(), f->summary);
    fprintf(out, "usage: %s%s%s\n\n", is_program ? "" : program_name, is_program ? "" : " ",
            f->usage);
    for (size_t i = 0; f->parts[i]; i++)
        fprintf(out, "  %-*s  %s\n", width, last_word(f->parts[i]), f->parts[i]->summary);
    fprintf(out, "\n`%s COMMAND --help` lists the options of a command.\n", full_name(f));
    if (f->details)
        fprintf(out, "%s\n", f->details);
    if (is_program)
        fprintf(out, "Exit codes: %s.\n", exit_codes);
}

/* ------------------------------------------------------------------- words */

int print_words(const option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("--%s %s %s\n", rows[i].name, value_word(&rows[i]),
               rows[i].choices ? rows[i].choices : "");
    puts("--help");
    return EXIT_OK;
}

int print_family_words(const command *f)
{
    for (size_t i = 0; f->parts[i]; i++)
        puts(last_word(f->parts[i]));
    return EXIT_OK;
}
