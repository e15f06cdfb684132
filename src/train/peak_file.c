/* The lines are processor, family, threads and three numbers, between tabs. A line that is not understood is
 * no peak, and is kept. */
#include "train/peak_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include "base/file.h"

/* The value of a line "key\t: value"; "" for other lines. */
static const char *value_of(char *line, const char *key)
{
    size_t length = strlen(key);
    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, key, length) != 0) return "";
    const char *colon = line + length + strspn(line + length, " \t");
    return *colon == ':' ? colon + 1 + strspn(colon + 1, " \t") : "";
}

/* Machines of a cloud are all named alike, so family and model are a part of the name. */
const char *peak_file_processor(char name[128])
{
    char line[256], family[24] = "?", model[24] = "?", called[64] = "";
    struct utsname machine;
    FILE *info = fopen("/proc/cpuinfo", "re");
    while (info && fgets(line, sizeof line, info) && line[0] != '\n') {      /* an empty line ends a core */
        const char *value;
        if (*(value = value_of(line, "cpu family"))) snprintf(family, sizeof family, "%.20s", value);
        if (*(value = value_of(line, "model")))      snprintf(model, sizeof model, "%.20s", value);
        if (*(value = value_of(line, "model name"))) snprintf(called, sizeof called, "%.60s", value);
    }
    if (info) fclose(info);
    if (called[0]) snprintf(name, 128, "%s (family %s, model %s)", called, family, model);
    else snprintf(name, 128, "%.100s", uname(&machine) == 0 ? machine.machine : "?");
    return name;
}

Status peak_file_path(char path[1024])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache) return path_join(path, cache, "jotun/peak");
    if (home && *home) return path_join(path, home, ".cache/jotun/peak");
    return fail(BAD_FILE, "neither XDG_CACHE_HOME nor HOME is set, so there is no place to keep the peak");
}

/* What a line of this machine begins with. */
static void key_of(char key[256], KernelFamily family, int threads)
{
    char name[128];
    snprintf(key, 256, "%s\t%s\t%d\t", peak_file_processor(name), kernel_family_name(family), threads);
}

/* FLOP/s that a machine may have: from 1 MFLOP/s to 1e9 GFLOP/s. A line of other values is measured again. */
static bool credible(double flops) { return flops >= 1e6 && flops <= 1e18; }

bool peak_file_find(Peak *peak, KernelFamily family, int threads)
{
    char path[1024], key[256], line[512];
    bool found = false;
    key_of(key, family, threads);
    FILE *file = peak_file_path(path) == OK ? fopen(path, "re") : NULL;
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, key, strlen(key)) == 0 &&
                sscanf(line + strlen(key), "%lf %lf %lf", &peak->fp32, &peak->bf16, &peak->copy) == 3 &&
                credible(peak->fp32) && (peak->bf16 == 0 || credible(peak->bf16)) && peak->copy >= 0;
    if (file) fclose(file);
    return found;
}

/* All other lines, and then this one. */
static bool lines_written(FILE *out, const char *path, const char *key, const Peak *peak)
{
    char line[512];
    FILE *old = fopen(path, "re");
    while (old && fgets(line, sizeof line, old))
        if (strncmp(line, key, strlen(key)) != 0 && strchr(line, '\n')) fputs(line, out);
    if (old) fclose(old);
    fprintf(out, "%s%.4g\t%.4g\t%.4g\n", key, peak->fp32, peak->bf16, peak->copy);
    return fclose(out) == 0;
}

Status peak_file_keep(const Peak *peak, KernelFamily family, int threads)
{
    char path[1024], key[256], *text = NULL;
    size_t bytes;
    key_of(key, family, threads);
    TRY(peak_file_path(path));
    TRY(folder_make_for(path));
    FILE *out = open_memstream(&text, &bytes);
    bool whole = out && lines_written(out, path, key, peak);
    Status status = whole ? file_write_whole(path, text, bytes) : fail(NO_MEMORY, "no memory for %s", path);
    free(text);
    return status;
}
