/* Files that a document names: only those in a folder that it may use, or below it. */
#ifndef PC_BASE_BENEATH_H
#define PC_BASE_BENEATH_H

/* Opens `name`, relative to `folder`, for reading; opening never blocks. Links of the folder's own
 * path count. Below the folder a link is followed if it is relative and its target lies in the
 * folder. -1: errno says why; EXDEV: the name is absolute, or it or a link leads out of the
 * folder. What is opened is not checked: it may be no regular file. */
int pc__open_beneath(const char *folder, const char *name);

#endif
