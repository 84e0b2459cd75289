/* A library that somebody has put where a program might look: says so when its code runs. */
#include <stdio.h>

__attribute__((constructor)) static void runs(void)
{
    puts("planted code runs");
    fflush(stdout);
}
