/* Mutations that keep the structure of a file, for libFuzzer: a file whose structure is damaged
 * ends in the parser, and what is behind it is never reached. Only the fuzzers link these. */
#ifndef PC_FUZZ_MUTATE_H
#define PC_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

/* A number of the generator that `seed` is the state of, below `below`. */
size_t mutate_draw(uint64_t *seed, size_t below);
/* Mutates the JSON text at data[from, end) and keeps the rest. 0: it is not JSON, or there is no
 * room. */
size_t mutate_json(uint8_t *data, size_t from, size_t end, size_t size, size_t room,
                   uint64_t *seed);

#endif
