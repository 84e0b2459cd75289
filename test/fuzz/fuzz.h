/* What the fuzz targets share: input as a file, memory that is counted and limited, small
 * vocabularies. A target finds a fault by a crash, a sanitizer's report, or FUZZ_CHECK. */
#ifndef PC_FUZZ_H
#define PC_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <promptcache.h>

#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prints the condition and aborts where it does not hold. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fault(#condition, __FILE__, __LINE__))
void fuzz_fault(const char *what, const char *file, int line);

/* No input of a fuzzer is larger than this; what it makes the library take in all stays below
 * FUZZ_MEMORY. */
enum { FUZZ_INPUT = 1 << 20, FUZZ_MEMORY = 256 << 20 };

/* Counts; more than FUZZ_MEMORY at once is a fault. Blocks are filled, so that nobody counts on
 * zeros. */
extern const pc_allocator fuzz_memory;
/* A fault where something is still allocated beyond `blocks`, the number at the start. */
size_t fuzz_blocks(void);
void fuzz_no_leak(size_t blocks);

/* The bytes as a file (in memory); the path ends with `ending`, "" or ".json", and holds until the
 * next call. */
const char *fuzz_file(const uint8_t *data, size_t size, const char *ending);
/* A folder with config.json and model.safetensors, likewise. */
const char *fuzz_folder(const uint8_t *config, size_t config_size, const uint8_t *weights,
                        size_t weights_size);
/* Loads a model; what is accepted must be able to compute two tokens. */
void fuzz_load(const char *path);

/* Whether a call went well; after an error there must be one line of text about it. */
int fuzz_ok(pc_status status);

/* A small vocabulary: special tokens, all bytes, a few words. `pre`: of BPE. Aborts where it cannot
 * be made. */
pc__tokenizer *fuzz_tokenizer(pc__vocab_kind kind, const char *pre, const char *chat_template);
/* A model that is a vocabulary only (SentencePiece, ChatML), on a context that lives until the end.
 */
const pc_model *fuzz_model(void);

/* Encodes, checks counts and ids against the contract, decodes; text back must be `size` bytes of
 * `text` where `exact`. */
void fuzz_round(const pc__tokenizer *tokenizer, const char *text, size_t size, uint64_t flags,
                int exact);

#endif
