/* A shared object that test_module.c does not let the loader find. */
int pc_fake_needed(void);
int pc_fake_needed(void)
{
    return 0;
}
