/* The statistics of a request, as JSON and as text. */
#ifndef RUN_STATS_H
#define RUN_STATS_H

#include "program.h"

json_t *stats_json(const pc_stats *stats);
void print_stats(const pc_stats *stats);

#endif
