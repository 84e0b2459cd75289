/* memo build: fills a memo from a corpus and trains its projectors. */
#include "machine.h"
#include "cmd.h"
#include "memo_session.h"
#include "store_options.h"

typedef struct arguments {
    memo_session_options session;
    const char *budget, *buckets;
    long map, index, epochs, seed, outputs;
    double alpha;
    int no_train, layers, json;
} arguments;

static int add(memo_session *s, pc_memo_work *work, memo_progress *progress)
{
    pc_memo_stats before = PC_MEMO_STATS_INIT, after = PC_MEMO_STATS_INIT;
    double began = machine_now();
    pc_status status;
    if (pc_memo_get_stats(s->memo, &before) < 0)
        return input_error("memo", NULL);
    status = pc_memo_add(s->memo, s->data.inputs, sizeof(pc_input), s->data.input_count, work);
    end_progress(progress);
    if (status < 0)
        return input_error(
            "add",
            "the inputs added so far are stored; run the same command again to add the others");
    if (pc_memo_get_stats(s->memo, &after) < 0)
        return input_error("memo", NULL);
    fprintf(stderr,
            "added %llu of %zu inputs in %.1f s (the others were there already, or longer than the "
            "last bucket); %llu records, %.1f MB\n",
            (unsigned long long)(after.stored - before.stored), s->data.input_count,
            machine_now() - began, (unsigned long long)after.live, (double)after.bytes / 1e6);
    return EXIT_OK;
}

static int train(memo_session *s, pc_memo_work *work, memo_progress *progress)
{
    double began = machine_now();
    pc_status status = pc_memo_train(s->memo, work);
    end_progress(progress);
    if (status == PC_ERR_STATE)
        return plain_error("not trained: %s\n  add more texts, or fewer buckets (--buckets)",
                           pc_error_text());
    if (status < 0)
        return input_error("train", "run the same command again to go on");
    fprintf(stderr, "trained in %.1f s; `promptcache memo tune` opens it for use\n",
            machine_now() - began);
    return EXIT_OK;
}

static int build(const arguments *a, const pc_memo_options *memo)
{
    memo_session s;
    memo_progress progress = {.shown = 0};
    pc_memo_work work = PC_MEMO_WORK_INIT;
    int code;
    work.progress = show_memo_progress;
    work.progress_user = &progress;
    work.seed = (uint64_t)a->seed;
    work.epochs = (uint32_t)a->epochs;
    work.alpha = a->alpha;
    watch_interrupt();
    code = session_open_model(&s, &a->session);
    if (code == EXIT_OK && a->session.data.files.count) /* before a folder is made */
        code = session_read(&s);
    if (code == EXIT_OK)
        code = session_open_memo(&s, memo);
    if (code == EXIT_OK && s.data.input_count)
        code = add(&s, &work, &progress);
    if (code == EXIT_OK && !a->no_train)
        code = train(&s, &work, &progress);
    if (code == EXIT_OK)
        code = print_buckets(&s, a->json);
    session_close(&s);
    return code;
}

/* -1: right; else the exit code */
static int read_buckets(const command *about, const char *list, uint32_t buckets[MEMO_BUCKETS],
                        pc_memo_options *memo)
{
    long lengths[MEMO_BUCKETS];
    size_t count = list ? read_numbers(list, lengths, MEMO_BUCKETS) : 0;
    for (size_t i = 0; i < count; i++) {
        if (lengths[i] < 1 || lengths[i] > INT32_MAX || (i && lengths[i] <= lengths[i - 1]))
            count = 0;
        else
            buckets[i] = (uint32_t)lengths[i];
    }
    if (list && !count)
        return usage_error(about, "--buckets takes up to %d ascending lengths, as in 16,32,64",
                           MEMO_BUCKETS);
    memo->bucket_tokens = count ? buckets : NULL;
    memo->bucket_count = count;
    return -1;
}

static int check(const command *about, const arguments *a, uint32_t buckets[MEMO_BUCKETS],
                 pc_memo_options *memo)
{
    static const uint32_t kinds[] = {PC_OUTPUT_DEFAULT, PC_OUTPUT_NONE, PC_OUTPUT_EMBEDDINGS,
                                     PC_OUTPUT_LOGITS, PC_OUTPUT_EMBEDDINGS | PC_OUTPUT_LOGITS};
    int code = session_check(about, &a->session, 0);
    if (code < 0 && a->session.data.files.count)
        code = data_check(about, &a->session.data);
    else if (code < 0 && a->no_train)
        code = usage_error(about, "--no-train without --data leaves nothing to do");
    if (code < 0)
        code = read_size(about, "budget", a->budget, &memo->budget_bytes);
    if (code < 0)
        code = read_buckets(about, a->buckets, buckets, memo);
    memo->map_format = a->map == 1 ? PC_MAP_U8 : PC_MAP_F16;
    memo->index = (uint32_t)a->index;
    memo->outputs = kinds[a->outputs];
    if (!a->outputs && a->session.data.files.count
        && a->session.data.kind == DATA_CHOICES) /* choices are scored by logits */
        memo->outputs = PC_OUTPUT_EMBEDDINGS | PC_OUTPUT_LOGITS;
    memo->output_pool = (uint32_t)a->session.pool;
    if (code < 0 && a->session.pool && !(memo->outputs & PC_OUTPUT_EMBEDDINGS))
        code = usage_error(about, "--pool needs --outputs embeddings or both");
    memo->flags |= a->layers ? PC_MEMO_LAYERS : 0;
    return code;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.session = {.batch = 1}};
    const option_row rows[] = {
        MEMO_MODEL_ROWS(a.session),
        DATA_ROWS(a.session.data),
        {"map", OPTION_CHOICE, &a.map, "number format of the maps of a new memo", "f16 u8", 0, 0},
        {"buckets", OPTION_TEXT, &a.buckets,
         "of a new memo: largest length of each bucket (16,32,64 ... the context, at most 4096)",
         NULL, 0, 0},
        {"budget", OPTION_TEXT, &a.budget, "budget of the folder, as in 500M or 16G (no limit)",
         NULL, 0, 0},
        {"layers", OPTION_FLAG, &a.layers,
         "a new memo searches each layer's map separately (AttnCache-f); tune it by memo tune "
         "--measure, or by --thresholds of memo eval",
         NULL, 0, 0},
        {"index", OPTION_CHOICE, &a.index, "index of features", "auto scan flat hnsw ivf", 0, 0},
        {"epochs", OPTION_NUMBER, &a.epochs, "epochs of the training (the library's choice)", NULL,
         1, 10000},
        {"alpha", OPTION_REAL, &a.alpha,
         "of the training: weight of the distance of maps (the library's choice)", NULL, 1e-6, 1e6},
        {"seed", OPTION_NUMBER, &a.seed, "of the training (0)", NULL, 0, 1e9},
        {"outputs", OPTION_CHOICE, &a.outputs,
         "outputs stored with each input, which the same input gets back exactly (embeddings; "
         "logits for choices, or if no larger than the maps)",
         "default none embeddings logits both", 0, 0},
        {"pool", OPTION_CHOICE, &a.session.pool,
         "pooling of the stored embeddings (the model's own)", "default mean first last", 0, 0},
        {"no-train", OPTION_FLAG, &a.no_train, "adds inputs, but does not train", NULL, 0, 0},
        {"json", OPTION_FLAG, &a.json, "JSON, an object a bucket", NULL, 0, 0},
    };
    pc_memo_options memo = PC_MEMO_OPTIONS_INIT;
    uint32_t buckets[MEMO_BUCKETS];
    const char *others[1];
    size_t count;
    int code;
    if ((code = read_options(&memo_build, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                             &count))
            >= 0
        || (code = check(&memo_build, &a, buckets, &memo)) >= 0)
        return code;
    return build(&a, &memo);
}

const command memo_build = {.name = "memo build",
                            .usage = "memo build --model M --memo DIR [--data FILE ...] [options]",
                            .summary = "fills a memo from a corpus and trains its projectors",
                            .details = "Computes all inputs and stores their attention maps, then "
                                       "trains the projectors, one for each\n"
                                       "bucket of lengths. An existing memo grows. After an "
                                       "interrupt, run the same command again.\n\n" DATA_HELP,
                            .run = run_command_line};
