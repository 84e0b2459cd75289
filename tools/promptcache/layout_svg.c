/* The layout as a picture: positions run to the right; modules are frames, members of a union stand
 * below each other in lanes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { WIDTH = 1200, LEFT = 20, TOP = 60, LANE = 26 };

static void escaped(FILE *out, const char *text, size_t most)
{
    for (size_t i = 0; text[i] && i < most; i++)
        switch (text[i]) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc((unsigned char)text[i] < 32 ? ' ' : text[i], out);
        }
}

/* Lane of an item: below everything that was drawn at its positions and is not around it. */
static size_t lane_of(const pc_item *items, const size_t *lanes, size_t index)
{
    size_t lane = 0;
    for (size_t i = 0; i < index; i++) {
        int overlaps = items[i].start < items[index].start + items[index].length &&
                       items[index].start < items[i].start + items[i].length;
        if (overlaps && lanes[i] >= lane)
            lane = lanes[i] + 1;
    }
    return lane;
}

static void draw(FILE *out, const pc_item *item, size_t lane, double scale)
{
    static const char *const fill[] = {"#fff", "#eef3fb", "#f6f0fb", "#9cc4a3", "url(#hatch)"};
    static const char *const line[] = {"#000", "#4a78b8", "#8a5bb0", "#4f8a59", "#c98a2b"};
    double x = LEFT + (double)item->start * scale, w = (double)item->length * scale,
           y = TOP + (double)(lane * LANE);
    const char *name = strrchr(item->path, '/') ? strrchr(item->path, '/') + 1 : item->path;
    fprintf(out,
            "<g><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"3\" fill=\"%s\" "
            "stroke=\"%s\"%s/><title>",
            x, y, w < 1 ? 1 : w, LANE - 4,
            item->flags & PC_ITEM_UNCACHED ? "#fff" : fill[item->kind], line[item->kind],
            item->flags & PC_ITEM_UNCACHED ? " stroke-dasharray=\"4 3\"" : "");
    escaped(out, item->path, 200);
    fprintf(out, " %lld+%lld ", (long long)item->start, (long long)item->length);
    escaped(out, item->text, 400);
    fputs("</title>", out);
    const char *label = item->kind == PC_ITEM_TEXT ? item->text : name;
    size_t room = w > 16 ? (size_t)((w - 8) / 6.6) : 0;
    if (room > 2 && *label) {
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">", x + 4, y + 15);
        escaped(out, label, room);
        fputs("</text>", out);
    }
    fputs("</g>\n", out);
}

static void legend(FILE *out, const pc_schema *schema, double scale)
{
    fprintf(out, "<text x=\"%d\" y=\"20\" font-size=\"14\">", LEFT);
    escaped(out, pc_schema_name(schema), 80);
    fprintf(out,
            ": %lld positions (blue: module, violet: union, green: cached text, hatched: "
            "parameter, dashed: not cached)</text>\n",
            (long long)pc_schema_length(schema));
    for (int i = 0; i <= 10; i++) {
        double at = (double)pc_schema_length(schema) * i / 10;
        fprintf(out, "<text x=\"%.1f\" y=\"48\" fill=\"#666\" text-anchor=\"middle\">%.0f</text>\n",
                LEFT + at * scale, at);
    }
}

static void picture(FILE *out, const pc_schema *schema, const pc_item *items, const size_t *lanes,
                    size_t count, size_t deepest)
{
    double scale = (double)(WIDTH - 2 * LEFT) /
                   (double)(pc_schema_length(schema) ? pc_schema_length(schema) : 1);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n"
            "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
            "patternTransform=\"rotate(45)\">"
            "<rect width=\"6\" height=\"6\" fill=\"#fdf3df\"/><line x1=\"0\" y1=\"0\" x2=\"0\" "
            "y2=\"6\" stroke=\"#e0a94a\" stroke-width=\"2\"/>"
            "</pattern></defs>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            WIDTH, TOP + (deepest + 1) * LANE + 20);
    legend(out, schema, scale);
    for (size_t i = 0; i < count; i++)
        draw(out, &items[i], lanes[i], scale);
    fputs("</svg>\n", out);
}

int write_layout_svg(const pc_schema *schema, const char *path)
{
    size_t count = pc_schema_item_count(schema), deepest = 0;
    pc_item *items = calloc(count + 1, sizeof *items);
    size_t *lanes = calloc(count + 1, sizeof *lanes);
    FILE *out = fopen(path, "w");
    int code = EXIT_OK;
    if (!out || !items || !lanes) {
        fprintf(stderr, "promptcache: %s: %s\n", path, strerror(errno));
        code = EXIT_INPUT;
    }
    for (size_t i = 0; code == EXIT_OK && i < count; i++) {
        items[i] = (pc_item)PC_ITEM_INIT;
        pc_schema_get_item(schema, i, &items[i]);
        lanes[i] = lane_of(items, lanes, i);
        deepest = lanes[i] > deepest ? lanes[i] : deepest;
    }
    if (code == EXIT_OK)
        picture(out, schema, items, lanes, count, deepest);
    if (out && fclose(out))
        code = EXIT_INPUT;
    free(items);
    free(lanes);
    return code;
}
