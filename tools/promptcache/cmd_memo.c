/* memo: attention maps of earlier prompts, remembered and reused (AttnCache). */
#include "memo_commands.h"

static const command_part parts[] = {
    {"build", "fills a memo from a corpus and trains what finds alike prompts", memo_build},
    {"tune", "sets thresholds for a loss that you name, by inputs that the memo has not seen",
     memo_tune},
    {"eval", "score and time, everything computed against the memo", memo_eval},
    {"show", "what a memo holds, and where it is used", memo_show},
};

static int run(int argc, char **argv)
{
    static const command_family family = {&memo_command,
                                          parts,
                                          sizeof parts / sizeof *parts,
                                          6,
                                          "part",
                                          "; doc/memo.md says when a memo helps"};
    return run_part(&family, argc, argv);
}

const command memo_command = {"memo", "memo build|tune|eval|show [options]",
                              "remembers attention maps for prefill-only work", run};
