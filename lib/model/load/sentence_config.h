/* What the files of sentence-transformers beside a model say about its embeddings: modules.json
 * names the steps, each with a folder of its own; sentence_bert_config.json cuts long texts. */
#ifndef PC_MODEL_SENTENCE_CONFIG_H
#define PC_MODEL_SENTENCE_CONFIG_H

#include "model/forward/native.h"

/* Zeroes where there is no modules.json. PC_ERR_UNSUPPORTED: a step, or a way of pooling, that we
 * do not have, so that embeddings would be others than the model's own. */
pc_status pc__sentence_config(pc__pooling *out, const pc_allocator *mem, const char *folder);

#endif
