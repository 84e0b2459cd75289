/* The program `promptcache`: prompts made of cached modules, and the stores of their states. */
#include "cmd.h"
#include "commands.h"

int main(int argc, char **argv)
{
    static const command *const parts[] = {
        &run_command,  &encode_command,  &show_command,   &tokenize_command,
        &info_command, &inspect_command, &verify_command, &evict_command,
        &memo_command, &bench_command,   &check_command,  &eval_command,
        NULL};
    static const command program = {
        .name = "promptcache",
        .usage = "promptcache COMMAND ...",
        .summary = "answers prompts made of cached modules",
        .details = "`promptcache --version` also says where the library's "
                   "plug-in modules are, or what is\nwrong with them. "
                   "PC_MODULES: other folders to look for them first.\nPC_REMOTE and PC_SALT stand "
                   "for --remote and "
                   "--salt where neither these nor their files are given.",
        .parts = parts};
    return run_program(&program, argc, argv);
}
