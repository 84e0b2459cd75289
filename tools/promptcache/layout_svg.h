/* The layout of a schema as a picture. */
#ifndef LAYOUT_SVG_H
#define LAYOUT_SVG_H

#include <promptcache.h>

int write_layout_svg(const pc_schema *schema, const char *path); /* an exit code */

#endif
