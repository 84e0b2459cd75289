/* The parts of `promptcache memo`. */
#ifndef MEMO_COMMANDS_H
#define MEMO_COMMANDS_H

#include "memo_session.h"

int memo_build(int argc, char **argv);
int memo_tune(int argc, char **argv);
int memo_eval(int argc, char **argv);
int memo_show(int argc, char **argv);

#endif
