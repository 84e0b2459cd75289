/* Runs chat templates as the library does, for a comparison with another Jinja. Each line of the
 * input is a JSON object: template, messages (a list of pairs), bos, eos, generate. Each line of
 * the output is one, too: "made", or "refused" with the cause. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"
#include "text/jinja.h"

enum { MOST_MESSAGES = 256 };

static pc_status run(const json_t *line, pc__bytes *out)
{
    pc__jinja_message messages[MOST_MESSAGES];
    const json_t *list = json_object_get(line, "messages");
    pc__jinja_input input = {.messages = messages,
                             .bos = json_string_value(json_object_get(line, "bos")),
                             .eos = json_string_value(json_object_get(line, "eos")),
                             .generate = json_is_true(json_object_get(line, "generate"))};
    const char *text = json_string_value(json_object_get(line, "template"));
    pc__jinja *jinja = NULL;
    for (; input.count < json_array_size(list) && input.count < MOST_MESSAGES; input.count++) {
        const json_t *message = json_array_get(list, input.count);
        messages[input.count].role = json_string_value(json_array_get(message, 0));
        messages[input.count].content = json_string_value(json_array_get(message, 1));
    }
    pc_status status = pc__jinja_new(&jinja, &pc__libc_allocator, text ? text : "");
    if (status >= 0)
        status = pc__jinja_run(jinja, out, &input);
    pc__jinja_free(jinja);
    return status;
}

int main(void)
{
    char *text = NULL;
    size_t size = 0;
    while (getline(&text, &size, stdin) > 0) {
        pc__bytes out = {.mem = &pc__libc_allocator};
        json_t *line = json_loads(text, 0, NULL), *answer = json_object();
        pc_status status = line ? run(line, &out) : PC_ERR_INVALID;
        if (status < 0)
            json_object_set_new(answer, "refused", json_string(pc_error_text()));
        else
            json_object_set_new(answer, "made", json_stringn(out.data ? out.data : "", out.size));
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
        json_decref(line);
        pc__bytes_free(&out);
    }
    free(text);
    return 0;
}
