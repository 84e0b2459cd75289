/* Judges candidates: by comparing texts, by the output of a command, or by a command's exit code.
 *
 * A command is run by the shell in a new folder with the files `candidate` and `problem.json` (the
 * row). Its environment is PATH, HOME and TMPDIR (the folder) alone: it learns no secrets. When it
 * ends, or is out of time, its process group is killed. Files grow to 64 MiB, and its output is
 * read up to what is compared; more ends it. */
#include "checker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file_tree.h"
#include "program.h"

enum { FILE_MOST = 64 << 20, OUTPUT_SLACK = 1 << 16, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

static const char blanks[] = " \t\r\n\v\f";

/* Compares words: how many blanks stand between them does not count. */
static int same_words(const char *a, const char *b)
{
    for (;;) {
        a += strspn(a, blanks);
        b += strspn(b, blanks);
        size_t n = strcspn(a, blanks);
        if (n != strcspn(b, blanks) || memcmp(a, b, n) != 0)
            return 0;
        if (!n)
            return 1;
        a += n;
        b += n;
    }
}

static const char *member(const json_t *test, const char *key)
{
    const char *text = json_string_value(json_object_get(test, key));
    return text ? text : "";
}

/* ---------------------------------------------------------------- processes */

/* Where the commands of a candidate run. */
typedef struct workplace {
    char folder[4096];
    char *environment[4]; /* ended by NULL */
} workplace;

typedef struct process {
    pid_t id;
    int output; /* the reading end of its standard output; -1: nobody reads it */
    char *text; /* [room + 1] what it wrote */
    size_t size, room;
    int status; /* of waitpid */
    int timed_out, flooded;
} process;

/* A file without a name that holds the text, to be read from its start; -1: an error. */
static int file_of(const char *text)
{
    FILE *file = tmpfile();
    int fd = -1;
    if (file && fputs(text, file) != EOF && !fflush(file))
        fd = fcntl(fileno(file), F_DUPFD_CLOEXEC, 3);
    if (file)
        fclose(file);
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

static void child(const char *line, const workplace *at, int input, int output)
{
    const struct rlimit files = {FILE_MOST, FILE_MOST}, none = {0, 0};
    int nowhere = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    setrlimit(RLIMIT_FSIZE, &files);
    setrlimit(RLIMIT_CORE, &none);
    if (chdir(at->folder) || nowhere < 0 || dup2(input, 0) < 0
        || dup2(output >= 0 ? output : nowhere, 1) < 0 || dup2(nowhere, 2) < 0)
        _exit(NOT_EXECUTABLE);
    execle("/bin/sh", "sh", "-c", line, (char *)NULL, at->environment);
    _exit(NOT_EXECUTABLE);
}

/* Closes what is open, without touching errno. */
static void close_both(const int *ends)
{
    int error = errno;
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    errno = error;
}

/* An exit code. */
static int start(process *p, const char *line, const workplace *at, const char *input)
{
    int ends[2] = {-1, -1}, unused[2] = {file_of(input), -1};
    if (unused[0] < 0 || (p->text && pipe2(ends, O_CLOEXEC))) {
        close_both(unused);
        return plain_error("a temporary file or a pipe: %s", strerror(errno));
    }
    if (ends[0] >= 0)
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
    p->output = ends[0];
    unused[1] = ends[1];
    p->id = fork();
    if (!p->id)
        child(line, at, unused[0], unused[1]);
    if (p->id > 0)
        setpgid(p->id, p->id); /* the child does it too: whoever comes first */
    close_both(unused);
    if (p->id > 0)
        return EXIT_OK;
    close_both((int[]){p->output, -1});
    return plain_error("a process: %s", strerror(errno));
}

/* Reads what is there. 0: the end, or there is too much. */
static int read_output(process *p)
{
    ssize_t n = 0;
    while (p->size < p->room && (n = read(p->output, p->text + p->size, p->room - p->size)) > 0)
        p->size += (size_t)n;
    p->flooded = p->size == p->room;
    return !p->flooded && n < 0 && (errno == EAGAIN || errno == EINTR);
}

static int has_ended(const process *p)
{
    siginfo_t about = {.si_pid = 0};
    return waitid(P_PID, (id_t)p->id, &about, WEXITED | WNOHANG | WNOWAIT) < 0 || about.si_pid;
}

/* Waits for the end, or brings it about. The group is killed before its number is free again. */
static int wait_for_end(process *p, double seconds)
{
    double end = machine_now() + seconds;
    int wait = 1, reads = p->output >= 0;
    while (!has_ended(p) && !p->flooded && !is_interrupted(NULL)) {
        struct pollfd ready = {.fd = reads ? p->output : -1, .events = POLLIN};
        if ((p->timed_out = machine_now() > end))
            break;
        if (poll(&ready, 1, wait) > 0)
            reads = read_output(p);
        wait = wait < 20 ? 2 * wait : 20;
    }
    kill(-p->id, SIGKILL);
    while (waitpid(p->id, &p->status, 0) < 0 && errno == EINTR)
        ;
    if (p->output >= 0) {
        read_output(p);
        close(p->output);
    }
    if (!is_interrupted(NULL))
        return EXIT_OK;
    fprintf(stderr, "%s: interrupted\n", program_name);
    return EXIT_INTERRUPTED;
}

/* Runs a command. 1: it ended by itself, and what it wrote is not too long; 0; -1: an error. */
static int run(checker *c, process *p, const char *line, const workplace *at, const char *input)
{
    if (start(p, line, at, input) != EXIT_OK || wait_for_end(p, c->seconds) != EXIT_OK)
        return -1;
    c->timed_out += (size_t)p->timed_out;
    c->flooded += (size_t)(p->flooded && !p->timed_out);
    c->killed += (size_t)(!p->timed_out && !p->flooded && WIFSIGNALED(p->status));
    return !p->timed_out && !p->flooded && WIFEXITED(p->status);
}

/* ----------------------------------------------------------------- verdicts */

/* 1: the command says yes; a command that the shell does not find is an error. */
static int decide(checker *c, const workplace *at, const char *candidate)
{
    process p = {.text = NULL};
    int ended = run(c, &p, c->check, at, candidate);
    int code = ended > 0 ? WEXITSTATUS(p.status) : -1;
    if (code != NOT_FOUND && code != NOT_EXECUTABLE)
        return ended > 0 ? !code : ended;
    plain_error("--checker: '%s' cannot be run (exit code %d)", c->check, code);
    return -1;
}

/* 1: the output that the command makes of the test's input is the expected one. */
static int pass_test(checker *c, const workplace *at, const json_t *test)
{
    const char *wanted = member(test, "output");
    size_t room = 2 * strlen(wanted) + OUTPUT_SLACK;
    process p = {.text = malloc(room + 1), .room = room};
    int verdict = p.text ? run(c, &p, c->run, at, member(test, "input")) : -1;
    if (!p.text)
        plain_error("out of memory");
    if (verdict > 0) {
        p.text[p.size] = 0;
        verdict = !WEXITSTATUS(p.status) && strlen(p.text) == p.size && same_words(p.text, wanted);
    }
    free(p.text);
    return verdict;
}

static int pass_tests(checker *c, const workplace *at, const json_t *tests)
{
    int verdict = 1;
    for (size_t i = 0; i < json_array_size(tests) && verdict > 0; i++)
        verdict = pass_test(c, at, json_array_get(tests, i));
    return verdict;
}

static int write_file(const char *folder, const char *name, const char *text)
{
    char path[4200];
    FILE *file;
    int failed;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!text || !(file = fopen(path, "w")))
        return plain_error("%s: %s", path, strerror(text ? errno : ENOMEM));
    failed = fputs(text, file) == EOF;
    failed |= fclose(file) != 0;
    return failed ? plain_error("%s: %s", path, strerror(errno)) : EXIT_OK;
}

static char *variable(const char *name, const char *value)
{
    char *text = malloc(strlen(name) + strlen(value) + 2);
    if (text)
        sprintf(text, "%s=%s", name, value);
    return text;
}

/* Makes the folder of a candidate. An exit code. */
static int make_workplace(workplace *at, const char *candidate, const json_t *problem)
{
    const char *path = program_variable("PATH");
    char *text;
    int code;
    snprintf(at->folder, sizeof at->folder, "%s/promptcache-check-XXXXXX", temporary_folder());
    if (!mkdtemp(at->folder)) {
        code = plain_error("%s: %s", at->folder, strerror(errno));
        at->folder[0] = 0;
        return code;
    }
    at->environment[0] = variable("PATH", path ? path : "/usr/bin:/bin");
    at->environment[1] = variable("HOME", at->folder);
    at->environment[2] = variable("TMPDIR", at->folder);
    if (!at->environment[0] || !at->environment[1] || !at->environment[2])
        return plain_error("out of memory");
    text = json_dumps(problem, JSON_COMPACT);
    code = write_file(at->folder, "candidate", candidate);
    if (code == EXIT_OK)
        code = write_file(at->folder, "problem.json", text);
    free(text);
    return code;
}

static void remove_workplace(workplace *at)
{
    if (*at->folder)
        remove_tree(at->folder);
    for (int i = 0; i < 3; i++)
        free(at->environment[i]);
}

int check_candidate(checker *c, const char *candidate, const json_t *problem)
{
    const json_t *tests = json_object_get(problem, "tests");
    workplace at = {.folder = ""};
    int verdict = -1;
    if (!c->check && !c->run)
        return same_words(candidate, member(json_array_get(tests, 0), "output"));
    if (make_workplace(&at, candidate, problem) == EXIT_OK)
        verdict = c->run ? pass_tests(c, &at, tests) : 1;
    if (verdict > 0 && c->check)
        verdict = decide(c, &at, candidate);
    remove_workplace(&at);
    return verdict;
}
