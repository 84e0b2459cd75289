/* Keys of a configuration in JSON. Null counts as missing. Error texts name file, key and value. */
#ifndef PC_MODEL_JSON_CONFIG_H
#define PC_MODEL_JSON_CONFIG_H

#include <jansson.h>

#include "base/fail.h"

typedef struct pc__config {
    const char *where; /* in error texts */
    const char *model; /* model_type */
    json_t *object;
} pc__config;

/* The value; NULL: missing or null. */
json_t *pc__config_find(const pc__config *config, const char *key);
/* A size from 1 to 2^31 - 1. */
pc_status pc__config_size(const pc__config *config, const char *key, int32_t *out);
/* An integer >= 0. *out stays if the key is missing, here and below. */
pc_status pc__config_maybe(const pc__config *config, const char *key, int32_t *out);
pc_status pc__config_flag(const pc__config *config, const char *key, int32_t *out);
pc_status pc__config_number(const pc__config *config, const char *key, double *out); /* finite */
/* PC_ERR_UNSUPPORTED: the flag exists and is not `want`; the key exists at all. */
pc_status pc__config_only(const pc__config *config, const char *key, int want);
pc_status pc__config_none(const pc__config *config, const char *key);
/* PC_ERR_UNSUPPORTED that shows the key's value. */
pc_status pc__config_refuse(const pc__config *config, const char *key);

#endif
