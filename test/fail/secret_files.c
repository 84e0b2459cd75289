/* Catches: a secret that stays in memory after its use, in a buffer that is given back: of a file
 * that was read, of one that was refused, of one line of a file. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input.h"
#include "testing.h"

enum { PATH = 512 };

static const char text[] = "the secret of this test";
static int given_back; /* how often memory was given back with the secret in it */

void __real_free(void *memory);
void __wrap_free(void *memory);

/* All blocks of the programs begin with what they hold. */
void __wrap_free(void *memory)
{
    char start[sizeof text] = "";
    if (memory)
        memcpy(start, memory, 8);
    given_back += !memcmp(start, text, 8);
    __real_free(memory);
}

int main(void)
{
    char path[PATH], large[SECRET_BYTES + 100];
    secret s;
    size_t size;
    snprintf(path, sizeof path, "%s/secret", pc_test_folder());
    pc_test_write(path, text, sizeof text - 1);
    CHECK(!chmod(path, 0600));
    free(read_text(path, TEXT_BYTES, &size));
    CHECK_INT(given_back, 1); /* this test sees it where nobody zeroes */
    given_back = 0;
    CHECK_INT(read_secret(&s, path), -1);
    CHECK_INT(s.size, sizeof text - 1);
    CHECK_STR(s.bytes, text);
    free_secret(&s);
    CHECK(!s.bytes && !s.size);
    free_secret(&s);
    CHECK_INT(read_secret_line(&s, path), -1);
    CHECK_STR(s.bytes, text);
    free_secret(&s);
    memset(large, '\n', sizeof large);
    memcpy(large, text, sizeof text - 1);
    large[100] = 'x'; /* a second line */
    pc_test_write(path, large, SECRET_BYTES);
    CHECK(read_secret_line(&s, path) > 0);
    CHECK(!s.bytes);
    pc_test_write(path, large, sizeof large);
    CHECK(read_secret(&s, path) > 0);
    CHECK(!s.bytes);
    CHECK_INT(given_back, 0);
    return pc_test_end();
}
