/* Builds the rows and spans of a pass, row by row. */
#ifndef PC_MODEL_PASS_BUILD_H
#define PC_MODEL_PASS_BUILD_H

#include "model/forward/forward.h"

/* Zero-initialise, then pc__build_start. */
typedef struct pc__pass_build {
    const pc_allocator *mem;
    size_t count, capacity;
    pc__token_row *rows;
    int64_t *positions;
    size_t *first;
    pc__kv_span *spans;
    size_t span_count, span_capacity;
} pc__pass_build;

/* Room for `rows` rows. */
pc_status pc__build_start(pc__pass_build *build, const pc_allocator *mem, size_t rows);
/* Starts the next row; there must be room. */
void pc__build_row(pc__pass_build *build, const pc__token_row *row);
/* Adds a span to the newest row. Empty spans (hi <= lo) are kept: add none unless the pass is
 * traced. */
pc_status pc__build_span(pc__pass_build *build, const pc__kv *kv, int64_t start, size_t lo,
                         size_t hi);
/* Sets the rows and spans of the pass; they are borrowed from the build. */
void pc__build_end(pc__pass_build *build, pc__pass *pass);
void pc__build_free(pc__pass_build *build);

#endif
