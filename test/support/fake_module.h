/* The table of the plug-in modules that test_module.c opens. */
#ifndef PC_FAKE_MODULE_H
#define PC_FAKE_MODULE_H

#include <promptcache.h>

typedef struct fake_module {
    int (*starts)(void);           /* how often the module was started */
    pc_status (*fail)(int number); /* sets the error text "fake NUMBER" by the module's own code */
} fake_module;

#endif
