/* Keys of a configuration in JSON. Null is as good as absent. Every function names file, key and
 * value in its error. */
#ifndef PC_MODEL_JSON_CONFIG_H
#define PC_MODEL_JSON_CONFIG_H

#include <jansson.h>

#include "base/fail.h"

typedef struct pc__config {
    const char *where; /* of error texts */
    const char *model; /* model_type */
    json_t *object;
} pc__config;

/* The value, or NULL where it is absent or null. */
json_t *pc__config_find(const pc__config *config, const char *key);
/* A size in 1 … 2^31 - 1. */
pc_status pc__config_size(const pc__config *config, const char *key, int32_t *out);
/* Leaves *out as it was where the key is absent; an integer >= 0. */
pc_status pc__config_maybe(const pc__config *config, const char *key, int32_t *out);
pc_status pc__config_flag(const pc__config *config, const char *key, int32_t *out);
pc_status pc__config_number(const pc__config *config, const char *key, double *out); /* finite */
/* PC_ERR_UNSUPPORTED where a flag is there and not `want`, or where a key is there at all. */
pc_status pc__config_only(const pc__config *config, const char *key, int want);
pc_status pc__config_none(const pc__config *config, const char *key);
/* PC_ERR_UNSUPPORTED that shows the key's value. */
pc_status pc__config_refuse(const pc__config *config, const char *key);

#endif
