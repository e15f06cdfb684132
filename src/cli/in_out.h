#ifndef CLI_IN_OUT_H
#define CLI_IN_OUT_H
/* What a command reads and what it writes, judged before either. */
#include <stdint.h>
#include "base/status.h"

/* Standard input is empty the second time. each: how often every one of them is read, once for each of --json-keys */
Status standard_input_once(const char *const *paths, int64_t count, int each);
/* output, or NULL: is it the same file as an input, by device and inode? A device or a pipe may be both. */
Status input_spared(const char *input, const char *output);
/* BAD_OPTION where the folder that --output-prefix names is missing: a mistyped name makes no folders. */
Status output_prefix_folder(const char *prefix);
#endif
