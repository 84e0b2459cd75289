/* The commands of `promptcache`; each is defined in the file of its name. */
#ifndef CMD_H
#define CMD_H

#include "program.h"

extern const command run_command, encode_command, show_command, inspect_command, verify_command,
    evict_command, memo_command, tokenize_command, info_command;
/* Parts of memo_command. */
extern const command memo_build, memo_tune, memo_eval, memo_show;
/* Commands of promptcache-bench, which these start. */
extern const command bench_command, check_command, eval_command;

#endif
