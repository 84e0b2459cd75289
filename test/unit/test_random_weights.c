/* Catches: values that depend on how rows are read, matrices that repeat, a variance that makes
 * activations grow or vanish. */
#include "model/load/random_weights.h"

#include <math.h>
#include <string.h>

#include "testing.h"

enum { ROWS = 64, COLS = 50 };

static void fetched_alike(void)
{
    pc__random_matrix m = {12345, COLS, 0.25f};
    static float whole[ROWS * COLS], role[ROWS * COLS];
    double sum = 0, squares = 0;
    pc__random_rows(&m, 0, ROWS, whole);
    for (size_t r = 0; r < ROWS; r += 7)
        pc__random_rows(&m, r, r + 7 < ROWS ? 7 : ROWS - r, role + r * COLS);
    CHECK(!memcmp(whole, role, sizeof whole));
    for (size_t i = 0; i < ROWS * COLS; i++) {
        CHECK(fabsf(whole[i]) <= 0.25f);
        sum += (double)whole[i];
        squares += (double)whole[i] * (double)whole[i];
    }
    CHECK(fabs(sum / (ROWS * COLS)) < 0.01);
    CHECK(fabs(squares / (ROWS * COLS) * 3 / 0.0625 - 1)
          < 0.1); /* variance of a uniform distribution: width^2 / 3 */
}

static void matrices_differ(void)
{
    pc__arch arch = {.vocab = 10, .context_length = 20, .position_offset = 2};
    pc__random_weights weights;
    pc__weight_provider provider;
    pc__weight_source from;
    float first[COLS], row[COLS];
    pc__random_weights_provider(&weights, &arch, 1, &provider);
    CHECK_INT(provider.table_rows(provider.user, PC__ROLE_EMBEDDING), 10);
    CHECK_INT(provider.table_rows(provider.user, PC__ROLE_POSITIONS), 22);
    CHECK_OK(provider.matrix(provider.user, PC__ROLE_Q, 0, ROWS, COLS, &from));
    from.rows(from.user, 0, 1, first);
    CHECK_OK(provider.matrix(provider.user, PC__ROLE_K, 0, ROWS, COLS, &from));
    from.rows(from.user, 0, 1, row);
    CHECK(memcmp(first, row, sizeof row) != 0);
    CHECK_OK(provider.matrix(provider.user, PC__ROLE_Q, 1, ROWS, COLS, &from));
    from.rows(from.user, 0, 1, row);
    CHECK(memcmp(first, row, sizeof row) != 0);
    CHECK_INT(provider.vector(provider.user, PC__ROLE_Q, 0, 1, COLS, row), 0);
    CHECK_INT(provider.vector(provider.user, PC__ROLE_NORM2, 0, 0, COLS, row), 1);
    CHECK(row[0] == 1.0f && row[COLS - 1] == 1.0f);
    pc__random_weights_provider(&weights, &arch, 2, &provider);
    CHECK_OK(provider.matrix(provider.user, PC__ROLE_Q, 0, ROWS, COLS, &from));
    from.rows(from.user, 0, 1, row);
    CHECK(memcmp(first, row, sizeof row) != 0);
}

int main(void)
{
    fetched_alike();
    matrices_differ();
    return pc_test_end();
}
