/* All files below a folder: listed, read, removed. */
#ifndef FILE_TREE_H
#define FILE_TREE_H

#include <stddef.h>
#include <stdint.h>

typedef struct file_tree {
    char **paths;
    size_t count, room;
    uint64_t bytes, largest;
} file_tree;
int list_files(file_tree *t, const char *folder); /* adds to the list; 0: an error */
void free_files(file_tree *t);
void remove_tree(const char *folder);
/* Reads every file from start to end, into `memory` or (NULL) into new memory for each. Returns
 * the seconds; < 0: failed. */
double read_files(const file_tree *t, void *memory, size_t size);
void drop_files(const file_tree *t); /* drops them from the page cache */

#endif
