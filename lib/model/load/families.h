/* Families of models by the names that their files give them: how a person calls them, and why
 * those that no reader takes are refused. */
#ifndef PC_MODEL_FAMILIES_H
#define PC_MODEL_FAMILIES_H

#include "base/context.h"

typedef struct pc__family {
    const char *types; /* model_type and general.architecture, separated by blanks */
    const char *words; /* "Mamba 2" */
    /* "keeps a recurrent state, …": goes on after the words; NULL: the readers decide */
    const char *reason;
} pc__family;

/* NULL: not in the table. */
const pc__family *pc__family_of(const char *type);
/* All rows, for tests. */
const pc__family *pc__families(size_t *count);

/* Names of what a reader takes, one after the other; NULL ends them. */
typedef const char *pc__supported_fn(size_t index);

/* PC_ERR_UNSUPPORTED for a type that no reader takes: its family and the reason, or, if the table
 * does not have it, what `supported` lists. key: where the type stands, "model_type". */
pc_status pc__family_refuse(const char *where, const char *key, const char *type,
                            pc__supported_fn *supported);

/* The same for weights that are quantised by a method of Python's libraries (quant_method in
 * config.json); NULL: the configuration does not name one. */
pc_status pc__quantised_refuse(const char *where, const char *method);

#endif
