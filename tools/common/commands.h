/* The main function of both programs: finds the command that is named, and runs it. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "arguments.h"

/* `program`: a family whose name and usage begin with the program's own. An exit code. */
int run_program(const command *program, int argc, char **argv);

#endif
