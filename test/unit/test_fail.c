/* Catches: error text that is not one line, that is shared between threads, or that a prefix
 * truncates away. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "testing.h"

/* The place of an error stays with it, and with it alone. */
static void places(void)
{
    uint64_t line = 9, column = 9;
    pc__fail(PC_ERR_PML, "a.pml:3:7: no");
    pc__fail_place(3, 7);
    pc__fail_in(PC_ERR_PML, "outer");
    pc_error_place(&line, &column);
    CHECK(line == 3 && column == 7);
    pc_error_place(NULL, &column);
    pc__fail(PC_ERR_IO, "another");
    pc_error_place(&line, NULL);
    pc_error_place(NULL, &column);
    CHECK(line == 0 && column == 0);
    pc__fail_place(3, 7);
    pc_error_set("of the application");
    pc_error_place(&line, &column);
    CHECK(line == 0 && column == 0);
}

int main(void)
{
    char text[600] = {0};
    CHECK_INT(pc__fail(PC_ERR_IO, "a%db\nc", 1), PC_ERR_IO);
    CHECK_STR(pc_error_text(), "a1b c");
    CHECK_INT(pc__fail_in(PC_ERR_IO, "file %s", "x"), PC_ERR_IO);
    CHECK_STR(pc_error_text(), "file x: a1b c");
    pc_error_set("by\thand");
    CHECK_STR(pc_error_text(), "by hand");
    pc_error_set(pc_error_text()); /* its own memory */
    CHECK_STR(pc_error_text(), "by hand");
    CHECK_INT(pc__callback_failed(PC_ERR_IO, "step %d", 1), PC_ERR_IO);
    CHECK_STR(pc_error_text(), "step 1: by hand");
    CHECK_INT(pc__callback_failed(PC_ERR_IO, "step"), PC_ERR_IO); /* is given once */
    CHECK_STR(pc_error_text(), "step: input or output failed (PC_ERR_IO)");
    pc_error_set("of another function");
    pc__callback_begin();
    CHECK_INT(pc__callback_cancelled("layer %d", 2), PC_ERR_CANCELLED);
    CHECK_STR(pc_error_text(), "layer 2");
    pc_error_set("a");
    pc_error_set(NULL);
    CHECK_STR(pc_error_text(), "");
    CHECK_INT(pc__callback_cancelled("layer 3"), PC_ERR_CANCELLED);
    CHECK_STR(pc_error_text(), "layer 3");
    memset(text, 'x', sizeof text - 1);
    pc_error_set(text);
    CHECK_INT(strlen(pc_error_text()), 511);
    pc__callback_failed(PC_ERR_IO, "place");
    CHECK(strstr(pc_error_text(), "place: xxx") == pc_error_text()
          && strlen(pc_error_text()) == 511);
    CHECK_STR(pc_status_name(PC_ERR_DEAD), "PC_ERR_DEAD");
    CHECK_STR(pc_status_text(PC_OK), "done");
    CHECK_INT(atoi(pc_version()), PC_VERSION_MAJOR);
    CHECK_INT(atoi(strchr(pc_version(), '.') + 1), PC_VERSION_MINOR);
    places();
    CHECK_INT(pc_abi_version(), PC_ABI_VERSION);
    return pc_test_end();
}
