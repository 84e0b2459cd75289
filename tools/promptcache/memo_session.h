/* What the memo commands share: a model with its memo, the data, results of all inputs by one
 * method of computing, and scores of the task. */
#ifndef MEMO_SESSION_H
#define MEMO_SESSION_H

#include "dataset.h"
#include "linear_head.h"

typedef struct memo_session_options {
    const char *model, *folder, *train, *packed;
    long compute, pool, batch, seed;
    data_options data;
} memo_session_options;
/* clang-format off */
#define MEMO_MODEL_ROWS(o)                                                                         \
    {"model", OPTION_PATH, &(o).model, "GGUF file, Hugging Face folder or llama2.c checkpoint",    \
     NULL, 0, 0},                                                                                  \
        {"memo", OPTION_DIR, &(o).folder, "folder of the memo", NULL, 0, 0},                       \
        {"compute", OPTION_CHOICE, &(o).compute, "number format", COMPUTE_CHOICES, 0, 0},          \
        PACKED_ROW((o).packed), THREADS_ROW
#define MEMO_JUDGE_ROWS(o)                                                                         \
    {"pool", OPTION_CHOICE, &(o).pool, "pooling of hidden states to embeddings (default)",       \
     "default mean first last", 0, 0},                                                             \
        {"batch", OPTION_NUMBER, &(o).batch, "inputs computed together (16)", NULL, 1, 4096},      \
        {"train", OPTION_FILE, &(o).train,                                                         \
         "rows to train a linear head by, for --kind labels", NULL, 0, 0},    \
    {                                                                                              \
        "seed", OPTION_NUMBER, &(o).seed, "of the head's training (1)", NULL, 0, 1e9               \
    }
/* clang-format on */
enum { MEMO_BUCKETS = 64 };

typedef struct memo_session {
    const memo_session_options *options;
    pc_context *context;
    pc_model *model;
    pc_model_info info;
    pc_memo *memo;
    size_t bucket_count;
    dataset data;
    label_list labels;
    linear_head head; /* of labels */
} memo_session;

/* Open model, then memo. Exit codes; close the session in any case. */
int session_open_model(memo_session *s, const memo_session_options *options);
int session_open_memo(memo_session *s, const pc_memo_options *memo);
int session_open(memo_session *s, const memo_session_options *options,
                 const pc_memo_options *memo); /* both */
void session_close(memo_session *s);
int session_read(memo_session *s);       /* reads the data and describes it on standard error */
int session_train_head(memo_session *s); /* of labels, from --train; else does nothing */
/* -1: valid; else the exit code. */
int session_check(const command *about, const memo_session_options *options, int judged);

/* The results of all inputs by one method. */
typedef struct answers {
    size_t width;
    float *values; /* [inputs][width]: embeddings; of choices the logits of the candidates */
    pc_memo_result *results;
    double seconds, cpu_seconds; /* cpu_seconds: of all threads; other programs hardly change it */
    pc_prefill_stats stats;
} answers;
int answers_new(answers *a, const memo_session *s, const dataset *data); /* an exit code */
void answers_free(answers *a);
/* How inputs are computed. */
typedef struct method {
    pc_memo *memo;             /* NULL: without */
    uint64_t flags;            /* PC_PREFILL_… */
    const int32_t *map_layers; /* baselines that share maps among layers; NULL: none */
    double threshold;          /* instead of the memo's own; 0: those */
} method;
/* Computes all inputs in their order, `batch` at a time. An exit code. */
int answers_run(answers *a, const memo_session *s, const dataset *data, const method *how);

/* The task's score of the data, 0 to 100: Spearman of pairs, accuracy of labels and choices.
 * rows[i]: the values of input i. */
const char *score_name(long kind);
double score(const memo_session *s, const float *const *rows, size_t width);
/* The same in two steps: the value of each item (the cosine of a pair; 1 or 0 for right or wrong),
 * and the score of items which[0 … count - 1] (NULL: of all), which may repeat. */
void item_values(const memo_session *s, const float *const *rows, size_t width, double *values);
double score_items(const memo_session *s, const double *values, const size_t *which, size_t count);

/* The loss of every input by the other method: 1 - cosine of both embeddings; of choices 1 if
 * another one is chosen, else 0. losses [inputs] */
void input_losses(const memo_session *s, const answers *full, const answers *other, double *losses);
#define HIT_PERCENTILE 95.0 /* the default */

int bucket_of(const memo_session *s, size_t tokens,
              size_t *bucket);                      /* 0: longer than the last bucket */
int print_buckets(const memo_session *s, int json); /* an exit code */
/* Progress of pc_memo_work on a line of standard error: what, how much, rate, time left. */
typedef struct memo_progress {
    char what[64];
    double began, written; /* written: when the line was last */
    uint64_t first;
    int shown;
} memo_progress;
int32_t show_memo_progress(void *progress, const char *what, uint64_t done, uint64_t total);
void end_progress(memo_progress *p);

#endif
