/* The plug-in modules that the library was built for: for each, pc__linked_NAME of base/module.h,
 * or NULL if it was not built. */
#ifndef PC_SERVE_PLUGIN_H
#define PC_SERVE_PLUGIN_H

#include "base/module.h"

static const pc__module *const pc__never_linked = NULL; /* of modules that are always files */

#if defined(PC_HAVE_ONEDNN)
extern const pc__module *const pc__linked_onednn;
#define PC__PLUGIN_ONEDNN &pc__linked_onednn
#else
#define PC__PLUGIN_ONEDNN NULL
#endif
#if defined(PC_HAVE_FAISS)
extern const pc__module *const pc__linked_faiss;
#define PC__PLUGIN_FAISS &pc__linked_faiss
#else
#define PC__PLUGIN_FAISS NULL
#endif
#if defined(PC_HAVE_HIREDIS)
extern const pc__module *const pc__linked_remote;
#define PC__PLUGIN_REMOTE &pc__linked_remote
#else
#define PC__PLUGIN_REMOTE NULL
#endif
#if defined(PC_HAVE_XGRAMMAR)
#define PC__PLUGIN_XGRAMMAR &pc__never_linked
#else
#define PC__PLUGIN_XGRAMMAR NULL
#endif
#if defined(PC_HAVE_CUDA)
#define PC__PLUGIN_CUDA &pc__never_linked
#else
#define PC__PLUGIN_CUDA NULL
#endif

#endif
