/* JSON values as YAML. */
#ifndef YAML_H
#define YAML_H

#include <jansson.h>
#include <stdio.h>

/* Writes an object as the next item of a list. 0: the write failed, or out of memory. */
int yaml_write_item(FILE *out, json_t *object);

#endif
