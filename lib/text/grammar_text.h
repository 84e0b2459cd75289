/* The text of a grammar, checked before an engine gets it: hostile ones end here, with an error
 * that says where. */
#ifndef PC_TEXT_GRAMMAR_TEXT_H
#define PC_TEXT_GRAMMAR_TEXT_H

#include <promptcache/grammar.h>

/* PC_ERR_FORMAT: no UTF-8, or no JSON; PC_ERR_LIMIT: too long, nested too deep, or a count of
 * repeats that is too large. */
pc_status pc__grammar_text_check(const pc_grammar_options *options, const char *call);

#endif
