/* Catches: rows or biases of Q and K in another order than the original model's; other roles that
 * change. */
#include "model/load/unpermute.h"

#include "testing.h"

enum { HEAD = 6, HEADS = 2, COLS = 3 };

/* Row r has the value r. */
static void numbered(void *user, size_t first, size_t count, float *out)
{
    (void)user;
    for (size_t i = 0; i < count * COLS; i++)
        out[i] = (float)(first + i / COLS);
}

static void numbered_quantised(void *user, size_t first, size_t count, const pc__block_rows *to)
{
    (void)user;
    for (size_t i = 0; i < count * COLS; i++)
        to->q[i] = (uint8_t)(first + i / COLS);
    for (size_t i = 0; i < count; i++)
        to->d[i] = (uint16_t)(first + i);
}

static pc_status matrix(void *user, pc__tensor_role role, int32_t layer, size_t rows, size_t cols,
                        pc__weight_source *out)
{
    (void)role;
    (void)layer;
    (void)rows;
    (void)cols;
    *out = (pc__weight_source){.user = user,
                               .rows = numbered,
                               .format = {.bits = 8, .group = COLS, .block = COLS, .zero = 128},
                               .quantised_rows = numbered_quantised};
    return PC_OK;
}

static pc_status vector(void *user, pc__tensor_role role, int32_t layer, int bias, size_t count,
                        float *out)
{
    (void)user;
    (void)role;
    (void)layer;
    for (size_t i = 0; i < count; i++)
        out[i] = (float)i;
    return bias;
}

static size_t table_rows(void *user, pc__tensor_role role)
{
    (void)user;
    return (size_t)role + 40;
}

int main(void)
{
    static const float want[HEAD * HEADS] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
    pc__arch arch = {.head_dim = HEAD,
                     .position_scheme = PC_POSITION_ROPE,
                     .permuted = 1,
                     .rope = {.dims = HEAD, .interleaved = 1}};
    pc__weight_provider inner = {NULL, matrix, vector, table_rows}, outer;
    pc__unpermute unpermute;
    pc__weight_source from;
    uint8_t q[HEAD * HEADS * COLS];
    uint16_t d[HEAD * HEADS];
    pc__block_rows rows = {.q = q, .d = d};
    float out[HEAD * HEADS * COLS], bias[HEAD * HEADS];
    CHECK(pc__is_permuted(&arch));
    pc__unpermute_provider(&unpermute, &pc__libc_allocator, &inner, &arch, &outer);
    CHECK_OK(outer.matrix(outer.user, PC__ROLE_K, 0, HEAD * HEADS, COLS, &from));
    from.rows(from.user, 1, HEAD * HEADS - 1, out);
    CHECK_INT(outer.vector(outer.user, PC__ROLE_Q, 0, 1, HEAD * HEADS, bias), 1);
    for (int i = 0; i < HEAD * HEADS; i++) {
        CHECK(i == 0 || (out[(i - 1) * COLS] == want[i] && out[(i - 1) * COLS + 2] == want[i]));
        CHECK(bias[i] == want[i]);
    }
    from.quantised_rows(from.user, 0, HEAD * HEADS, &rows);
    for (int i = 0; i < HEAD * HEADS; i++)
        CHECK(q[i * COLS] == want[i] && q[i * COLS + 1] == want[i] && d[i] == (uint16_t)want[i]);
    CHECK_OK(outer.matrix(outer.user, PC__ROLE_V, 0, HEAD * HEADS, COLS, &from));
    from.rows(from.user, 3, 1, out);
    CHECK(out[0] == 3.0f);
    CHECK_INT(outer.vector(outer.user, PC__ROLE_V, 0, 1, HEAD * HEADS, bias), 1);
    CHECK(bias[1] == 1.0f);
    CHECK_INT(outer.vector(outer.user, PC__ROLE_K, 0, 0, HEAD * HEADS, bias), 0);
    CHECK_INT(outer.table_rows(outer.user, PC__ROLE_EMBEDDING), 40);
    arch.rope.dims = 4;
    CHECK(!pc__is_permuted(&arch));
    arch.rope.dims = HEAD;
    arch.permuted = 0; /* pairs side by side in the model itself (Command-R) */
    CHECK(!pc__is_permuted(&arch));
    return pc_test_end();
}
