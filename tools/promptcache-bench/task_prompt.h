/* The prompt of an item: its documents as modules, in the words of its template. */
#ifndef TASK_PROMPT_H
#define TASK_PROMPT_H

#include "documents.h"
#include "eval_item.h"

typedef struct task_model {
    const pc_model *model;
    pc_model_info info;
    int has_chat;  /* 0: no chat template, so prompts are plain text */
    char chat[17]; /* digest of a conversation in the chat template: tells templates apart */
    char bos[64];  /* text of the token that begins a plain text; "": none */
    size_t most;   /* tokens of a prompt with its answer */
} task_model;

typedef struct task_prompt {
    pc_schema *schema;
    pc_prompt *prompt;
    /* The same modules and another request: computes their states and nothing of the prompt's own
     * text. */
    pc_prompt *filler;
    documents documents;
    size_t tokens; /* of the prompt */
} task_prompt;

/* most: 0: the model's context. An exit code. */
int task_model_open(task_model *m, const pc_model *model, size_t most);
/* PC_ERR_LIMIT: the wording and the question alone are too long for the model. Other errors: text
 * by pc_error_text. Free it in any case. */
pc_status task_prompt_make(task_prompt *p, const task_model *m, const eval_item *item);
void task_prompt_free(task_prompt *p);

#endif
