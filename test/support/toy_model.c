#include "toy_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

enum {
    LAYERS = 2,
    WIDTH = 16,
    HEADS = 2,
    DIM = WIDTH / HEADS,
    INNER = 32,
    STATES = LAYERS * 2 * WIDTH
};

static const char *const words[TOY_VOCAB - TOY_WORDS] = {
    " the", " a",    " of",   " and",  " to",   " in",   " is",    " it",   " you",  " that",
    " he",  " was",  " for",  " on",   " are",  " with", " as",    " his",  " they", " be",
    " at",  " one",  " have", " this", " from", " or",   " had",   " by",   " hot",  " word",
    " but", " what", " some", " we",   " can",  " out",  " other", " were", " all",  " there"};

typedef struct layer {
    float q[WIDTH * WIDTH], k[WIDTH * WIDTH], v[WIDTH * WIDTH], o[WIDTH * WIDTH], up[INNER * WIDTH],
        down[WIDTH * INNER];
} layer;

struct pc_toy {
    float embedding[TOY_VOCAB * WIDTH];
    layer layers[LAYERS];
    int learned;
    int32_t context_length;
    uint64_t seed;
    pc_toy_counts counts;
};

/* K and V of one token, all layers. */
typedef struct state {
    float k[LAYERS][WIDTH], v[LAYERS][WIDTH];
} state;

typedef struct segment {
    size_t references, count;
    int64_t origin;
    int64_t *relative;
    state *states;
} segment;

typedef struct attached {
    segment *segment;
    int64_t start;
    uint32_t lo, hi;
} attached;

typedef struct sequence {
    attached *attached;
    size_t attached_count;
    int64_t *positions;
    state *states;
    size_t count, capacity;
} sequence;

static void *must(void *ptr)
{
    if (!ptr)
        abort();
    return ptr;
}

static void fill(pc_test_rng *rng, float *to, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++)
        to[i] = scale * pc_test_normal(rng);
}

pc_toy *pc_toy_new(uint64_t seed, int learned, int32_t context_length)
{
    pc_toy *toy = must(calloc(1, sizeof *toy));
    pc_test_rng rng = {seed};
    toy->learned = learned;
    toy->context_length = context_length;
    toy->seed = seed;
    fill(&rng, toy->embedding, TOY_VOCAB * WIDTH, 1);
    for (int l = 0; l < LAYERS; l++) {
        layer *w = &toy->layers[l];
        float scale = 1.2f / sqrtf(WIDTH);
        fill(&rng, w->q, WIDTH * WIDTH, scale);
        fill(&rng, w->k, WIDTH * WIDTH, scale);
        fill(&rng, w->v, WIDTH * WIDTH, scale);
        fill(&rng, w->o, WIDTH * WIDTH, 2 * scale);
        fill(&rng, w->up, INNER * WIDTH, scale);
        fill(&rng, w->down, WIDTH * INNER, scale);
    }
    return toy;
}

void pc_toy_free(void *toy)
{
    free(toy);
}

pc_toy_counts *pc_toy_count(pc_toy *toy)
{
    return &toy->counts;
}

static void multiply(const float *w, const float *x, size_t rows, size_t cols, float *y)
{
    for (size_t r = 0; r < rows; r++) {
        y[r] = 0;
        for (size_t c = 0; c < cols; c++)
            y[r] += w[r * cols + c] * x[c];
    }
}

static void normalise(const float *x, float *y)
{
    float sum = 1e-5f;
    for (int i = 0; i < WIDTH; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < WIDTH; i++)
        y[i] = x[i] / sqrtf(sum / (float)WIDTH);
}

/* A key that a row sees. */
typedef struct key {
    const state *state;
    int64_t distance;
} key;

static float score(const pc_toy *toy, const float *q, const float *k, int64_t distance)
{
    float sum = 0;
    for (int i = 0; i < DIM / 2; i++) {
        double angle = toy->learned ? 0 : (double)distance / pow(50.0, 2.0 * i / (double)DIM);
        float c = (float)cos(angle), s = (float)sin(angle), a = q[2 * i], b = q[2 * i + 1];
        sum += (a * c - b * s) * k[2 * i] + (a * s + b * c) * k[2 * i + 1];
    }
    return sum / sqrtf(DIM);
}

static void attend(const pc_toy *toy, int l, const float *q, const key *keys, size_t count,
                   float *scores, float *out)
{
    for (int h = 0; h < HEADS; h++) {
        float most = -INFINITY, total = 0;
        for (size_t i = 0; i < count; i++) {
            scores[i] = score(toy, q + h * DIM, keys[i].state->k[l] + h * DIM, keys[i].distance);
            most = scores[i] > most ? scores[i] : most;
        }
        for (int d = 0; d < DIM; d++)
            out[h * DIM + d] = 0;
        for (size_t i = 0; i < count; i++) {
            float p = expf(scores[i] - most);
            total += p;
            for (int d = 0; d < DIM; d++)
                out[h * DIM + d] += p * keys[i].state->v[l][h * DIM + d];
        }
        for (int d = 0; d < DIM; d++)
            out[h * DIM + d] /= total;
    }
}

/* One token through all layers; `mine` gets its states and is the last of the keys. */
static void compute(const pc_toy *toy, int32_t token, int64_t position, const key *keys,
                    size_t count, state *mine, float *logits, float *hidden)
{
    float x[WIDTH], h[WIDTH], q[WIDTH], a[WIDTH], o[WIDTH], inner[INNER];
    float *scores = must(malloc((count + 1) * sizeof *scores));
    memcpy(x, toy->embedding + (size_t)token * WIDTH, sizeof x);
    for (int i = 0; toy->learned && i < WIDTH; i++)
        x[i] += (float)sin((double)position * (0.05 + 0.11 * i) + i);
    for (int l = 0; l < LAYERS; l++) {
        const layer *w = &toy->layers[l];
        normalise(x, h);
        multiply(w->q, h, WIDTH, WIDTH, q);
        multiply(w->k, h, WIDTH, WIDTH, mine->k[l]);
        multiply(w->v, h, WIDTH, WIDTH, mine->v[l]);
        attend(toy, l, q, keys, count, scores, a);
        multiply(w->o, a, WIDTH, WIDTH, o);
        for (int i = 0; i < WIDTH; i++)
            x[i] += o[i];
        normalise(x, h);
        multiply(w->up, h, INNER, WIDTH, inner);
        for (int i = 0; i < INNER; i++)
            inner[i] = tanhf(inner[i]);
        multiply(w->down, inner, WIDTH, INNER, o);
        for (int i = 0; i < WIDTH; i++)
            x[i] += o[i];
    }
    normalise(x, h);
    if (logits)
        multiply(toy->embedding, h, TOY_VOCAB, WIDTH, logits);
    if (hidden)
        memcpy(hidden, h, sizeof h);
    free(scores);
}

static pc_status describe(void *user, pc_model_info *info)
{
    const pc_toy *toy = user;
    strcpy(info->architecture, "toy");
    memset(info->fingerprint, 0x70, sizeof info->fingerprint);
    info->fingerprint[0] = (uint8_t)toy->seed;
    info->fingerprint[1] = (uint8_t)toy->learned;
    info->layers = LAYERS;
    info->heads = info->kv_heads = HEADS;
    info->head_dim = DIM;
    info->hidden = WIDTH;
    info->vocab = TOY_VOCAB;
    info->context_length = toy->context_length;
    info->position_scheme = toy->learned ? PC_POSITION_LEARNED : PC_POSITION_ROPE;
    info->compute = PC_DTYPE_F32;
    info->relocatable = !toy->learned;
    info->token_bos = TOY_BOS;
    info->token_eos = TOY_EOS;
    info->token_unk = TOY_UNK;
    info->token_pad = -1;
    info->kv_bytes_per_token = sizeof(state);
    return PC_OK;
}

static int32_t next_token(const char *text, size_t size, uint64_t flags, size_t *length)
{
    if (flags & PC_TOKENIZE_SPECIAL) {
        if (size >= 3 && !memcmp(text, "<s>", 3))
            return (*length = 3), TOY_BOS;
        if (size >= 4 && !memcmp(text, "</s>", 4))
            return (*length = 4), TOY_EOS;
    }
    for (int32_t w = 0; w < TOY_VOCAB - TOY_WORDS; w++) {
        *length = strlen(words[w]);
        if (size >= *length && !memcmp(text, words[w], *length)
            && (size == *length || text[*length] < 'a' || text[*length] > 'z'))
            return TOY_WORDS + w;
    }
    *length = 1;
    return TOY_BYTES + (unsigned char)*text;
}

static pc_status tokenize(void *user, const char *text, size_t size, uint64_t flags,
                          int32_t *tokens, size_t capacity, size_t *count)
{
    size_t n = 0;
    (void)user;
    if (flags & PC_TOKENIZE_BOS) {
        if (n < capacity)
            tokens[n] = TOY_BOS;
        n++;
    }
    for (size_t at = 0, length; at < size; at += length, n++) {
        int32_t token = next_token(text + at, size - at, flags, &length);
        if (n < capacity)
            tokens[n] = token;
    }
    *count = n;
    return capacity && n > capacity ? PC_ERR_LIMIT : PC_OK;
}

static pc_status detokenize(void *user, const int32_t *tokens, size_t count, uint64_t flags,
                            char *text, size_t capacity, size_t *size)
{
    size_t n = 0;
    (void)user;
    for (size_t i = 0; i < count; i++) {
        char byte[2] = {(char)(tokens[i] - TOY_BYTES), 0};
        const char *piece = tokens[i] == TOY_BOS   ? "<s>"
                            : tokens[i] == TOY_EOS ? "</s>"
                            : tokens[i] == TOY_UNK ? "<unk>"
                                                   : byte;
        size_t length = tokens[i] >= TOY_BYTES        ? 1
                        : flags & PC_TOKENIZE_SPECIAL ? strlen(piece)
                                                      : 0;
        if (tokens[i] >= TOY_WORDS) {
            piece = words[tokens[i] - TOY_WORDS];
            length = strlen(piece);
        }
        for (size_t b = 0; b < length; b++, n++)
            if (n < capacity)
                text[n] = piece[b];
    }
    *size = n;
    return capacity && n > capacity ? PC_ERR_LIMIT : PC_OK;
}

static void release(void *user, void *payload)
{
    pc_toy *toy = user;
    segment *s = payload;
    if (--s->references)
        return;
    toy->counts.live_segments--;
    toy->counts.live_tokens -= s->count;
    free(s->relative);
    free(s->states);
    free(s);
}

static segment *cut_out(pc_toy *toy, const pc_encode_args *args, pc_token_range cut,
                        const state *states)
{
    segment *s = must(calloc(1, sizeof *s));
    s->references = 1;
    s->count = cut.count;
    s->origin = args->positions[cut.first];
    s->relative = must(malloc(cut.count * sizeof *s->relative));
    s->states = must(malloc(cut.count * sizeof *s->states));
    for (size_t i = 0; i < cut.count; i++)
        s->relative[i] = args->positions[cut.first + i] - s->origin;
    memcpy(s->states, states + cut.first, cut.count * sizeof *s->states);
    toy->counts.live_segments++;
    toy->counts.live_tokens += s->count;
    return s;
}

static pc_status has_room(pc_toy *toy, size_t tokens)
{
    if (!toy->counts.pool || toy->counts.live_tokens + tokens <= toy->counts.pool)
        return PC_OK;
    toy->counts.full++;
    return PC_ERR_LIMIT;
}

static size_t see_segment(const segment *s, int64_t start, uint32_t lo, uint32_t hi,
                          int64_t position, uint32_t see, key *keys)
{
    size_t n = 0;
    for (uint32_t j = lo; j < hi; j++)
        if (see == PC_VISIBLE_ALL || start + s->relative[j] <= position)
            keys[n++] = (key){&s->states[j], position - start - s->relative[j]};
    return n;
}

static int stop_now(pc_toy *toy, int32_t (*cancelled)(void *), void *user)
{
    toy->counts.polls++;
    return cancelled && cancelled(user);
}

static pc_status may_stand(const pc_toy *toy, const segment *s, int64_t start)
{
    return toy->learned && start != s->origin ? PC_ERR_UNSUPPORTED : PC_OK;
}

static pc_status encode(void *user, const pc_encode_args *args, void **segments)
{
    pc_toy *toy = user;
    state *states = must(malloc((args->count + 1) * sizeof *states));
    size_t visible = 0, kept = 0;
    pc_status status = ++toy->counts.encode_calls == toy->counts.fail_encode_at ? PC_ERR_IO : PC_OK;
    for (size_t v = 0; v < args->visible_count; v++) {
        visible += args->visible[v].hi;
        status = status < 0 ? status
                            : may_stand(toy, args->visible[v].segment, args->visible[v].start);
    }
    key *keys = must(malloc((visible + args->count + 1) * sizeof *keys));
    for (size_t i = 0; i < args->count && status >= 0; i++) {
        size_t n = 0;
        if (i && args->positions[i] <= args->positions[i - 1])
            status = PC_ERR_INVALID;
        else if (stop_now(toy, args->cancelled, args->cancel_user))
            status = PC_ERR_CANCELLED;
        for (size_t v = 0; v < args->visible_count; v++)
            n += see_segment(args->visible[v].segment, args->visible[v].start, args->visible[v].lo,
                             args->visible[v].hi, args->positions[i], PC_VISIBLE_BY_POSITION,
                             keys + n);
        for (size_t j = 0; j <= i; j++)
            keys[n++] = (key){&states[j], args->positions[i] - args->positions[j]};
        if (status >= 0)
            compute(toy, args->tokens[i], args->positions[i], keys, n, &states[i], NULL, NULL);
    }
    for (size_t c = 0; c < args->range_count; c++)
        kept += args->ranges[c].count;
    status = status < 0 ? status : has_room(toy, kept);
    for (size_t c = 0; c < args->range_count && status >= 0; c++)
        segments[c] = cut_out(toy, args, args->ranges[c], states);
    toy->counts.encoded_tokens += status >= 0 ? args->count : 0;
    free(keys);
    free(states);
    return status;
}

static pc_status size_of(void *user, void *payload, uint64_t *bytes)
{
    (void)user;
    *bytes = ((segment *)payload)->count * sizeof(state);
    return PC_OK;
}

static pc_status sequence_new(void *user, const pc_sequence_args *args, void **out)
{
    (void)args;
    *out = must(calloc(1, sizeof(sequence)));
    ((pc_toy *)user)->counts.live_sequences++;
    return PC_OK;
}

static void drop(void *user, void *dropped)
{
    sequence *s = dropped;
    for (size_t i = 0; i < s->attached_count; i++)
        release(user, s->attached[i].segment);
    free(s->attached);
    free(s->positions);
    free(s->states);
    free(s);
    ((pc_toy *)user)->counts.live_sequences--;
}

static pc_status attach(void *user, void *to, const pc_span *placement)
{
    sequence *s = to;
    segment *what = placement->segment;
    pc_status status = may_stand(user, what, placement->start);
    if (status < 0 || placement->hi > what->count || placement->lo >= placement->hi)
        return status < 0 ? status : PC_ERR_INVALID;
    s->attached = must(realloc(s->attached, (s->attached_count + 1) * sizeof *s->attached));
    what->references++;
    s->attached[s->attached_count++] = (attached){what, placement->start, placement->lo,
                                                  placement->hi};
    ((pc_toy *)user)->counts.attached++;
    return PC_OK;
}

static pc_status fork_sequence(void *user, void *from, void **out)
{
    const sequence *s = from;
    sequence *copy;
    sequence_new(user, NULL, out);
    copy = *out;
    for (size_t i = 0; i < s->attached_count; i++) {
        pc_span at = {s->attached[i].segment, s->attached[i].start, s->attached[i].lo,
                      s->attached[i].hi};
        attach(user, copy, &at);
    }
    copy->count = copy->capacity = s->count;
    copy->positions = must(malloc((s->count + 1) * sizeof *copy->positions));
    copy->states = must(malloc((s->count + 1) * sizeof *copy->states));
    if (s->count) {
        memcpy(copy->positions, s->positions, s->count * sizeof *copy->positions);
        memcpy(copy->states, s->states, s->count * sizeof *copy->states);
    }
    return PC_OK;
}

static void add_row(pc_toy *toy, const pc_step_row *row, uint32_t see, float *logits, float *hidden)
{
    sequence *s = row->sequence;
    size_t n = 0, total = s->count + 1;
    key *keys;
    if (s->count == s->capacity) {
        s->capacity = 2 * s->capacity + 8;
        s->positions = must(realloc(s->positions, s->capacity * sizeof *s->positions));
        s->states = must(realloc(s->states, s->capacity * sizeof *s->states));
    }
    for (size_t i = 0; i < s->attached_count; i++)
        total += s->attached[i].hi;
    keys = must(malloc(total * sizeof *keys));
    for (size_t i = 0; i < s->attached_count; i++) {
        const attached *a = &s->attached[i];
        n += see_segment(a->segment, a->start, a->lo, a->hi, row->position, see, keys + n);
    }
    s->positions[s->count] = row->position;
    for (size_t i = 0; i <= s->count; i++)
        if (see == PC_VISIBLE_ALL || s->positions[i] <= row->position)
            keys[n++] = (key){&s->states[i], row->position - s->positions[i]};
    compute(toy, row->token, row->position, keys, n, &s->states[s->count], logits, hidden);
    s->count++;
    free(keys);
}

/* Rows that want it give their hidden state if there is room for it, else logits. */
static pc_status run_step(pc_toy *toy, const pc_step_args *args, float *hidden)
{
    float *logits = args->logits;
    size_t done = 0, sequences = 0;
    pc_status status = ++toy->counts.step_calls == toy->counts.fail_step_at ? PC_ERR_IO : PC_OK;
    status = status < 0 ? status : has_room(toy, args->count);
    for (size_t i = 0; i < args->count && status < 0; i++)
        toy->counts.failed_step += !i || args->rows[i].sequence != args->rows[i - 1].sequence;
    for (; done < args->count && status >= 0; done++) {
        const pc_step_row *row = &args->rows[done];
        int follows = done && args->rows[done - 1].sequence == row->sequence;
        if (follows && row->position <= args->rows[done - 1].position)
            status = PC_ERR_INVALID;
        else if (stop_now(toy, args->cancelled, args->cancel_user))
            status = PC_ERR_CANCELLED;
        if (status < 0)
            break;
        sequences += !follows;
        add_row(toy, row, args->visibility, row->want_logits && !hidden ? logits : NULL,
                row->want_logits ? hidden : NULL);
        if (row->want_logits && hidden)
            hidden += WIDTH;
        else if (row->want_logits)
            logits += TOY_VOCAB;
    }
    for (; status < 0 && done; done--) /* as if it had not been called */
        ((sequence *)args->rows[done - 1].sequence)->count--;
    toy->counts.stepped_rows += status >= 0 ? args->count : 0;
    toy->counts.largest_step = sequences > toy->counts.largest_step ? sequences
                                                                    : toy->counts.largest_step;
    return status;
}

static pc_status step(void *user, const pc_step_args *args)
{
    return run_step(user, args, NULL);
}

static pc_status step_hidden(void *user, const pc_step_args *args, float *hidden)
{
    return args->logits ? PC_ERR_INVALID : run_step(user, args, hidden);
}

static pc_status truncate_sequence(void *user, void *shortened, size_t count)
{
    sequence *s = shortened;
    (void)user;
    if (count > s->count)
        return PC_ERR_INVALID;
    s->count -= count;
    return PC_OK;
}

/* Every token as if all given tokens up to its position stood in one prefill. */
static pc_status deviation(void *user, const pc_deviation_args *args, float *scores)
{
    const size_t count = args->count;
    state *fresh = must(malloc((count + 1) * sizeof *fresh));
    key *keys = must(malloc((count + 1) * sizeof *keys));
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j <= i; j++)
            keys[j] = (key){&fresh[j], args->positions[i] - args->positions[j]};
        compute(user, args->tokens[i], args->positions[i], keys, i + 1, &fresh[i], NULL, NULL);
    }
    for (size_t p = 0; p < args->span_count; p++) {
        const pc_span *span = (const pc_span *)((const char *)args->spans + p * args->span_stride);
        for (uint32_t t = span->lo; t < span->hi; t++, at++) {
            const state *cached = &((const segment *)span->segment)->states[t];
            scores[at] = 0;
            for (int d = 0; d < WIDTH; d++)
                scores[at] += fabsf(cached->v[1][d] - fresh[at].v[1][d])
                              + fabsf(cached->k[1][d] - fresh[at].k[1][d]);
        }
    }
    free(fresh);
    free(keys);
    return PC_OK;
}

void pc_toy_reference(pc_toy *toy, const int32_t *tokens, const int64_t *positions, size_t count,
                      float *logits)
{
    state *states = must(malloc((count + 1) * sizeof *states));
    key *keys = must(malloc((count + 1) * sizeof *keys));
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j <= i; j++)
            keys[j] = (key){&states[j], positions[i] - positions[j]};
        compute(toy, tokens[i], positions[i], keys, i + 1, &states[i],
                i + 1 == count ? logits : NULL, NULL);
    }
    free(states);
    free(keys);
}

/* count, origin, then the relative positions and the states */
static pc_status export_segment(void *user, void *payload, void *data, size_t capacity,
                                size_t *size)
{
    const segment *s = payload;
    uint64_t head[2] = {s->count, (uint64_t)s->origin};
    size_t places = s->count * sizeof *s->relative, states = s->count * sizeof *s->states;
    uint8_t *to = data;
    *size = sizeof head + places + states;
    if (!to)
        return PC_OK;
    if (capacity < *size)
        return PC_ERR_LIMIT;
    ((pc_toy *)user)->counts.exports++;
    memcpy(to, head, sizeof head);
    memcpy(to + sizeof head, s->relative, places);
    memcpy(to + sizeof head + places, s->states, states);
    return PC_OK;
}

static pc_status import_segment(void *user, const void *data, size_t size, const int32_t *tokens,
                                size_t count, void **out)
{
    pc_toy *toy = user;
    const uint8_t *from = data;
    uint64_t head[2];
    segment *s;
    (void)tokens;
    if (++toy->counts.import_calls == toy->counts.fail_import_at)
        return PC_ERR_IO;
    if (has_room(toy, count) < 0)
        return PC_ERR_LIMIT;
    if (size < sizeof head)
        return PC_ERR_FORMAT;
    memcpy(head, from, sizeof head);
    if (head[0] != count || size != sizeof head + count * (sizeof *s->relative + sizeof *s->states))
        return PC_ERR_FORMAT;
    s = must(calloc(1, sizeof *s));
    s->references = 1;
    s->count = count;
    s->origin = (int64_t)head[1];
    s->relative = must(malloc((count + 1) * sizeof *s->relative));
    s->states = must(malloc((count + 1) * sizeof *s->states));
    memcpy(s->relative, from + sizeof head, count * sizeof *s->relative);
    memcpy(s->states, from + sizeof head + count * sizeof *s->relative, count * sizeof *s->states);
    toy->counts.live_segments++;
    toy->counts.live_tokens += count;
    *out = s;
    return PC_OK;
}

static pc_status export_layer(void *user, void *payload, const pc_layer_states *states)
{
    pc_toy *toy = user;
    const segment *s = payload;
    if (states->count != s->count || states->dtype != PC_DTYPE_F32 || states->kv_heads != HEADS
        || states->k_dim != DIM || states->v_dim != DIM || states->layer >= LAYERS)
        return PC_ERR_INVALID;
    if (++toy->counts.layer_calls == toy->counts.fail_layer_at)
        return PC_ERR_IO;
    for (size_t t = 0; t < s->count; t++) {
        memcpy((float *)states->k + t * WIDTH, s->states[t].k[states->layer], sizeof(float[WIDTH]));
        memcpy((float *)states->v + t * WIDTH, s->states[t].v[states->layer], sizeof(float[WIDTH]));
    }
    return PC_OK;
}

static pc_status import_layer(void *user, const pc_layer_states *states, void **out)
{
    pc_toy *toy = user;
    segment *s = *out;
    if (++toy->counts.layer_calls == toy->counts.fail_layer_at)
        return PC_ERR_IO;
    if (!states->layer != !s || (!s && has_room(toy, states->count) < 0))
        return s || states->layer ? PC_ERR_INVALID : PC_ERR_LIMIT;
    if (!s) {
        *out = s = must(calloc(1, sizeof *s));
        s->references = 1;
        s->count = states->count;
        s->origin = states->origin;
        s->relative = must(malloc((s->count + 1) * sizeof *s->relative));
        s->states = must(calloc(s->count + 1, sizeof *s->states));
        for (size_t t = 0; t < s->count; t++)
            s->relative[t] = (int64_t)t;
        toy->counts.live_segments++;
        toy->counts.live_tokens += s->count;
    }
    for (size_t t = 0; t < s->count; t++) {
        memcpy(s->states[t].k[states->layer], (float *)states->k + t * WIDTH, sizeof(float[WIDTH]));
        memcpy(s->states[t].v[states->layer], (float *)states->v + t * WIDTH, sizeof(float[WIDTH]));
    }
    return PC_OK;
}

pc_model_ops pc_toy_layer_ops(void)
{
    pc_model_ops ops = pc_toy_ops();
    ops.export_segment = NULL;
    ops.import_segment = NULL;
    ops.export_layer = export_layer;
    ops.import_layer = import_layer;
    return ops;
}

pc_model_ops pc_toy_ops(void)
{
    pc_model_ops ops = PC_MODEL_OPS_INIT;
    ops.describe = describe;
    ops.tokenize = tokenize;
    ops.detokenize = detokenize;
    ops.encode = encode;
    ops.release = release;
    ops.size = size_of;
    ops.sequence_new = sequence_new;
    ops.attach = attach;
    ops.fork = fork_sequence;
    ops.step = step;
    ops.drop = drop;
    ops.deviation = deviation;
    ops.truncate = truncate_sequence;
    ops.export_segment = export_segment;
    ops.import_segment = import_segment;
    ops.step_hidden = step_hidden;
    return ops;
}
