/* The turns of a prompt as a conversation, for the question whether the model's own chat template
 * makes of it what its pieces make (text/chat.h). Texts are noted with the turn that they stand in;
 * what stands in no turn counts only between two texts of one turn. */
#ifndef PC_PML_CONVERSATION_H
#define PC_PML_CONVERSATION_H

#include "pml/literal.h"

typedef struct pc__said {
    int64_t start; /* position of the part that it belongs to */
    int rank;      /* of parts that start together */
    size_t order;  /* of notes */
    pc__turn turn;
    char *text;
    size_t size;
} pc__said;

typedef struct pc__conversation {
    const pc__pml_env *env;
    pc__said *said;
    size_t count, capacity;
} pc__conversation;

/* Whether anything need be noted. */
int pc__conversation_matters(const pc__pml_env *env);
pc_status pc__conversation_note(pc__conversation *c, int64_t start, int rank, pc__turn turn,
                                const char *text, size_t size);
/* The pieces of a text. */
pc_status pc__conversation_note_pieces(pc__conversation *c, int64_t start, int rank,
                                       const pc__piece *pieces, size_t count, const char *text);
/* PC_ERR_UNSUPPORTED: the template makes something else of it. Blanks at the ends of a turn are the
 * document's: they do not count. */
pc_status pc__conversation_check(pc__conversation *c);
void pc__conversation_free(pc__conversation *c);

#endif
