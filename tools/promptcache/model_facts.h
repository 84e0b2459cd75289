/* What `promptcache info` knows of a model: the library's description, and what follows from it for
 * this machine. */
#ifndef MODEL_FACTS_H
#define MODEL_FACTS_H

#include <promptcache/admin.h>

#include "program.h"

enum { KV_FORMATS = 4 }; /* of K and V: PC_DTYPE_F32 and on */

typedef struct model_facts {
    const char *path;
    pc_model_file *file;
    pc_model_file_info file_info;
    pc_model_info model;
    size_t kv;            /* format of K and V that the options ask for */
    pc_costs costs;       /* names CPU and kernels */
    uint64_t free_memory; /* of this machine; 0: not known, or another device computes */
    double text_tokens;   /* of 1024 bytes of plain English; 0: no tokenizer */
} model_facts;

/* Opens the model. -1, or an exit code after a message. Close it in either case. */
int open_facts(model_facts *facts, pc_context *context, const char *path,
               const pc_model_options *options);
void close_facts(model_facts *facts);

const char *kv_format_name(size_t format); /* 0: "f32" */
uint64_t kv_token_bytes(const model_facts *facts, size_t format);
/* Tokens whose K and V fit into the free memory beside the weights, at most the model's context.
 * -1: not known. */
int64_t longest_context(const model_facts *facts, size_t format);
/* "f32", "bf16" or "f16": what it computes in. */
const char *compute_name(const model_facts *facts);
/* "as stored", or that: what becomes of matrices in this format. */
const char *becomes_name(const model_facts *facts, const pc_model_file_type *type);
const char *position_name(uint32_t scheme);
const char *file_kind_name(uint32_t kind);

/* All of it; keys are explained in doc/program.md. */
json_t *facts_json(const model_facts *facts);

#endif
