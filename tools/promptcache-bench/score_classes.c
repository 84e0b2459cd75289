/* Classification: the classes that an answer names. One that is part of the right one's name does
 * not count against it. The published code removes such names while it walks through the list, so
 * it steps over the name behind a removed one; so does this, or scores would not compare. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score.h"

double score_classes(const score_item *item)
{
    const char **named = malloc((item->class_count + 1) * sizeof *named);
    size_t count = 0;
    int right = 0;
    if (!named)
        return NAN;
    for (size_t i = 0; i < item->class_count; i++)
        if (strstr(item->answer, item->classes[i]))
            named[count++] = item->classes[i];
    for (size_t i = 0; i < count; i++)
        if (strstr(item->reference, named[i]) && strcmp(item->reference, named[i]) != 0) {
            const char *removed = named[i];
            size_t first = 0; /* of equal names, the first one is removed */
            while (strcmp(named[first], removed) != 0)
                first++;
            memmove(&named[first], &named[first + 1], (--count - first) * sizeof *named);
        }
    for (size_t i = 0; i < count; i++)
        right |= !strcmp(item->reference, named[i]);
    free(named);
    return right ? 1.0 / (double)count : 0;
}
