/* Checks of the paths that a command reads and writes. */
#include "cli/in_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"

Status standard_input_once(const char *const *paths, int64_t count, int each)
{
    int64_t times = 0;
    for (int64_t i = 0; i < count; i++) times += strcmp(paths[i], "-") == 0;
    times *= each;
    if (times < 2) return OK;
    return fail(BAD_OPTION, "--input -: standard input can be read once, and is asked for %" PRId64
                " times%s; give it once, or a file", times, each > 1 ? ", once for each of --json-keys" : "");
}

Status input_spared(const char *input, const char *output)
{
    struct stat in, out;
    if (!output || stat(output, &out) != 0 || !S_ISREG(out.st_mode) || stat(input, &in) != 0) return OK;
    if (in.st_dev != out.st_dev || in.st_ino != out.st_ino) return OK;
    return fail(BAD_OPTION, "%s would be written over %s, which is read: the same file; write to another "
                "name", output, input);
}

Status output_prefix_folder(const char *prefix)
{
    char        folder[1024] = ".";
    const char *slash = strrchr(prefix, '/');
    if (slash) snprintf(folder, sizeof folder, "%.*s", slash == prefix ? 1 : (int)(slash - prefix), prefix);
    if (file_exists(folder)) return OK;
    return fail(BAD_OPTION, "--output-prefix %s: there is no folder %s; make it first, or mend the name",
                prefix, folder);
}
