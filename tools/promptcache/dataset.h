/* Data for prefill-only work: texts as tokens of a model, with scores, classes or answers. */
#ifndef DATASET_H
#define DATASET_H

#include "program.h"

#include <promptcache/memo.h>

enum { DATA_TEXTS, DATA_PAIRS, DATA_LABELS, DATA_CHOICES };
#define DATA_KINDS "texts pairs labels choices"
enum { DATA_CANDIDATES = 16, DATA_LABELS_MOST = 64 };

typedef struct data_options {
    file_list files; /* or folders: their .csv, .tsv and .jsonl files, of texts .txt too */
    long kind;
    const char *columns; /* NULL: as DATA_HELP says */
    long limit;          /* rows; 0: all */
    long max_tokens;     /* of an input; 0: the model's context */
    int special;
    int judged; /* pairs without a score are left out */
} data_options;
/* clang-format off */
#define DATA_ROWS(o) \
    {"data", OPTION_PATHS, &(o).files, \
     "file of texts, .csv, .tsv or .jsonl, or a folder of them; may be given several times", \
     NULL, 0, 0}, \
        DATA_MORE_ROWS(o)
#define DATA_MORE_ROWS(o) \
    {"kind", OPTION_CHOICE, &(o).kind, "kind of the rows", DATA_KINDS, 0, 0}, \
        {"columns", OPTION_TEXT, &(o).columns, \
         "columns of a row, as in 2,3,1, or keys of JSON; see above", NULL, 0, 0}, \
        {"limit-rows", OPTION_NUMBER, &(o).limit, "most rows to read (all)", NULL, 1, 1e9}, \
        {"max-tokens", OPTION_NUMBER, &(o).max_tokens, \
         "longer inputs are shortened to this (the model's context)", NULL, 2, 1 << 24}, \
    { \
        "special", OPTION_FLAG, &(o).special, "reads special tokens in the text", NULL, \
            0, 0 \
    }
#define DATA_HELP \
    "Rows of data, by --kind, with the default --columns:\n" \
    "  texts    one text: 1, or text\n" \
    "  pairs    two texts and how alike they are: 1,2,3, or sentence1,sentence2,score; pairs\n" \
    "           without a score give two texts to a memo and are left out of measures\n" \
    "  labels   a text and its class: 1,2, or text,label\n" \
    "  choices  a question, its choices, the right one: all columns in this order (answer: 0,\n" \
    "           1, ... or A, B, ...; the model is asked for the letter), or prompt,choices,\n" \
    "           answer (the choices may follow the prompt; their first tokens compete)\n" \
    "Damaged rows (quotes, missing columns) are skipped and counted."
/* clang-format on */

typedef struct data_item {
    size_t first;                        /* input; of pairs also the next one */
    double score;                        /* pairs */
    size_t right;                        /* labels: index of the class; choices: of the candidate */
    int32_t candidates[DATA_CANDIDATES]; /* choices: tokens */
    size_t candidate_count;
} data_item;

/* Classes by name, in the order in which they came. */
typedef struct label_list {
    char *names[DATA_LABELS_MOST];
    size_t count;
} label_list;

typedef struct dataset {
    long kind;
    pc_input *inputs;
    size_t input_count;
    data_item *items; /* with a score, a class or an answer; texts have none */
    size_t item_count;
    size_t rows, damaged, unscored, shortened;
    uint64_t tokens;
    size_t least, most; /* tokens of an input */
} dataset;

/* An exit code, after a message. DATA_LABELS: new classes are added to `labels`. */
int data_read(dataset *d, const pc_model *model, const data_options *options, label_list *labels);
void data_free(dataset *d);
void labels_free(label_list *labels);
void data_print(const dataset *d, const char *name, FILE *out); /* one line */
int data_check(const command *about,
               const data_options *options); /* -1: valid; else the exit code */

#endif
