/* The rules of doc/abi.md for structs that start with struct_size, tried on any of them. */
#ifndef PC_OPTIONS_RULES_H
#define PC_OPTIONS_RULES_H

#include <promptcache.h>

enum { PC_NO_FIELD = -1 };

/* A struct that the library reads. `use` gives one to the library and frees what came of it. */
typedef struct pc_read_case {
    const char *name; /* as the error text has it */
    pc_status (*use)(const void *options);
    const void *init;
    size_t size, v1_size;
    int32_t reserved, flags; /* where, or PC_NO_FIELD */
    uint64_t known_flags;
    int nullable;
} pc_read_case;

/* A struct that the library fills. */
typedef struct pc_write_case {
    const char *name;
    pc_status (*fill)(void *result);
    size_t size, v1_size;
} pc_write_case;

/* clang-format off */
#define PC_READ_CASE(type, use, init, v1_size, reserved, flags, known, nullable)                   \
    {                                                                                              \
#type, use, init, sizeof(type), v1_size, reserved, flags, known, nullable                  \
    }
/* clang-format on */
#define PC_FIELD(type, field) (int32_t) offsetof(type, field)

void pc_check_read(const pc_read_case *c);
void pc_check_write(const pc_write_case *c);

#endif
