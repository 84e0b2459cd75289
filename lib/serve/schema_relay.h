/* Reads a schema string from a file. */
#ifndef PC_SERVE_SCHEMA_RELAY_H
#define PC_SERVE_SCHEMA_RELAY_H

#include "serve/schema.h"

/* Without a byte order mark at the start and a line break at the end: neither is part of the
 * template. */
pc_status pc__relay_file(const pc_allocator *mem, const char *path, char **format, size_t *size);

#endif
