/* Typed access to the keys of a JSON configuration. */
#include "model/load/json_config.h"

#include <math.h>
#include <string.h>

json_t *pc__config_find(const pc__config *config, const char *key)
{
    json_t *value = json_object_get(config->object, key);
    return json_is_null(value) ? NULL : value;
}

/* The value as text, cut to `size`. */
static void value_text(json_t *value, char *out, size_t size)
{
    size_t n = value ? json_dumpb(value, out, size - 1, JSON_ENCODE_ANY | JSON_COMPACT) : 0;
    if (n > size - 1) {
        n = size - 1;
        memcpy(out + n - 3, "...", 3);
    }
    out[n] = 0;
}

static pc_status wrong_value(const pc__config *config, const char *key, const char *want)
{
    char text[80];
    value_text(json_object_get(config->object, key), text, sizeof text);
    return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is %s, expected %s", config->where, key,
                    *text ? text : "missing", want);
}

pc_status pc__config_refuse(const pc__config *config, const char *key)
{
    char text[80];
    value_text(json_object_get(config->object, key), text, sizeof text);
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': %s is not implemented for model_type '%s'",
                    config->where, key, text, config->model);
}

static pc_status read_integer(const pc__config *config, const char *key, json_int_t least,
                              int32_t *out)
{
    json_t *value = json_object_get(config->object, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < least || number > INT32_MAX)
        return wrong_value(config, key, least ? "a size" : "a number");
    *out = (int32_t)number;
    return PC_OK;
}

pc_status pc__config_size(const pc__config *config, const char *key, int32_t *out)
{
    return read_integer(config, key, 1, out);
}

pc_status pc__config_maybe(const pc__config *config, const char *key, int32_t *out)
{
    return pc__config_find(config, key) ? read_integer(config, key, 0, out) : PC_OK;
}

pc_status pc__config_flag(const pc__config *config, const char *key, int32_t *out)
{
    json_t *value = pc__config_find(config, key);
    if (value && !json_is_boolean(value))
        return wrong_value(config, key, "true or false");
    if (value)
        *out = json_is_true(value);
    return PC_OK;
}

pc_status pc__config_number(const pc__config *config, const char *key, double *out)
{
    json_t *value = pc__config_find(config, key);
    if (value && (!json_is_number(value) || !isfinite(json_number_value(value))))
        return wrong_value(config, key, "a number");
    if (value)
        *out = json_number_value(value);
    return PC_OK;
}

pc_status pc__config_only(const pc__config *config, const char *key, int want)
{
    int32_t value = want;
    pc_status status = pc__config_flag(config, key, &value);
    return status < 0 || value == want ? status : pc__config_refuse(config, key);
}

pc_status pc__config_none(const pc__config *config, const char *key)
{
    return pc__config_find(config, key) ? pc__config_refuse(config, key) : PC_OK;
}
