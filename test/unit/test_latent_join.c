/* Catches: rows of keys and values from latents that are joined in another order than head by head,
 * at any start and length; other roles that do not pass through. */
#include "model/load/latent_join.h"
#include "testing.h"

enum { HEADS = 3, PLAIN = 2, V_DIM = 3, COLS = 2, EACH = PLAIN + V_DIM, ROWS = HEADS * EACH };

/* Row r of keys is 100 + r, of values 200 + r, of others r. */
static void rows_of(void *user, size_t first, size_t count, float *out)
{
    const int *base = user;
    for (size_t i = 0; i < count * COLS; i++)
        out[i] = (float)*base + (float)(first + i / COLS);
}

static pc_status matrix(void *user, pc__tensor_role role, int32_t layer, size_t rows, size_t cols,
                        pc__weight_source *out)
{
    static int bases[3] = {100, 200, 0};
    int which = role == PC__ROLE_K_B ? 0 : role == PC__ROLE_V_B ? 1 : 2;
    (void)user;
    CHECK(layer == 4 && cols == COLS);
    CHECK_INT(rows, which == 0 ? HEADS * PLAIN : which == 1 ? HEADS * V_DIM : 7);
    *out = (pc__weight_source){.user = &bases[which], .rows = rows_of};
    return PC_OK;
}

static pc_status vector(void *user, pc__tensor_role role, int32_t layer, int bias, size_t count,
                        float *out)
{
    (void)user, (void)layer, (void)bias, (void)count;
    out[0] = (float)role;
    return 1;
}

static size_t table_rows(void *user, pc__tensor_role role)
{
    (void)user;
    return (size_t)role + 40;
}

int main(void)
{
    pc__arch arch = {.heads = HEADS, .v_dim = V_DIM, .latent = {.rank = COLS, .plain = PLAIN}};
    pc__weight_provider inner = {NULL, matrix, vector, table_rows}, outer;
    pc__latent_join join;
    pc__weight_source from;
    float out[ROWS * COLS], value;
    pc__latent_join_provider(&join, &inner, &arch, &outer);
    CHECK_OK(outer.matrix(outer.user, PC__ROLE_KV_B, 4, ROWS, COLS, &from));
    CHECK(!from.format.bits);
    for (size_t first = 0; first < ROWS; first++)
        for (size_t count = 1; first + count <= ROWS; count++) {
            from.rows(from.user, first, count, out);
            for (size_t i = 0; i < count; i++) {
                size_t head = (first + i) / EACH, row = (first + i) % EACH;
                size_t want = row < PLAIN ? 100 + head * PLAIN + row
                                          : 200 + head * V_DIM + row - PLAIN;
                CHECK(out[i * COLS] == (float)want && out[i * COLS + 1] == (float)want);
            }
        }
    CHECK_OK(outer.matrix(outer.user, PC__ROLE_Q, 4, 7, COLS, &from));
    from.rows(from.user, 3, 1, out);
    CHECK(out[0] == 3.0f);
    CHECK_INT(outer.vector(outer.user, PC__ROLE_K_NORM, 4, 0, 1, &value), 1);
    CHECK(value == (float)PC__ROLE_K_NORM);
    CHECK_INT(outer.table_rows(outer.user, PC__ROLE_EMBEDDING), 40);
    return pc_test_end();
}
