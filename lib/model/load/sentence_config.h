/* What the files of sentence-transformers say about embeddings: modules.json names the steps, each
 * with a folder; sentence_bert_config.json limits the length of texts. */
#ifndef PC_MODEL_SENTENCE_CONFIG_H
#define PC_MODEL_SENTENCE_CONFIG_H

#include "model/forward/native.h"

/* Zeroes without modules.json. PC_ERR_UNSUPPORTED: an unknown step or pooling; embeddings
 * would differ from those of the model. */
pc_status pc__sentence_config(pc__pooling *out, const pc_allocator *mem, const char *folder);

#endif
