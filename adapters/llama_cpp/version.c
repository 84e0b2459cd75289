/* Prints the version of the llama.cpp that is linked; CMakeLists.txt runs it. */
#include <llama.h>
#include <stdio.h>

int main(void)
{
    puts(llama_version());
    return 0;
}
