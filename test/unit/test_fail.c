/* Catches: error text that is not one line, that is shared between threads, or that a prefix truncates away. */
#include <string.h>

#include "base/fail.h"
#include "testing.h"

int main(void)
{
    CHECK_INT(pc__fail(PC_ERR_IO, "a%db\nc", 1), PC_ERR_IO);
    CHECK_STR(pc_error_text(), "a1b c");
    CHECK_INT(pc__fail_in(PC_ERR_IO, "file %s", "x"), PC_ERR_IO);
    CHECK_STR(pc_error_text(), "file x: a1b c");
    CHECK_STR(pc_status_name(PC_ERR_DEAD), "PC_ERR_DEAD");
    CHECK_STR(pc_status_text(PC_OK), "done");
    CHECK(strstr(pc_version(), "0.1.") == pc_version());
    CHECK_INT(pc_abi_version(), PC_ABI_VERSION);
    return pc_test_end();
}
