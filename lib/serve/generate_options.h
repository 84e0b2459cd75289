/* Options of a request, checked and copied, so that the caller's may go. */
#ifndef PC_SERVE_GENERATE_OPTIONS_H
#define PC_SERVE_GENERATE_OPTIONS_H

#include "model/model.h"

typedef struct pc__generation {
    pc_generate_options options; /* its arrays are ours; stops of the chat template and the model's end included */
    char **strings;
} pc__generation;

/* PC_ERR_INVALID / PC_ERR_UNSUPPORTED name the field. */
pc_status pc__generation_init(pc__generation *generation, const pc_model *model, const pc_generate_options *options,
                              const char *call);
/* The same options once more. */
pc_status pc__generation_copy(pc__generation *to, const pc_model *model, const pc__generation *from);
void pc__generation_end(pc__generation *generation, const pc_allocator *mem); /* zeroed: does nothing */
int pc__generation_stops(const pc__generation *generation, int32_t token);

#endif
