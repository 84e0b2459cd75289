/* Catches: states accepted although a compared field differs, or refused because another one does;
 * an error that names the wrong field; a date of expiry that comes too early; a salt digest other
 * than the documented one. */
#include <stddef.h>

#include "records.h"
#include "testing.h"

typedef struct change {
    const char *name; /* in the error; NULL: may differ */
    size_t at, size;
} change;

/* clang-format off */
#define FIELD(text, field)                                                                         \
    {                                                                                              \
        text, offsetof(pc__image, field), sizeof(((pc__image *)0)->field)                          \
    }
/* clang-format on */

static const change changes[] = {FIELD("key", key),
                                 FIELD("salt", salt),
                                 FIELD("model", form.model),
                                 FIELD("architecture", form.architecture),
                                 FIELD("position scheme", form.position_scheme),
                                 FIELD("dtype", form.shape.dtype),
                                 FIELD("layout", form.layout),
                                 FIELD("regime", form.regime),
                                 FIELD("origin", form.origin),
                                 FIELD("layers", form.shape.layers),
                                 FIELD("K/V heads", form.shape.kv_heads),
                                 FIELD("dimensions of K", form.shape.k_dim),
                                 FIELD("dimensions of V", form.shape.v_dim),
                                 FIELD(NULL, content),
                                 FIELD(NULL, has_content),
                                 FIELD(NULL, parent),
                                 FIELD(NULL, has_parent),
                                 FIELD(NULL, lossy),
                                 FIELD(NULL, cost),
                                 FIELD(NULL, priority),
                                 FIELD(NULL, expires),
                                 FIELD(NULL, ttl),
                                 FIELD(NULL, blocks)};

/* Every byte of every field, one bit each time. */
static void test_fields(void)
{
    toy_image a, b;
    toy_image_make(&a, 1, 6, 64, 0);
    toy_image_make(&b, 1, 6, 64, 0);
    CHECK_OK(pc__image_match(&a.image, &b.image));
    for (size_t c = 0; c < sizeof changes / sizeof changes[0]; c++)
        for (size_t i = 0; i < changes[c].size; i++) {
            uint8_t *byte = (uint8_t *)&b.image + changes[c].at + i;
            const int behind = changes[c].at == offsetof(pc__image, form.architecture)
                               && i > strlen(a.image.form.architecture);
            *byte ^= 1;
            CHECK_STATUS(pc__image_match(&a.image, &b.image),
                         changes[c].name && !behind ? PC_ERR_MISMATCH : PC_OK);
            if (changes[c].name && !behind)
                CHECK_ERROR_HAS(changes[c].name);
            *byte ^= 1;
        }
    CHECK_OK(pc__image_match(&a.image, &b.image));
    toy_image_free(&a);
    toy_image_free(&b);
}

static void test_arrays(void)
{
    toy_image a, b;
    toy_image_make(&a, 1, 6, 64, 0);
    toy_image_make(&b, 1, 6, 64, 0);
    b.image.tokens--;
    CHECK_STATUS(pc__image_match(&a.image, &b.image), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("tokens: 6 expected");
    b.image.tokens++;
    for (size_t i = 0; i < 6; i++) {
        b.ids[i] ^= 1 << (5 * i);
        CHECK_STATUS(pc__image_match(&a.image, &b.image), PC_ERR_MISMATCH);
        CHECK_ERROR_HAS("tokens: they differ");
        b.ids[i] ^= 1 << (5 * i);
        b.relative[i]++;
        CHECK_STATUS(pc__image_match(&a.image, &b.image), PC_ERR_MISMATCH);
        CHECK_ERROR_HAS("relative position of token");
        b.relative[i]--;
    }
    b.block_bytes[2]++;
    CHECK_STATUS(pc__image_match(&a.image, &b.image), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("block 2");
    a.image.block_bytes = NULL;
    CHECK_OK(pc__image_match(&a.image, &b.image));
    b.image.block_count--;
    CHECK_STATUS(pc__image_match(&a.image, &b.image), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("blocks");
    a.image.block_count = 0;
    CHECK_OK(pc__image_match(&a.image, &b.image));
    toy_image_free(&a);
    toy_image_free(&b);
}

/* Positions 0, 1, 2 … are the same whether they are written out or not. */
static void test_plain_positions(void)
{
    toy_image a, b;
    toy_image_make(&a, 1, 6, 64, 0);
    toy_image_make(&b, 1, 6, 64, 0);
    a.image.relative = NULL;
    CHECK_STATUS(pc__image_match(&a.image, &b.image), PC_ERR_MISMATCH);
    CHECK_STATUS(pc__image_match(&b.image, &a.image), PC_ERR_MISMATCH);
    for (int i = 0; i < 6; i++)
        b.relative[i] = i;
    CHECK_OK(pc__image_match(&a.image, &b.image));
    CHECK_OK(pc__image_match(&b.image, &a.image));
    toy_image_free(&a);
    toy_image_free(&b);
}

static void test_salts(void)
{
    static const char want[] = "8576171af6f06bd9cc0a5ba3c29c4525cd48a05ad5cdac2b1728e9c26ce2e97c",
                      none[] = "2a308999eb837f29e29dbc66dd2fa69bdeaaaf2e8a08a1e505ddb5504dc875c2";
    toy_image a, b;
    char hex[65];
    pc__id id = pc__salt_digest("tenant-7", 8);
    pc__id_hex(&id, hex);
    CHECK_STR(hex, want);
    id = pc__salt_digest(NULL, 0);
    pc__id_hex(&id, hex);
    CHECK_STR(hex, none);
    toy_image_make(&a, 1, 6, 64, 0);
    toy_image_make(&b, 1, 6, 64, 0);
    memset(&a.image.salt, 0, sizeof a.image.salt); /* the tenant does not matter */
    CHECK_OK(pc__image_match(&a.image, &b.image));
    CHECK_STATUS(pc__image_match(&b.image, &a.image), PC_ERR_MISMATCH);
    toy_image_free(&a);
    toy_image_free(&b);
}

static void dates(void)
{
    CHECK_INT(pc__date_after(1000, 2.9), 1004); /* 1000.99 + 2.9 is in 1003 */
    CHECK_INT(pc__date_after(1000, 1), 1002);
    CHECK_INT(pc__date_after(1000, 0.3), 1002);
    CHECK_INT(pc__date_after(-5, 0), -4);
    CHECK_INT(pc__date_after(1, 9.3e18), INT64_MAX);
    CHECK_INT(pc__date_after(INT64_MAX - 1, 5), INT64_MAX);
    CHECK_INT(pc__date_after(0, 1e300), INT64_MAX);
    CHECK_INT(pc__date_after(INT64_MIN, 1), INT64_MIN + 2);
}

int main(void)
{
    dates();
    test_fields();
    test_arrays();
    test_plain_positions();
    test_salts();
    return pc_test_end();
}
