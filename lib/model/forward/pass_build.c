/* Lists of rows and spans for a pass; they grow as rows are added. */
#include "model/forward/pass_build.h"

pc_status pc__build_start(pc__pass_build *build, const pc_allocator *mem, size_t rows)
{
    build->mem = mem;
    build->capacity = rows;
    build->rows = pc__calloc(mem, rows, sizeof *build->rows);
    build->positions = pc__calloc(mem, rows, sizeof *build->positions);
    build->first = pc__calloc(mem, rows + 1, sizeof *build->first);
    return build->rows && build->positions && build->first ? PC_OK : PC_ERR_NOMEM;
}

void pc__build_row(pc__pass_build *build, const pc__token_row *row)
{
    build->rows[build->count] = *row;
    build->positions[build->count] = row->position;
    build->first[build->count++] = build->span_count;
}

pc_status pc__build_span(pc__pass_build *build, const pc__kv *kv, int64_t start, size_t lo,
                         size_t hi)
{
    PC__TRY_RETURN(pc__grow(build->mem, (void **)&build->spans, &build->span_capacity,
                            build->span_count + 1, sizeof *build->spans));
    build->spans[build->span_count++] = (pc__kv_span){kv, start, (uint32_t)lo, (uint32_t)hi};
    return PC_OK;
}

void pc__build_end(pc__pass_build *build, pc__pass *pass)
{
    build->first[build->count] = build->span_count;
    pass->rows = build->rows;
    pass->attend.count = build->count;
    pass->attend.positions = build->positions;
    pass->attend.first = build->first;
    pass->attend.spans = build->spans;
}

void pc__build_free(pc__pass_build *build)
{
    if (!build->mem)
        return;
    pc__free(build->mem, build->rows);
    pc__free(build->mem, build->positions);
    pc__free(build->mem, build->first);
    pc__free(build->mem, build->spans);
}
