/* memo show: records, training and thresholds of a memo. */
#include "cmd.h"
#include "memo_session.h"

static int print_totals(const memo_session *s, int json)
{
    pc_memo_stats t = PC_MEMO_STATS_INIT;
    if (pc_memo_get_stats(s->memo, &t) < 0)
        return input_error("memo", NULL);
    if (json)
        print_json(json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "stored", (json_int_t)t.stored,
                             "live", (json_int_t)t.live, "evicted", (json_int_t)t.evicted,
                             "removed", (json_int_t)t.removed, "damaged", (json_int_t)t.damaged,
                             "bytes", (json_int_t)t.bytes, "budget_bytes",
                             (json_int_t)t.budget_bytes, "outputs", (json_int_t)t.outputs));
    else
        printf("%llu records, %llu with their outputs, %.1f MB; %llu evicted, %llu removed, %llu "
               "damaged\n",
               (unsigned long long)t.live, (unsigned long long)t.outputs, (double)t.bytes / 1e6,
               (unsigned long long)t.evicted, (unsigned long long)t.removed,
               (unsigned long long)t.damaged);
    return EXIT_OK;
}

static int run_command_line(int argc, char **argv)
{
    memo_session_options o = {.batch = 1};
    pc_memo_options memo = PC_MEMO_OPTIONS_INIT;
    memo_session s;
    int json = 0, code;
    const option_row rows[] = {
        MEMO_MODEL_ROWS(o),
        {"json", OPTION_FLAG, &json, "JSON, an object a line", NULL, 0, 0},
    };
    const char *others[1];
    size_t count;
    if ((code = read_options(&memo_show, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                             &count))
            >= 0
        || (code = session_check(&memo_show, &o, 0)) >= 0)
        return code;
    memo.flags = PC_MEMO_READ_ONLY;
    watch_interrupt();
    if ((code = session_open(&s, &o, &memo)) == EXIT_OK
        && (code = print_buckets(&s, json)) == EXIT_OK)
        code = print_totals(&s, json);
    session_close(&s);
    return code;
}

const command memo_show = {
    .name = "memo show",
    .usage = "memo show --model M --memo DIR [--json]",
    .summary = "what a memo holds, and where it is used",
    .details = "Records, training and thresholds of a memo, a row for each bucket of lengths. The "
               "memo is only\n"
               "read. --json: an object for each bucket, then one of totals.",
    .run = run_command_line};
