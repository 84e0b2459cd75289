/* What the files load*.c share: an open model, of which pc_model_load (load.c) makes a model that
 * computes, and pc_model_file_open (load_info.c) a description. */
#ifndef PC_MODEL_LOAD_INTERNAL_H
#define PC_MODEL_LOAD_INTERNAL_H

#include "model/load/gguf.h"
#include "model/load/load.h"
#include "model/load/tensor_names.h"

/* An open model file or folder. Set mem, path, progress, vocab_only and describes, and zero the
 * rest. */
typedef struct pc__opened_model {
    const pc_allocator *mem;
    const char *path;
    pc__load_progress progress;
    int vocab_only;
    int describes; /* 1: goes on after what pc_model_load fails for, and keeps the first of it */
    uint32_t kind; /* PC_MODEL_FILE_… of admin.h */
    pc__tensor_naming naming;
    pc__gguf *gguf;       /* owns the weights if set */
    pc__weights *weights; /* NULL: vocabulary only */
    pc__arch arch;
    int has_arch;
    pc__tokenizer *tokenizer; /* NULL: none */
    pc__pooling pooling;
    pc_status refusal; /* that pc_model_load returns; PC_OK: nothing is wrong so far */
    char reason[sizeof((pc__error_state *)0)->text];
} pc__opened_model;

pc_status pc__open_model(pc__opened_model *o);
void pc__close_model(pc__opened_model *o); /* after a failed open too */
/* Keeps an error in `o` and returns PC_OK, if `o` describes and it is an error of the model, not
 * PC_ERR_NOMEM or PC_ERR_CANCELLED. */
pc_status pc__describe_refusal(pc__opened_model *o, pc_status status);

/* Name, sizes and the like, as far as they stand under usual keys. PC_ERR_NOMEM. */
pc_status pc__outline_model(const pc__opened_model *o, pc__arch *out);

/* Bits of the inputs of quantised matrices, 16 or 8; 0: no matrix stays quantised. They do unless
 * the caller asks for a number format. */
uint32_t pc__quantised_input_bits(const pc__backend *backend, const pc__weights *weights,
                                  const pc_model_options *options);
/* Binds the weights to a backend; NULL: the context's. Takes the LongRoPE factors of o->arch.
 * packed: see pc__bind_options. */
pc_status pc__bind_model(pc__opened_model *o, pc_context *context, pc__backend *backend,
                         const pc_model_options *options, uint32_t input_bits,
                         struct pc__packed *packed, pc__native **out);

#endif
