/* A grammar that answers match: functions over a vocabulary, those of the plug-in module xgrammar
 * (text/grammar_engine.h) or the application's. guide.h follows one answer. */
#ifndef PC_SERVE_GRAMMAR_H
#define PC_SERVE_GRAMMAR_H

#include <promptcache/grammar.h>
#include <stdatomic.h>

#include "model/model.h"

struct pc_grammar {
    atomic_size_t references;
    pc_model *model;    /* held */
    size_t vocab;       /* tokens that may be drawn */
    pc_grammar_ops ops; /* as read */
};

pc_grammar *pc__grammar_ref(const pc_grammar *grammar);
PC__HOLDABLE(pc_grammar, pc__grammar_ref, pc_grammar_free)

/* PC_ERR_MISMATCH: the grammar is for other tokens than this model's. */
pc_status pc__grammar_check_model(const pc_grammar *grammar, const pc_model *model,
                                  const char *call);
/* Sets or clears the bit of a token, which may be none of the vocabulary. */
void pc__grammar_allow(const pc_grammar *grammar, uint32_t *bits, int32_t token, int allowed);
/* Clears bits beyond the vocabulary; returns whether any other is set. */
int pc__grammar_allows_any(const pc_grammar *grammar, uint32_t *bits);
/* What a function of the engine has said: PC_OK, or the error. */
pc_status pc__grammar_said(pc_status status, const char *function);
static inline size_t pc__grammar_words(const pc_grammar *grammar)
{
    return (grammar->vocab + 31) / 32;
}

#endif
