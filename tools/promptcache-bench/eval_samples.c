/* eval --format votes and --format candidates: many samples of each question (Hydragen, section
 * 4.4). Votes: the answer that most samples give (self-consistency; Wang et al. 2023). Candidates:
 * whether one of k solves the problem (pass@k). The first run is scored; all runs are timed, and
 * their answers compared with those of the first one. */
#include <promptcache/prompt.h>
#include <promptcache/sampling.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "draws.h"
#include "eval_item.h"
#include "task_prompt.h"
#include "votes.h"

enum { SAMPLES = 32, BATCH = 64, SHOTS = 8, MOST_SAMPLES = 4096, MOST_KS = 16, MOST_RUNS = 99 };

typedef struct question {
    json_t *row;
    const char *file;
    size_t line;
    eval_item item; /* its context is the next member */
    char *context;  /* the shared text and the row's */
    char *wanted;   /* of votes */
    answer_rule *rule;
    task_prompt prompt;
} question;

/* A sample, scored. */
typedef struct judged {
    char *answer; /* of votes; NULL: none */
    int right;
} judged;

typedef struct method_result {
    const draw_method *how;
    draw_run runs[MOST_RUNS];
} method_result;

typedef struct evaluation {
    const eval_options *o;
    int votes; /* 0: candidates */
    task_templates templates;
    task_model about;
    char *prefix; /* the text of --prefix; NULL: none */
    json_t *examples;
    question *questions;
    size_t count, room;
    size_t samples, repeats, batch;
    long ks[MOST_KS];
    size_t k_count;
    draws draws;
    judged *judged; /* [count][samples] */
    checker checker;
    method_result *results;
    size_t method_count;
    FILE *save;
} evaluation;

/* ---------------------------------------------------------------- questions */

/* `text` with the input and the answer of an example. NULL: out of memory. */
static char *with_example(char *text, const task_template *task, const char *input,
                          const char *answer)
{
    static const char slot[] = "{input}";
    size_t size = text ? strlen(text) : 0;
    const char *from = task->behind, *at;
    char *out, *to;
    size_t most = size + strlen(task->behind) + strlen(answer) + 8;
    for (at = from; (at = strstr(at, slot)); at += sizeof slot - 1)
        most += strlen(input);
    if (!(out = realloc(text, most))) {
        free(text);
        return NULL;
    }
    for (to = out + size; (at = strstr(from, slot)); from = at + sizeof slot - 1)
        to += sprintf(to, "%.*s%s", (int)(at - from), from, input);
    sprintf(to, "%s %s\n\n", from, answer);
    return out;
}

static const char *input_key(const evaluation *e)
{
    return e->votes ? "question" : "prompt";
}

static const char *solution_key(const evaluation *e)
{
    return e->votes ? "answer" : "solution";
}

/* The prefix, the examples in the words of the question's task, and its own context. */
static int make_context(const evaluation *e, question *q)
{
    size_t i;
    json_t *row;
    const char *own = q->item.context;
    char *text = strdup(e->prefix ? e->prefix : "");
    json_array_foreach(e->examples, i, row) if (text) text = with_example(
        text, q->item.task, json_string_value(json_object_get(row, input_key(e))),
        json_string_value(json_object_get(row, solution_key(e))));
    size_t size = text ? strlen(text) : 0;
    if (text && *own && (q->context = realloc(text, size + strlen(own) + 1)))
        strcpy(q->context + size, own);
    else if (text && *own)
        free(text);
    else
        q->context = text;
    q->item.context = q->context;
    return q->context ? EXIT_OK : plain_error("out of memory");
}

/* The right answer of a vote: of GSM8K's form, what stands behind "####". */
static int read_wanted(const evaluation *e, question *q, const json_lines *at)
{
    const json_t *value = json_object_get(q->row, "answer");
    const char *text = json_string_value(value), *mark, *end;
    char number[64], where[256];
    int failed;
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.15g", json_real_value(value));
    else if (!text)
        return eval_row_wrong_type(at, "answer", "a text or a number", value);
    text = text ? text : number;
    for (mark = text; (end = strstr(mark, "####"));)
        text = mark = end + 4;
    snprintf(where, sizeof where, "%.100s: %.100s", e->o->templates, q->item.task->name);
    if (!(q->rule = answer_rule_new(q->item.task->answer, where)))
        return EXIT_INPUT;
    q->wanted = final_answer(q->rule, text, &failed);
    if (failed)
        return plain_error("out of memory");
    if (!q->wanted)
        return eval_row_fault(at, "answer",
                              q->item.task->answer
                                  ? "the rule \"answer\" of its template finds nothing in it"
                                  : "it has no number; the template's key \"answer\" may give "
                                    "another rule");
    return EXIT_OK;
}

static int check_test(const evaluation *e, const json_lines *at, const json_t *test)
{
    const json_t *output = json_object_get(test, "output"), *input = json_object_get(test, "input");
    if (!json_is_object(test))
        return eval_row_wrong_type(at, "tests", "a list of objects", test);
    if (!json_is_string(output))
        return eval_row_wrong_type(at, "tests: output", "a text", output);
    if (input ? !json_is_string(input) : e->o->run != NULL)
        return eval_row_wrong_type(at, "tests: input", "a text", input);
    return EXIT_OK;
}

static int check_tests(const evaluation *e, const question *q, const json_lines *at)
{
    const json_t *tests = json_object_get(q->row, "tests");
    int is_needed = e->o->run || !e->o->checker, code = EXIT_OK;
    if (!tests && !is_needed)
        return EXIT_OK;
    if (!json_is_array(tests))
        return eval_row_wrong_type(at, "tests", "a list of objects", tests);
    if (!json_array_size(tests) && is_needed)
        return eval_row_fault(at, "tests", "the list is empty");
    if (json_array_size(tests) > 1 && !e->o->run && !e->o->checker)
        return eval_row_fault(at, "tests",
                              "an answer that is not run can have one output only; "
                              "--run COMMAND runs it");
    for (size_t i = 0; i < json_array_size(tests) && code == EXIT_OK; i++)
        code = check_test(e, at, json_array_get(tests, i));
    return code;
}

static int read_question(evaluation *e, const json_lines *at, json_t *row)
{
    question *q;
    int code;
    if (e->count == e->room) {
        question *grown = realloc(e->questions, (e->room = 2 * e->room + 16) * sizeof *grown);
        if (!grown)
            return json_lines_error(at, "out of memory");
        e->questions = grown;
    }
    q = &e->questions[e->count++];
    *q = (question){.row = json_incref(row), .file = at->path, .line = at->line};
    code = eval_item_read_asked(&q->item, row, input_key(e), at, e->o, &e->templates);
    if (code == EXIT_OK)
        code = e->votes ? read_wanted(e, q, at) : check_tests(e, q, at);
    if (code == EXIT_OK)
        code = make_context(e, q);
    return code == EXIT_OK && !*q->context ? eval_row_fault(
               at, "context", "there is none: the row's, --prefix or --examples is needed")
                                           : code;
}

static int read_questions(evaluation *e, const char *path)
{
    json_lines lines;
    json_t *row;
    long count = 0;
    int code = json_lines_open(&lines, path);
    while (code == EXIT_OK && (!e->o->limit || count < e->o->limit)
           && (row = json_lines_next(&lines, &code))) {
        code = read_question(e, &lines, row);
        json_decref(row);
        count++;
    }
    json_lines_close(&lines);
    return code == EXIT_OK && !count ? plain_error("%s: there is no question in it", path) : code;
}

/* The few-shot examples: the first rows of the file. */
static int read_examples(evaluation *e)
{
    const size_t wanted = (size_t)(e->o->shots ? e->o->shots : SHOTS);
    json_lines lines;
    json_t *row;
    const char *text;
    int code = json_lines_open(&lines, e->o->examples);
    if (!(e->examples = json_array()))
        code = plain_error("out of memory");
    while (code == EXIT_OK && json_array_size(e->examples) < wanted
           && (row = json_lines_next(&lines, &code))) {
        text = NULL;
        if ((code = eval_row_text(&lines, row, input_key(e), &text)) == EXIT_OK) {
            text = NULL;
            code = eval_row_text(&lines, row, solution_key(e), &text);
        }
        if (code == EXIT_OK && json_array_append(e->examples, row) < 0)
            code = plain_error("out of memory");
        json_decref(row);
    }
    json_lines_close(&lines);
    if (code == EXIT_OK && json_array_size(e->examples) < wanted)
        code = plain_error("%s: %zu examples, and --shots asks for %zu", e->o->examples,
                           json_array_size(e->examples), wanted);
    return code;
}

static int read_all(evaluation *e)
{
    const eval_options *o = e->o;
    size_t size;
    int code = templates_read(&e->templates, o->templates, 0);
    if (code == EXIT_OK && o->prefix && !(e->prefix = read_text(o->prefix, TEXT_BYTES, &size)))
        code = EXIT_INPUT;
    if (code == EXIT_OK && e->prefix && strlen(e->prefix) < size)
        code = plain_error("%s: a NUL byte", o->prefix);
    if (code == EXIT_OK && o->examples)
        code = read_examples(e);
    for (size_t i = 0; i < o->file_count && code == EXIT_OK; i++)
        code = read_questions(e, o->files[i]);
    return code;
}

/* ------------------------------------------------------------------ prompts */

/* Tokens up to the end of the last module. */
static uint64_t context_tokens(const pc_prompt *prompt)
{
    uint64_t tokens = 0, context = 0;
    for (size_t i = 0; i < pc_prompt_part_count(prompt); i++) {
        pc_part part = PC_PART_INIT;
        if (pc_prompt_get_part(prompt, i, &part) < 0)
            continue;
        tokens += part.count;
        if (part.kind == PC_PART_CACHED)
            context = tokens;
    }
    return context;
}

static int make_prompt(const evaluation *e, question *q, draw_prompt *to)
{
    pc_status status = task_prompt_make(&q->prompt, &e->about, &q->item);
    char where[4200];
    if (status == PC_ERR_LIMIT || (status >= 0 && q->prompt.documents.is_cut))
        return plain_error("%s:%zu: the prompt and an answer of %u tokens are too long for the "
                           "model's context of %zu",
                           q->file, q->line, q->item.task->max_tokens, e->about.most);
    snprintf(where, sizeof where, "%s:%zu: prompt", q->file, q->line);
    if (status < 0)
        return input_error(where, NULL);
    *to = (draw_prompt){q->prompt.prompt, context_tokens(q->prompt.prompt),
                        q->item.task->max_tokens, q->item.task->stops, q->item.task->stop_count};
    return EXIT_OK;
}

static int make_prompts(evaluation *e, draw_prompt **prompts)
{
    int code = EXIT_OK;
    *prompts = calloc(e->count, sizeof **prompts);
    e->draws.items = calloc(e->count * e->samples, sizeof *e->draws.items);
    e->judged = calloc(e->count * e->samples, sizeof *e->judged);
    e->draws.prompts = *prompts;
    if (!*prompts || !e->draws.items || !e->judged)
        return plain_error("no memory for %zu samples", e->count * e->samples);
    e->draws.prompt_count = e->count;
    for (size_t i = 0; i < e->count && code == EXIT_OK; i++)
        code = make_prompt(e, &e->questions[i], *prompts + i);
    return code;
}

/* ------------------------------------------------------------------ scoring */

/* An earlier sample of the question with the same text has the same verdict. */
static const judged *twin_of(const evaluation *e, size_t index)
{
    const draw *items = e->draws.items;
    for (size_t i = index - index % e->samples; i < index; i++)
        if (!strcmp(items[i].text, items[index].text))
            return &e->judged[i];
    return NULL;
}

static int judge(evaluation *e, size_t index)
{
    const question *q = &e->questions[index / e->samples];
    judged *to = &e->judged[index];
    const char *text = e->draws.items[index].text;
    const judged *twin = e->votes ? NULL : twin_of(e, index);
    int failed = 0;
    if (e->votes) {
        to->answer = final_answer(q->rule, text, &failed);
        to->right = to->answer && !strcmp(to->answer, q->wanted);
        return failed ? plain_error("out of memory") : EXIT_OK;
    }
    to->right = twin ? twin->right : check_candidate(&e->checker, text, q->row);
    return to->right >= 0 ? EXIT_OK : is_interrupted(NULL) ? EXIT_INTERRUPTED : EXIT_INPUT;
}

static int save_sample(const evaluation *e, size_t index)
{
    const question *q = &e->questions[index / e->samples];
    const judged *j = &e->judged[index];
    const draw *d = &e->draws.items[index];
    json_t *row = json_pack(
        "{s:s,s:I,s:s,s:I,s:o,s:I,s:b}", "file", q->file, "line", (json_int_t)q->line, "dataset",
        q->item.dataset, "sample", (json_int_t)(index % e->samples), "text",
        json_text(d->text, strlen(d->text)), "tokens", (json_int_t)d->count, "right", j->right);
    char *text = NULL;
    if (row && e->votes)
        json_object_set_new(row, "answer",
                            j->answer ? json_text(j->answer, strlen(j->answer)) : json_null());
    if (row)
        text = dump_json(row, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(row);
    if (!text)
        return plain_error("out of memory");
    fprintf(e->save, "%s\n", text);
    free(text);
    return EXIT_OK;
}

static int judge_all(evaluation *e)
{
    size_t all = e->count * e->samples;
    int code = EXIT_OK;
    for (size_t i = 0; i < all && code == EXIT_OK; i++) {
        if (!e->votes && (e->o->checker || e->o->run))
            stop_loading(NULL, "checking", i, all);
        code = judge(e, i);
        if (code == EXIT_OK && e->save)
            code = save_sample(e, i);
    }
    clear_progress();
    if (e->checker.timed_out || e->checker.killed || e->checker.flooded)
        fprintf(stderr,
                "%s: wrong because of how they ended: %zu out of time, %zu by a signal, %zu with "
                "too much output\n",
                program_name, e->checker.timed_out, e->checker.killed, e->checker.flooded);
    return code;
}

static int close_save(evaluation *e, int code)
{
    int failed = e->save && ferror(e->save);
    if (e->save)
        failed |= fclose(e->save) != 0;
    e->save = NULL;
    return failed && code == EXIT_OK ? write_failed(e->o->save, errno) : code;
}

/* --------------------------------------------------------------------- runs */

static int run_methods(evaluation *e)
{
    char what[64];
    int code = draws_warm_up(&e->draws);
    for (size_t r = 0; r < e->repeats && code == EXIT_OK; r++)
        for (size_t m = 0; m < e->method_count && code == EXIT_OK; m++) {
            const int is_first = !e->draws.is_drawn;
            snprintf(what, sizeof what, "%s, run %zu of %zu", e->results[m].how->name, r + 1,
                     e->repeats);
            e->draws.what = what;
            code = draws_run(&e->draws, e->results[m].how, &e->results[m].runs[r]);
            if (code == EXIT_OK && is_first)
                code = close_save(e, judge_all(e));
        }
    return code;
}

/* ------------------------------------------------------------------ results */

static double share_of(const evaluation *e, size_t q, size_t k)
{
    const judged *j = e->judged + q * e->samples;
    const char **answers;
    double share;
    size_t right = 0;
    if (!e->votes) {
        for (size_t i = 0; i < e->samples; i++)
            right += (size_t)j[i].right;
        return pass_at(e->samples, right, k);
    }
    if (!(answers = malloc(e->samples * sizeof *answers)))
        return -1;
    for (size_t i = 0; i < e->samples; i++)
        answers[i] = j[i].answer;
    share = majority_share(answers, e->samples, k, e->questions[q].wanted);
    free(answers);
    return share;
}

static int is_first_of_set(const evaluation *e, size_t q)
{
    for (size_t i = 0; i < q; i++)
        if (!strcmp(e->questions[i].item.dataset, e->questions[q].item.dataset))
            return 0;
    return 1;
}

static int print_score(const evaluation *e, const char *dataset, size_t k)
{
    const char *measure = e->votes ? "majority" : "pass";
    double sum = 0, share;
    size_t count = 0;
    for (size_t q = 0; q < e->count; q++) {
        if (strcmp(e->questions[q].item.dataset, dataset) != 0)
            continue;
        if ((share = share_of(e, q, k)) < 0)
            return plain_error("out of memory");
        sum += share;
        count++;
    }
    sum = 100 * sum / (double)count;
    if (e->o->json)
        print_json(json_pack("{s:s,s:s,s:I,s:I,s:I,s:f}", "dataset", dataset, "measure", measure,
                             "questions", (json_int_t)count, "samples", (json_int_t)e->samples, "k",
                             (json_int_t)k, "score", sum));
    else
        printf("%-20s %9zu %8zu %6zu %8.2f\n", shown(dataset), count, e->samples, k, sum);
    return EXIT_OK;
}

static int print_scores(const evaluation *e)
{
    int code = EXIT_OK;
    if (!e->o->json)
        printf("%-20s %9s %8s %6s %8s\n", "data set", "questions", "samples", "k",
               e->votes ? "majority" : "pass@k");
    for (size_t q = 0; q < e->count; q++)
        for (size_t i = 0; i < e->k_count && is_first_of_set(e, q) && code == EXIT_OK; i++)
            code = print_score(e, e->questions[q].item.dataset, (size_t)e->ks[i]);
    return code;
}

static double median_of(const method_result *r, size_t repeats, int is_cpu, double *least,
                        double *most)
{
    double values[MOST_RUNS], middle;
    for (size_t i = 0; i < repeats; i++)
        values[i] = is_cpu ? r->runs[i].cpu_seconds : r->runs[i].seconds;
    middle = median(values, repeats);
    *least = values[0];
    *most = values[repeats - 1];
    return middle;
}

static size_t different_of(const evaluation *e, const method_result *r)
{
    size_t different = 0;
    for (size_t i = 0; i < e->repeats; i++)
        different += r->runs[i].different;
    return different;
}

static void print_method(const evaluation *e, const method_result *r)
{
    double least, most, ignored, low, high;
    double seconds = median_of(r, e->repeats, 0, &least, &most);
    double cpu = median_of(r, e->repeats, 1, &ignored, &ignored);
    double gain = seconds / median_of(&e->results[0], e->repeats, 0, &low, &high);
    double cpu_gain = cpu / median_of(&e->results[0], e->repeats, 1, &low, &high);
    double rate = (double)r->runs[0].generated / seconds;
    if (e->o->json) {
        print_json(json_pack(
            "{s:s,s:I,s:f,s:f,s:f,s:f,s:I,s:I,s:I,s:f,s:f,s:f,s:I}", "method", r->how->name, "runs",
            (json_int_t)e->repeats, "seconds", seconds, "seconds_low", least, "seconds_high", most,
            "cpu_seconds", cpu, "tokens_prompt", (json_int_t)r->runs[0].prompt, "tokens_computed",
            (json_int_t)r->runs[0].computed, "tokens_generated", (json_int_t)r->runs[0].generated,
            "tokens_per_second", rate, "gain", gain, "cpu_gain", cpu_gain, "different",
            (json_int_t)different_of(e, r)));
        return;
    }
    char spread[64];
    snprintf(spread, sizeof spread, "%.3f (%.3f to %.3f)", seconds, least, most);
    printf("%-11s %4zu %29s %12.3f %9llu %9llu %9.0f %7.2fx %7.2fx %9zu\n", r->how->name,
           e->repeats, spread, cpu, (unsigned long long)r->runs[0].computed,
           (unsigned long long)r->runs[0].generated, rate, gain, cpu_gain, different_of(e, r));
}

/* EXIT_CHECK: answers differ that the library promises to be equal. */
static int print_broken(const evaluation *e)
{
    for (size_t m = 0; m < e->method_count; m++)
        for (size_t r = 0; r < e->repeats; r++) {
            const draw_run *run = &e->results[m].runs[r];
            const question *q = &e->questions[run->first_broken / e->samples];
            if (!run->broken)
                continue;
            fprintf(stderr,
                    "%s: %s, run %zu: %zu answers are not those of an earlier run that holds the "
                    "tokens in the same pieces, as they must be; the first: %s:%zu, sample %zu\n",
                    program_name, e->results[m].how->name, r + 1, run->broken, q->file, q->line,
                    run->first_broken % e->samples);
            return EXIT_CHECK;
        }
    return EXIT_OK;
}

static int print_equality(const evaluation *e)
{
    size_t different = 0, broken = 0;
    size_t compared = (e->method_count * e->repeats - 1) * e->count * e->samples;
    for (size_t m = 0; m < e->method_count; m++)
        for (size_t r = 0; r < e->repeats; r++) {
            different += e->results[m].runs[r].different;
            broken += e->results[m].runs[r].broken;
        }
    if (compared && e->o->json)
        print_json(json_pack("{s:b,s:I,s:I,s:I}", "answers_equal", !different, "different",
                             (json_int_t)different, "compared", (json_int_t)compared, "broken",
                             (json_int_t)broken));
    else if (compared && !different)
        printf("\nanswers equal: yes (%zu compared)\n", compared);
    else if (compared)
        printf("\nanswers equal: no (%zu of %zu differ%s)\n", different, compared,
               broken ? "" : ", by rounding: between methods with other pieces");
    return print_broken(e);
}

static int print_results(const evaluation *e)
{
    int code = print_scores(e);
    if (code != EXIT_OK)
        return code;
    if (!e->o->json)
        printf("\n%-11s %4s %29s %12s %9s %9s %9s %8s %8s %9s\n", "method", "runs",
               "seconds (least to most)", "processor s", "computed", "generated", "tokens/s",
               "gain", "cpu gain", "different");
    for (size_t m = 0; m < e->method_count; m++)
        print_method(e, &e->results[m]);
    return print_equality(e);
}

/* ------------------------------------------------------------------ options */

/* By default 1, 2, 4, … and all samples. An exit code, or -1. */
static int read_ks(evaluation *e)
{
    if (e->o->ks) {
        e->k_count = read_numbers(e->o->ks, e->ks, MOST_KS);
        if (!e->k_count)
            return usage_error(&bench_eval, "--k takes up to %d numbers, as in 1,8,32", MOST_KS);
        for (size_t i = 0; i < e->k_count; i++)
            if (e->ks[i] < 1 || (size_t)e->ks[i] > e->samples)
                return usage_error(&bench_eval, "--k: 1 to %zu, the number of samples", e->samples);
        return -1;
    }
    for (long k = 1; k < (long)e->samples; k *= 2)
        e->ks[e->k_count++] = k;
    e->ks[e->k_count++] = (long)e->samples;
    return -1;
}

static int add_method(evaluation *e, const char *name, size_t size)
{
    const draw_method *how = NULL;
    for (size_t i = 0; i < DRAW_METHODS; i++)
        if (strlen(draw_methods[i].name) == size && !memcmp(draw_methods[i].name, name, size))
            how = &draw_methods[i];
    if (!how)
        return usage_error(&bench_eval, "--methods: '%.*s' is none of " DRAW_METHOD_NAMES,
                           (int)size, name);
    for (size_t i = 0; i < e->method_count; i++)
        if (e->results[i].how == how)
            return usage_error(&bench_eval, "--methods names %s twice", how->name);
    e->results[e->method_count++].how = how;
    return -1;
}

/* In the order in which they are given. An exit code, or -1. */
static int read_methods(evaluation *e)
{
    const char *at = e->o->methods ? e->o->methods : "two-levels,no-level,one-by-one";
    int code = -1;
    while (*at && code < 0) {
        size_t size = strcspn(at, ",");
        code = add_method(e, at, size);
        at += size + (at[size] == ',');
    }
    return code < 0 && !e->method_count ? usage_error(&bench_eval, "--methods names none") : code;
}

static int set_up(evaluation *e)
{
    const eval_options *o = e->o;
    int code;
    e->samples = (size_t)(o->samples ? o->samples : SAMPLES);
    e->repeats = (size_t)(o->repeats ? o->repeats : 1);
    e->batch = (size_t)(o->batch ? o->batch : BATCH);
    e->checker = (checker){.check = o->checker,
                           .run = o->run,
                           .seconds = o->checker_seconds > 0 ? o->checker_seconds : 10};
    e->draws = (draws){.samples = e->samples, .batch = e->batch};
    e->draws.ram_bytes = (uint64_t)(o->ram ? o->ram : 1024) << 20;
    pc_sampling_init(&e->draws.sampling, sizeof e->draws.sampling);
    e->draws.sampling.temperature = (float)(o->temperature >= 0 ? o->temperature : 0.7);
    e->draws.sampling.top_p = (float)o->top_p;
    e->draws.sampling.top_k = (uint32_t)o->top_k;
    e->draws.sampling.seed = (uint64_t)(o->seed >= 0 ? o->seed : 1);
    if (!(e->results = calloc(DRAW_METHODS, sizeof *e->results)))
        return plain_error("out of memory");
    if ((code = read_ks(e)) < 0)
        code = read_methods(e);
    return code < 0 ? EXIT_OK : code;
}

static int evaluate(evaluation *e, pc_context **context, pc_model **model, draw_prompt **prompts)
{
    int code = set_up(e);
    if (code == EXIT_OK)
        code = read_all(e); /* finds what is wrong before long work */
    if (code == EXIT_OK)
        code = eval_open_model(e->o, context, model);
    if (code == EXIT_OK)
        code = task_model_open(&e->about, *model, 0);
    if (code == EXIT_OK)
        code = make_prompts(e, prompts);
    if (code == EXIT_OK && e->o->save && !(e->save = fopen(e->o->save, "w")))
        code = plain_error("%s: %s", e->o->save, strerror(errno));
    if (code != EXIT_OK)
        return code;
    e->draws.context = *context;
    e->draws.model = *model;
    code = close_save(e, run_methods(e));
    return code == EXIT_OK ? print_results(e) : code;
}

static void free_questions(evaluation *e)
{
    for (size_t i = 0; i < e->count; i++) {
        task_prompt_free(&e->questions[i].prompt);
        answer_rule_free(e->questions[i].rule);
        free(e->questions[i].context);
        free(e->questions[i].wanted);
        json_decref(e->questions[i].row);
    }
    for (size_t i = 0; e->judged && i < e->count * e->samples; i++)
        free(e->judged[i].answer);
    free(e->judged);
    free(e->questions);
}

int eval_samples(const eval_options *o, int votes)
{
    evaluation *e = calloc(1, sizeof *e);
    pc_context *context = NULL;
    pc_model *model = NULL;
    draw_prompt *prompts = NULL;
    int code;
    if (!e)
        return plain_error("out of memory");
    e->o = o;
    e->votes = votes;
    code = evaluate(e, &context, &model, &prompts);
    draws_free(&e->draws);
    free(prompts);
    free_questions(e);
    templates_free(&e->templates);
    json_decref(e->examples);
    free(e->prefix);
    free(e->results);
    pc_model_free(model);
    pc_context_free(context);
    free(e);
    return code;
}
