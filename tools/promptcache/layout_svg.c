/* Draws nested boxes, from top to bottom in the order of positions. Modules are frames around their
 * parts. The members of a union start at the same position and stand side by side. A longer text
 * gets more lines. The positions of a box stand in it if there is room, and always in its tooltip.
 *
 * Two passes over the tree: the least width of each box from the inside out, then width, height and
 * place from the outside in. The font has a fixed pitch, so that characters can be counted. */
#include "layout_svg.h"

#include <promptcache/prompt.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum {
    LEFT = 20,
    TOP = 74,
    LEAST_WIDTH = 960, /* of the content */
    LEAF_WIDTH = 132,  /* least width of a text or parameter */
    PAD = 6,
    GAP = 4,
    HEAD = 18, /* line with the name of a frame */
    LINE = 14, /* of text */
    BLANK = 5, /* height of a text that is only blanks */
    MOST_LINES = 5,
    TOKENS_A_LINE = 24,
    RANGE_CELLS = 11 /* "1234-5678" and a blank on both sides */
};
static const double cell = 6.63; /* width of a character at 11 px: a little over 0.6 em */

typedef struct box {
    pc_item item;
    const char *name;   /* last part of the path */
    char *words;        /* the text with single blanks, none at its ends */
    size_t child, next; /* first child, next sibling; 0: none (box 0 is the root) */
    int width, height, least;
} box;

typedef struct drawing {
    FILE *out;
    const pc_schema *schema;
    box *boxes;         /* [count], document order, the root first */
    size_t count, read; /* read: boxes so far, with the root */
} drawing;

/* ---------------------------------------------------------------- text */

/* Bytes and width in cells (2: East Asian, emoji) of the character at `text`. */
static size_t character(const char *text, int *cells)
{
    unsigned char c = (unsigned char)text[0];
    size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2, i = 1;
    *cells = c >= 0xf0 || (c >= 0xe1 && c != 0xe2) ? 2 : 1;
    while (i < n && text[i])
        i++;
    return i;
}

static int is_blank(char c)
{
    return (unsigned char)c <= ' ';
}

static const char *skip_blanks(const char *text)
{
    while (*text && is_blank(*text))
        text++;
    return text;
}

/* A copy with single blanks between words and none at the ends; NULL: out of memory. */
static char *single_blanks(const char *text)
{
    char *copy = malloc(strlen(text) + 1), *at = copy;
    for (const char *c = skip_blanks(text); copy && *c; c++)
        if (!is_blank(*c))
            *at++ = *c;
        else if (*skip_blanks(c) && !is_blank(c[-1]))
            *at++ = ' ';
    if (copy)
        *at = 0;
    return copy;
}

/* The end of what fits into `room` cells: after a word if one ends in the last two thirds. */
static const char *line_end(const char *text, int room)
{
    const char *at = text, *word = NULL;
    int used = 0, cells;
    while (*at) {
        size_t n = character(at, &cells);
        if (used + cells > room)
            return word ? word : at;
        if (is_blank(*at) && 3 * used > room)
            word = at;
        used += cells;
        at += n;
    }
    return at;
}

static void escaped(FILE *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        switch (text[i]) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(is_blank(text[i]) || text[i] == 127 ? ' ' : text[i], out);
        }
}

/* One line of text; cut: the text goes on, which an ellipsis shows. */
static void put_line(FILE *out, int x, int y, const char *class, const char *text, size_t size,
                     int cut)
{
    fprintf(out, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
    escaped(out, text, size);
    fprintf(out, "%s</text>\n", cut ? "…" : "");
}

static void put_range(FILE *out, int right, int y, const pc_item *item)
{
    long long first = item->start, last = item->start + item->length - 1;
    fprintf(out, "<text x=\"%d\" y=\"%d\" class=\"range\">", right, y);
    if (item->length > 1)
        fprintf(out, "%lld–%lld</text>\n", first, last);
    else
        fprintf(out, item->length ? "%lld</text>\n" : "</text>\n", first);
}

/* ---------------------------------------------------------------- sizes */

static int is_leaf(const box *b)
{
    return b->item.kind == PC_ITEM_TEXT || b->item.kind == PC_ITEM_PARAMETER
           || b->item.kind == PC_ITEM_SLOT;
}

static int is_thin(const box *b)
{
    return b->item.kind == PC_ITEM_TEXT && !*b->words;
}

static int cells_of(int width)
{
    return (int)((width - 2 * PAD) / cell);
}

/* Cells for the lines of a leaf: the range stands beside them if they are long enough. */
static int room_of(const box *b)
{
    int cells = cells_of(b->width);
    return cells >= 3 * RANGE_CELLS ? cells - RANGE_CELLS : cells;
}

static int line_count(const box *b)
{
    long long wanted = 1 + (b->item.length - 1) / TOKENS_A_LINE;
    int most = wanted < MOST_LINES ? (int)wanted : MOST_LINES, lines = 0;
    const char *at = b->words;
    while (*at && lines < most) {
        at = skip_blanks(line_end(at, room_of(b)));
        lines++;
    }
    return lines ? lines : 1;
}

static void least_width(drawing *d, box *b)
{
    int widest = 0, sum = 0;
    for (size_t c = b->child; c; c = d->boxes[c].next) {
        least_width(d, &d->boxes[c]);
        widest = d->boxes[c].least > widest ? d->boxes[c].least : widest;
        sum += d->boxes[c].least + (sum ? GAP : 0);
    }
    if (b->item.kind == PC_ITEM_UNION)
        widest = sum;
    b->least = is_leaf(b) || !widest ? LEAF_WIDTH : widest + 2 * PAD;
}

static void set_size(drawing *d, box *b, int width);

/* Members share the width that is left beyond their least widths; the tallest one decides. */
static int union_height(drawing *d, const box *b)
{
    int members = 0, extra = b->width - b->least, height = 0, nth = 0;
    for (size_t c = b->child; c; c = d->boxes[c].next)
        members++;
    for (size_t c = b->child; c; c = d->boxes[c].next, nth++) {
        box *member = &d->boxes[c];
        set_size(d, member, member->least + extra * (nth + 1) / members - extra * nth / members);
        height = member->height > height ? member->height : height;
    }
    return height + (members ? PAD : 0);
}

static void set_size(drawing *d, box *b, int width)
{
    b->width = width;
    if (b->item.kind == PC_ITEM_TEXT) {
        b->height = is_thin(b) ? BLANK : line_count(b) * LINE + PAD;
        return;
    }
    b->height = is_leaf(b) ? LINE + PAD : HEAD;
    if (b->item.kind == PC_ITEM_UNION) {
        b->height += union_height(d, b);
        return;
    }
    for (size_t c = b->child; c; c = d->boxes[c].next) {
        set_size(d, &d->boxes[c], width - 2 * PAD);
        b->height += d->boxes[c].height + (d->boxes[c].next ? GAP : PAD);
    }
}

/* -------------------------------------------------------------- drawing */

static void put_rectangle(const drawing *d, const box *b, int x, int y)
{
    static const char *const classes[] = {"", "module", "union", "text", "parameter", "parameter"};
    static const char *const kinds[] = {"", "module ", "one of", "text of ", "parameter ", "slot "};
    fprintf(d->out,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" class=\"%s%s\"><title>", x,
            y, b->width, b->height, classes[b->item.kind],
            b->item.flags & PC_ITEM_UNCACHED ? " uncached" : "");
    fputs(kinds[b->item.kind], d->out);
    if (b->item.kind != PC_ITEM_UNION)
        escaped(d->out, *b->item.path ? b->item.path : "the schema",
                *b->item.path ? strlen(b->item.path) : 10);
    fprintf(d->out, ", %lld position%s from %lld%s", (long long)b->item.length,
            b->item.length == 1 ? "" : "s", (long long)b->item.start,
            b->item.flags & PC_ITEM_UNCACHED ? ", not cached" : "");
    if (*b->item.text) {
        fputs(": ", d->out);
        escaped(d->out, b->item.text, strlen(b->item.text));
    }
    fputs("</title></rect>\n", d->out);
}

static void put_text(const drawing *d, const box *b, int x, int y)
{
    const char *at = b->words;
    int lines = line_count(b), room = room_of(b);
    for (int i = 0; i < lines && *at; i++) {
        const char *end = line_end(at, room), *next = skip_blanks(end);
        if (i + 1 == lines && *next) /* room for the ellipsis */
            end = line_end(at, room - 1);
        while (end > at && is_blank(end[-1]))
            end--;
        put_line(d->out, x + PAD, y + (i + 1) * LINE - 1, "words", at, (size_t)(end - at),
                 i + 1 == lines && *next);
        at = next;
    }
    if (room < cells_of(b->width))
        put_range(d->out, x + b->width - PAD, y + LINE - 1, &b->item);
}

/* The name of a frame or parameter, and its range if there is room. */
static void put_name(const drawing *d, const box *b, int x, int y)
{
    char label[256];
    const char *end;
    int room = cells_of(b->width), ranged = room >= 2 * RANGE_CELLS;
    if (b->item.kind == PC_ITEM_UNION)
        snprintf(label, sizeof label, "one of");
    else if (b->item.kind == PC_ITEM_PARAMETER)
        snprintf(label, sizeof label, "%.180s: up to %lld", b->name, (long long)b->item.length);
    else if (b->item.kind == PC_ITEM_SLOT)
        snprintf(label, sizeof label, "%.180s: each request's text", b->name);
    else
        snprintf(label, sizeof label, "%.200s", b->name);
    if (ranged) {
        put_range(d->out, x + b->width - PAD, y + 13, &b->item);
        room -= RANGE_CELLS;
    }
    end = line_end(label, room);
    if (*end)
        end = line_end(label, room - 1);
    put_line(d->out, x + PAD, y + 13, b->item.kind == PC_ITEM_MODULE ? "name" : "kind", label,
             (size_t)(end - label), *end);
}

static void put_box(const drawing *d, const box *b, int x, int y)
{
    int at_x = x + PAD, at_y = y + HEAD;
    put_rectangle(d, b, x, y);
    if (b->item.kind == PC_ITEM_TEXT && !is_thin(b))
        put_text(d, b, x, y);
    else if (b->item.kind != PC_ITEM_TEXT)
        put_name(d, b, x, y);
    for (size_t c = b->child; c; c = d->boxes[c].next) {
        put_box(d, &d->boxes[c], at_x, at_y);
        if (b->item.kind == PC_ITEM_UNION)
            at_x += d->boxes[c].width + GAP;
        else
            at_y += d->boxes[c].height + GAP;
    }
}

static int put_sample(FILE *out, int x, const char *class, const char *label)
{
    fprintf(out, "<rect x=\"%d\" y=\"50\" width=\"22\" height=\"13\" rx=\"3\" class=\"%s\"/>\n", x,
            class);
    put_line(out, x + 28, 61, "kind", label, strlen(label), 0);
    return x + 28 + (int)((double)strlen(label) * cell) + 18;
}

static void put_head(const drawing *d)
{
    long long cached = 0, parameters = 0, fresh = 0;
    const char *name = pc_schema_name(d->schema);
    int x = LEFT;
    for (size_t i = 1; i < d->count; i++) {
        const pc_item *item = &d->boxes[i].item;
        if (item->kind == PC_ITEM_TEXT)
            *(item->flags & PC_ITEM_UNCACHED ? &fresh : &cached) += item->length;
        else if (item->kind == PC_ITEM_PARAMETER)
            parameters += item->length;
    }
    put_line(d->out, LEFT, 22, "title", name, strlen(name) < 80 ? strlen(name) : 80,
             strlen(name) > 80);
    fprintf(d->out,
            "<text x=\"%d\" y=\"40\" class=\"kind\">%lld positions; over all modules %lld tokens of"
            " cached text, %lld of parameters, %lld not cached</text>\n",
            LEFT, (long long)pc_schema_length(d->schema), cached, parameters, fresh);
    x = put_sample(d->out, x, "module", "module");
    x = put_sample(d->out, x, "union", "union: one of its members");
    x = put_sample(d->out, x, "text", "cached text");
    x = put_sample(d->out, x, "parameter", "parameter: tokens of an argument");
    put_sample(d->out, x, "text uncached", "not cached");
}

static void picture(drawing *d)
{
    int width, y = TOP, height = TOP + LEFT;
    box *root = &d->boxes[0];
    least_width(d, root);
    width = root->least > LEAST_WIDTH ? root->least : LEAST_WIDTH;
    for (size_t c = root->child; c; c = d->boxes[c].next) {
        set_size(d, &d->boxes[c], width);
        height += d->boxes[c].height + GAP;
    }
    width += 2 * LEFT;
    fprintf(
        d->out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
        "%d\">\n"
        "<style>\n"
        "rect { stroke-width: 1 }\n"
        "text { font: 11px \"DejaVu Sans Mono\", Menlo, Consolas, monospace; fill: #333;"
        " white-space: pre }\n"
        ".module { fill: #eef3fb; stroke: #4a78b8 } .union { fill: #f6f0fb; stroke: #8a5bb0 }\n"
        ".text { fill: #dff0e2; stroke: #4f8a59 } .parameter { fill: #fdeecf; stroke: #c98a2b }\n"
        ".uncached { fill: #fff; stroke-dasharray: 4 3 }\n"
        ".title { font-size: 16px; font-weight: bold; fill: #111 }"
        " .name { font-weight: bold; fill: #1f4f8f }\n"
        ".words { fill: #143d1c } .range { fill: #666; text-anchor: end }\n"
        "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        width, height, width, height);
    put_head(d);
    for (size_t c = root->child; c; c = d->boxes[c].next) {
        put_box(d, &d->boxes[c], LEFT, y);
        y += d->boxes[c].height + GAP;
    }
    fputs("</svg>\n", d->out);
}

/* ------------------------------------------------------------- the tree */

/* Makes a tree of the items, which come in document order with their depths. 0: out of memory. */
static int read_items(drawing *d)
{
    size_t items = pc_schema_item_count(d->schema), *last; /* last[depth]: the latest box there */
    d->count = items + 1;
    d->read = 1;
    d->boxes = calloc(d->count, sizeof *d->boxes);
    last = calloc(d->count + 1, sizeof *last);
    for (size_t i = 1; last && d->boxes && i < d->count; i++) {
        box *b = &d->boxes[i];
        b->item = (pc_item)PC_ITEM_INIT;
        pc_schema_get_item(d->schema, i - 1, &b->item);
        if (!(b->words = single_blanks(b->item.text)))
            break;
        d->read = i + 1;
        b->name = strrchr(b->item.path, '/') ? strrchr(b->item.path, '/') + 1 : b->item.path;
        size_t depth = b->item.depth, parent = depth ? last[depth - 1] : 0;
        if (d->boxes[parent].child)
            d->boxes[last[depth]].next = i;
        else
            d->boxes[parent].child = i;
        last[depth] = i;
    }
    free(last);
    return d->boxes && last && d->read == d->count;
}

static void free_boxes(drawing *d)
{
    for (size_t i = 0; d->boxes && i < d->read; i++)
        free(d->boxes[i].words);
    free(d->boxes);
}

int write_layout_svg(const pc_schema *schema, const char *path)
{
    drawing d = {.schema = schema};
    int code = EXIT_OK, failed;
    if (!read_items(&d)) {
        free_boxes(&d);
        return plain_error("%s: out of memory", path);
    }
    errno = 0;
    if ((d.out = fopen(path, "w"))) {
        picture(&d);
        failed = ferror(d.out);
        if (fclose(d.out) || failed)
            code = write_failed(path, errno);
    } else {
        code = plain_error("%s: %s", path, strerror(errno));
    }
    free_boxes(&d);
    return code;
}
