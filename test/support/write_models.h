/* What both parts of the program write_models use. */
#ifndef PC_WRITE_MODELS_H
#define PC_WRITE_MODELS_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* Ends the program. */
void fail(const char *path, const char *why);
FILE *created(const char *folder, const char *name);
void closed(FILE *file, const char *folder);
json_t *loaded(const char *path);
size_t elements(const json_t *shape);
void copy_file(const char *from, const char *folder, const char *name);

/* Writes the GGUF files that FROM/llama.json describes into TO, each with its vectors beside it. */
void write_ggufs(const char *from, const char *to);

#endif
