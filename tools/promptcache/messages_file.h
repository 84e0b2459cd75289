/* Conversations from JSON files, as requests of OpenAI's interface have them. */
#ifndef MESSAGES_FILE_H
#define MESSAGES_FILE_H

#include "program.h"

/* A prompt of the messages (and tools) of a file; "-": standard input. -1, or the exit code. */
int load_messages(pc_prompt **out, const pc_model *model, const char *path);

#endif
