/* The schema string of a file. */
#ifndef PC_SERVE_SCHEMA_RELAY_H
#define PC_SERVE_SCHEMA_RELAY_H

#include "serve/schema.h"

/* Without a byte order mark at its start and the line break that an editor has put at its end:
 * neither is part of the template. */
pc_status pc__relay_file(const pc_allocator *mem, const char *path, char **format, size_t *size);

#endif
