/* A schema as a tree with a layout (Prompt Cache, section 3). There is no model code here: tokens
 * come through a function. */
#ifndef PC_PML_SCHEMA_TREE_H
#define PC_PML_SCHEMA_TREE_H

#include "base/context.h"
#include "base/digest.h"
#include "pml/element.h"
#include "text/chat.h"
#include "text/string_map.h"

/* Text to ids in a block of `mem`. PC_TOKENIZE_SPECIAL is set for text of chat templates. */
typedef pc_status (*pc__tokens_fn)(void *user, const char *text, size_t size, uint64_t flags,
                                   int32_t **tokens, size_t *count);

/* Whether PC_TOKENIZE_SPECIAL changes the tokens of a text: 1, 0; -1: not known without both. */
typedef int (*pc__has_special_fn)(void *user, const char *text, size_t size);

typedef struct pc__pml_env {
    const pc_allocator *mem;
    const pc__chat *chat;
    pc__tokens_fn tokens;
    pc__has_special_fn has_special; /* NULL: never known */
    void *tokens_user;              /* of both */
    int32_t unk;                    /* fills parameters */
    int32_t bos;                    /* -1: none */
    int64_t context_length;         /* 0: no limit */
    uint64_t flags;                 /* PC_PML_… */
    uint32_t max_tokens;            /* of one text; 0: all */
    const char *base_folder;        /* of src=; NULL: refused */
    const char *where; /* file name for error texts; "schema" or "prompt" for text from memory */
} pc__pml_env;

/* = PC_ITEM_… */
typedef enum pc__node_kind {
    PC__NODE_MODULE = 1,
    PC__NODE_UNION,
    PC__NODE_TEXT,
    PC__NODE_PARAMETER,
    PC__NODE_SLOT /* of a schema string: the place of the request's text (system_format.h) */
} pc__node_kind;

/* A turn of a conversation: the chat tag that a text stands in. */
typedef struct pc__turn {
    char role;     /* 's', 'u', 'a' as the tags begin; 0: it stands in none */
    size_t number; /* each tag has its own */
} pc__turn;

typedef struct pc__piece pc__piece; /* literal.h */

typedef struct pc__node pc__node;
struct pc__node {
    pc__node_kind kind;
    char *name; /* module, parameter */
    /* "" root, "a/b/c"; text: its parent's; union: parent's + "/union" (root: "/union") */
    char *path;
    pc__node *parent;
    pc__node **children;
    size_t child_count, child_capacity;
    int64_t start, length; /* positions; union: the longest member */
    /* text: its tokens; parameter: its placeholder (scaffold text, then unk up to its length) */
    int32_t *tokens;
    size_t token_count;
    char *text;        /* text: as tokenised; slot: the template behind the request's text */
    size_t text_size;  /* bytes of text, which may have NULs */
    pc__piece *pieces; /* of the text, if conversations have to be checked */
    size_t piece_count;
    pc__turn turn;            /* of a parameter */
    int uncached;             /* cache="false" here or above */
    int in_system;            /* the text has template pieces: special tokens count */
    pc__node *default_member; /* union: its scaffold= member, or NULL */
    size_t index;             /* in document order */
    size_t line, column;
};

/* Modules that are encoded together. Where a prompt imports all of them, those states replace the
 * states that each has alone. */
typedef struct pc__scaffold {
    pc__node **modules;
    size_t count;
} pc__scaffold;

typedef struct pc__schema_tree {
    char *name;
    pc__node *root;   /* a module */
    pc__node **nodes; /* document order, root first */
    size_t node_count;
    pc__string_map paths; /* of modules and parameters, to their index */
    pc__scaffold *scaffolds;
    size_t scaffold_count;
    int64_t length;
    pc__node *slot;     /* of a schema string, else NULL */
    int ends_in_system; /* the last chat tag is a system prompt: the prompt continues behind it */
    size_t turn_count;  /* of chat tags */
    int slot_is_turn;   /* the slot is a user's turn of the chat template, */
    char *slot_system;  /* behind this system prompt; NULL: none, or it came as tokens */
    size_t slot_system_size;
    char *slot_lead; /* the text right before the slot, and its tokens */
    int32_t *lead_tokens;
    size_t lead_count;
} pc__schema_tree;

pc_status pc__schema_tree_parse(pc__schema_tree **out, const pc__pml_env *env, const char *text,
                                size_t size);
/* Of a tree of elements, whose root is <schema>. */
pc_status pc__schema_tree_of(pc__schema_tree **out, const pc__pml_env *env,
                             const pc__element *root);
void pc__schema_tree_free(pc__schema_tree *tree, const pc_allocator *mem);
/* The module or parameter at a path; NULL: there is none. */
const pc__node *pc__schema_node_at(const pc__schema_tree *tree, const char *path, size_t size);

#endif
