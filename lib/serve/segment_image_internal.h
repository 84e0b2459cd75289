/* What the two ways of an application's states share: as a whole (segment_image.c), and layer by
 * layer (segment_image_layers.c). */
#ifndef PC_SERVE_SEGMENT_IMAGE_INTERNAL_H
#define PC_SERVE_SEGMENT_IMAGE_INTERNAL_H

#include "serve/segment_image.h"

/* States on their way into the model: the payload until they are imported. Handles may be any
 * pointers, so only the model's list tells which payloads are still such states. The first member
 * of what each way knows of them. */
typedef struct pc__import {
    struct pc__import *next;
} pc__import;

void pc__import_put(pc_model *model, pc__import *import);
/* Removes it from the list; NULL: `payload` is a handle of the application's. */
pc__import *pc__import_take(pc_model *model, const void *payload);

/* Model, position scheme, layout and number format. */
void pc__image_set_model(pc__image *image, const pc_model *model);
/* PC_ERR_MISMATCH: a model with another fingerprint or layout has made it, or it has no tokens. */
pc_status pc__image_check_model(const pc_model *model, const pc__image *image);
/* PC_ERR_MISMATCH that names what is wrong. */
pc_status pc__image_refuse(const char *wrong);

void pc__handle_release(void *owner, void *payload); /* of the model's */
void pc__handle_drop_model(void *owner);

extern const pc__payload_ops pc__layers_payload;

#endif
