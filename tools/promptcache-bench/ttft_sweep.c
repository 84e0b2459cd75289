/* Prints and draws a sweep over lengths. Bars have a logarithmic scale: each way grows by a power
 * of the length, and the shortest times stay visible. */
#include "ttft_sweep.h"

#include <math.h>

enum { BAR = 50 };
static const char *const way_names[SWEEP_WAYS] = {"recompute", "copy", "share"};

void sweep_set(sweep_row *row, int way, double *seconds, size_t count)
{
    row->median[way] = 1e3 * median(seconds, count);
    row->low[way] = 1e3 * seconds[0];
    row->high[way] = 1e3 * seconds[count - 1];
}

static void print_row_json(const sweep_row *r)
{
    json_t *row = json_object();
    json_object_set_new(row, "context", json_integer(r->context));
    json_object_set_new(row, "new_tokens", json_integer(r->fresh));
    json_object_set_new(row, "state_bytes", json_number(r->bytes));
    for (int way = 0; way < SWEEP_WAYS; way++) {
        char key[32];
        snprintf(key, sizeof key, "%s_ms", way_names[way]);
        json_object_set_new(row, key, json_number(r->median[way]));
        snprintf(key, sizeof key, "%s_low_ms", way_names[way]);
        json_object_set_new(row, key, json_number(r->low[way]));
        snprintf(key, sizeof key, "%s_high_ms", way_names[way]);
        json_object_set_new(row, key, json_number(r->high[way]));
    }
    print_json(row);
}

static void print_table(const sweep_row *rows, size_t count)
{
    printf("%8s %5s %9s", "context", "new", "states MB");
    for (int way = 0; way < SWEEP_WAYS; way++)
        printf("  %27s", way_names[way]);
    printf("  %10s %10s\n", "copy gains", "share gains");
    for (const sweep_row *r = rows; r < rows + count; r++) {
        printf("%8ld %5ld %9.1f", r->context, r->fresh, r->bytes / 1e6);
        for (int way = 0; way < SWEEP_WAYS; way++) {
            char text[48];
            snprintf(text, sizeof text, "%.2f (%.2f to %.2f)", r->median[way], r->low[way],
                     r->high[way]);
            printf("  %27s", text);
        }
        printf("  %9.1fx %9.1fx\n", r->median[SWEEP_RECOMPUTE] / r->median[SWEEP_COPY],
               r->median[SWEEP_RECOMPUTE] / r->median[SWEEP_SHARE]);
    }
}

static void print_bars(const sweep_row *rows, size_t count)
{
    double low = INFINITY, high = 0, range;
    for (const sweep_row *r = rows; r < rows + count; r++)
        for (int way = 0; way < SWEEP_WAYS; way++) {
            low = fmin(low, r->median[way]);
            high = fmax(high, r->median[way]);
        }
    range = log(high / low);
    printf("\nTTFT in ms, on a logarithmic scale from %.2f to %.2f\n", low, high);
    for (const sweep_row *r = rows; r < rows + count; r++)
        for (int way = 0; way < SWEEP_WAYS; way++) {
            double share = range > 0 ? log(r->median[way] / low) / range : 1;
            if (way)
                printf("%8s %-9s |", "", way_names[way]);
            else
                printf("%8ld %-9s |", r->context, way_names[way]);
            for (int i = 0; i < 1 + (int)(share * (BAR - 1) + 0.5); i++)
                putchar('#');
            printf(" %.2f\n", r->median[way]);
        }
}

void sweep_print(const sweep_row *rows, size_t count, int json)
{
    for (size_t i = 0; json && i < count; i++)
        print_row_json(&rows[i]);
    if (json)
        return;
    print_table(rows, count);
    print_bars(rows, count);
}

int sweep_plot(const sweep_row *rows, size_t count, const char *path)
{
    static plot p;
    p = (plot){.title = "Time to the first token by the length of the context",
               .x_label = "tokens of the context",
               .y_label = "ms"};
    for (size_t i = 0; i < count; i++)
        for (int way = 0; way < SWEEP_WAYS; way++)
            plot_point(&p, way_names[way], way, way, (double)rows[i].context, rows[i].median[way]);
    return plot_write(&p, path);
}
