/* memo: attention maps of earlier prompts, remembered and reused (AttnCache). */
#include "cmd.h"

static const command *const parts[] = {&memo_build, &memo_tune, &memo_eval, &memo_show, NULL};

const command memo_command = {.name = "memo",
                              .usage = "memo build|tune|eval|show [options]",
                              .summary = "remembers attention maps for prefill-only work",
                              .details = "doc/memo.md says when a memo helps.",
                              .parts = parts};
