/* What the memo commands share: a model with its memo, inputs answered by both ways, and what the
 * task makes of the answers. */
#ifndef MEMO_SESSION_H
#define MEMO_SESSION_H

#include "dataset.h"
#include "linear_head.h"

typedef struct memo_session_options {
    const char *model, *folder, *train;
    long compute, pool, batch, seed;
    data_options data;
} memo_session_options;
/* clang-format off */
#define MEMO_MODEL_ROWS(o)                                                                         \
    {"model", OPTION_PATH, &(o).model, "GGUF file, Hugging Face folder or llama2.c checkpoint",    \
     NULL, 0, 0},                                                                                  \
        {"memo", OPTION_DIR, &(o).folder, "folder of the memo", NULL, 0, 0},                       \
        {"compute", OPTION_CHOICE, &(o).compute, "number format", COMPUTE_CHOICES, 0, 0},          \
        THREADS_ROW
#define MEMO_JUDGE_ROWS(o)                                                                         \
    {"pool", OPTION_CHOICE, &(o).pool, "how embeddings are made of hidden states (default)",       \
     "default mean first last", 0, 0},                                                             \
        {"batch", OPTION_NUMBER, &(o).batch, "inputs computed together (16)", NULL, 1, 4096},      \
        {"train", OPTION_FILE, &(o).train,                                                         \
         "labels: the rows by which a linear head over the embeddings is trained", NULL, 0, 0},    \
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

/* Model, then memo. An exit code; after any of them the session is to be closed. */
int session_open_model(memo_session *s, const memo_session_options *options);
int session_open_memo(memo_session *s, const pc_memo_options *memo);
int session_open(memo_session *s, const memo_session_options *options,
                 const pc_memo_options *memo); /* both */
void session_close(memo_session *s);
int session_read(memo_session *s);       /* the data, told on standard error */
int session_train_head(memo_session *s); /* of labels: from --train; else nothing to do */
/* -1: right; else the exit code. */
int session_check(const command *about, const memo_session_options *options, int judged);

/* One way's results of all inputs. */
typedef struct answers {
    size_t width;
    float *values; /* [inputs][width]: embeddings; of choices the candidates' logits */
    pc_memo_result *results;
    double seconds, cpu_seconds; /* cpu_seconds: of all threads; other programs on the machine
                                    hardly change it */
    pc_prefill_stats stats;
} answers;
int answers_new(answers *a, const memo_session *s, const dataset *data); /* an exit code */
void answers_free(answers *a);
/* How inputs are computed. */
typedef struct way {
    pc_memo *memo;             /* NULL: without */
    uint64_t flags;            /* PC_PREFILL_… */
    const int32_t *map_layers; /* baselines that share maps among layers; NULL: none */
    double threshold;          /* in place of the memo's own; 0: those */
} way;
/* All inputs in their order, so many at a time. An exit code. */
int answers_run(answers *a, const memo_session *s, const dataset *data, const way *how);

/* The task's score of the data, 0 to 100: Spearman of pairs, accuracy of labels and choices.
 * rows[i]: the values of input i. */
const char *score_name(long kind);
double score(const memo_session *s, const float *const *rows, size_t width);
/* The same in two steps: what each item has (the cosine of a pair; 1 or 0 for right or wrong), and
 * the score of items which[0 … count - 1] (NULL: of all), which may repeat. */
void item_values(const memo_session *s, const float *const *rows, size_t width, double *values);
double score_items(const memo_session *s, const double *values, const size_t *which, size_t count);

/* What every input loses by the other way: 1 - cosine of both embeddings; of choices 1 where
 * another one is chosen, else 0. losses [inputs] */
void input_losses(const memo_session *s, const answers *full, const answers *other, double *losses);
#define HIT_PERCENTILE 95.0 /* where none is named */

int bucket_of(const memo_session *s, size_t tokens,
              size_t *bucket);                      /* 0: longer than the last one */
int print_buckets(const memo_session *s, int json); /* an exit code */
/* Long work on one line of standard error: what, how far, rate, time left. For pc_memo_work. */
typedef struct memo_progress {
    char what[64];
    double began, told;
    uint64_t first;
    int shown;
} memo_progress;
int32_t tell_progress(void *progress, const char *what, uint64_t done, uint64_t total);
void end_progress(memo_progress *p);

#endif
