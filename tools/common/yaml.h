/* JSON values as YAML. */
#ifndef YAML_H
#define YAML_H

#include <jansson.h>
#include <stdio.h>

/* An object as the next item of a list. 0: it could not be written, or there was no memory. */
int yaml_write_item(FILE *out, json_t *object);

#endif
