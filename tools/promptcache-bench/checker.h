/* Commands of the user's that judge candidates: each in a folder and a process group of its own,
 * for a limited time. This is no sandbox: what a command runs can do what its user can do. */
#ifndef CHECKER_H
#define CHECKER_H

#include <jansson.h>

typedef struct checker {
    const char *check; /* decides by its exit code; NULL: none */
    const char *run;   /* makes an output of an input; NULL: none */
    double seconds;    /* most of each process */
    /* what became of the candidates that were not right */
    size_t timed_out, killed, flooded;
} checker;

/* Whether a candidate solves a problem: 1, 0, or -1 after a message (a folder cannot be made, the
 * command cannot be run, Ctrl-C). problem: the row; its member `tests` has been checked. */
int check_candidate(checker *c, const char *candidate, const json_t *problem);

#endif
