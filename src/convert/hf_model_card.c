/* README.md of an exported model: what a reader wants to know before using it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/log.h"
#include "base/shell/shell_word.h"
#include "chart/metrics_reader.h"
#include "convert/hf_write.h"
#include "text/tokenizer.h"

enum { CURVE_ROWS = 20, LINES_MOST = 10000000 };

/* A word as a shell reads it. Of a path it is the last name: directories are one machine's, and are not
 * published. hf: and the like in front of a path stay. */
static void word_write(FILE *out, const char *word, bool path)
{
    const char *leaf = path ? path_leaf(word, strlen(word)) : word;
    int         kind = (int)strspn(word, "abcdefghijklmnopqrstuvwxyz");
    bool        prefix = leaf != word && word[kind] == ':';
    char       *text = NULL;
    CHECK(asprintf(&text, "%.*s%s%s", prefix ? kind : 0, word, prefix ? ":" : "", leaf) >= 0,
          "no memory for a word of a command line");
    fputc(' ', out);
    shell_word_write(out, text);
    free(text);
}

/* Lines of a path, a tab and more. */
static void data_write(FILE *out, const char *data)
{
    fputs("\n## Data\n\n```\n", out);
    while (*data) {
        size_t      bytes = strcspn(data, "\n");
        const char *leaf  = path_leaf(data, strcspn(data, "\t\n"));
        fprintf(out, "%.*s\n", (int)(data + bytes - leaf), leaf);
        data += bytes + (data[bytes] == '\n');
    }
    fputs("```\n", out);
}

/* A value of the options as a person types it, after its name. */
static void option_write(FILE *out, const char *name, const json_t *value, bool path)
{
    if (json_is_boolean(value)) {
        if (json_is_true(value)) fprintf(out, " --%s", name);
        return;
    }
    fprintf(out, " --%s", name);
    if (json_is_string(value)) word_write(out, json_string_value(value), path);
    else if (json_is_integer(value)) fprintf(out, " %lld", (long long)json_integer_value(value));
    else if (json_is_real(value)) fprintf(out, " %.12g", json_real_value(value));
    size_t i;
    json_t *word;
    json_array_foreach((json_t *)value, i, word)
        if (json_is_string(word)) word_write(out, json_string_value(word), path);
}

/* given: names of options, with blanks between. What follows from them and defaults is not repeated. */
static void command_write(FILE *out, const json_t *options, const char *given, const HfTexts *texts)
{
    char name[128];
    fputs("\n## Command\n\n```\njotun train", out);
    for (size_t letters; *given; given += letters, given += *given == ' ') {
        letters = strcspn(given, " ");
        snprintf(name, sizeof name, "%.*s", (int)letters, given);
        const json_t *value = json_object_get(options, name);
        if (value) option_write(out, name, value, texts->names_files(name));
    }
    fputs("\n```\n", out);
}

/* ---- the curve of losses ---- */

/* The metrics file in a folder, "" being the one of this process; false: it has no such file. */
static bool metrics_in(char found[1024], const char *folder, const char *name)
{
    struct stat about;
    int bytes = snprintf(found, 1024, "%s%s%s", folder, *folder ? "/" : "", name);
    return bytes < 1024 && stat(found, &about) == 0 && S_ISREG(about.st_mode);
}

/* The folder in which the run began, where --save is relative and names the checkpoints from there. */
static bool run_began(char folder[1024], const char *checkpoints, const char *save)
{
    while (save[0] == '.' && save[1] == '/') save += 2 + strspn(save + 2, "/");
    size_t whole = strlen(checkpoints), end = strlen(save);
    while (end > 0 && save[end - 1] == '/') end--;
    if (!end || *save == '/' || whole < end + 1 || checkpoints[whole - end - 1] != '/') return false;
    if (memcmp(checkpoints + whole - end, save, end) != 0) return false;
    snprintf(folder, 1024, "%.*s", (int)(whole - end - 1), checkpoints);
    return true;
}

/* A relative path began in the folder of the run, which is not always that of this process. Without it the
 * file may lie with the checkpoints. */
static bool metrics_find(char found[1024], const json_t *options, const char *path, const char *step_folder)
{
    const char *save = json_string_value(json_object_get(options, "save"));
    char       *checkpoints = realpath(step_folder, NULL), folder[1024];
    bool        has = false;
    if (*path == '/') has = metrics_in(found, "", path);
    if (checkpoints) {
        char *leaf = (char *)path_leaf(checkpoints, strlen(checkpoints));
        if (leaf > checkpoints) leaf[-1] = '\0';
        if (!has && *path != '/' && save && run_began(folder, checkpoints, save))
            has = metrics_in(found, folder, path);
        if (!has) has = metrics_in(found, checkpoints, path_leaf(path, strlen(path)));
    }
    free(checkpoints);
    return has || metrics_in(found, "", path);
}

/* A row for every n-th training step of a metrics file, and for the last one; out NULL: they are counted. */
static Status curve_read(int64_t *rows, FILE *out, const char *path)
{
    static const char *const key[] = { "step", "loss" };
    int64_t every = (*rows + CURVE_ROWS - 1) / CURVE_ROWS, last = *rows - 1;
    MetricsReader reader;
    MetricsLine   line;
    TRY(metrics_reader_open(&reader, path, key, 2));
    *rows = 0;
    while (reader.lines < LINES_MOST && metrics_reader_next(&reader, &line)) {
        if (*line.split || !isfinite(line.value[0]) || !isfinite(line.value[1])) continue;
        if (out && (*rows % every == 0 || *rows == last))
            fprintf(out, "| %.0f | %.4f |\n", line.value[0], line.value[1]);
        ++*rows;
    }
    metrics_reader_close(&reader);
    return OK;
}

/* Two passes: the first counts the rows. */
static void curve_write(FILE *out, const json_t *options, const char *step_folder)
{
    const char *path = json_string_value(json_object_get(options, "metrics"));
    char        found[1024];
    int64_t     rows = 0;
    if (!path || !*path) return;
    if (!metrics_find(found, options, path, step_folder) || curve_read(&rows, NULL, found) != OK) {
        log_line("README.md has no curve of losses: --metrics %s is no file here, nor where the run began, "
                 "nor with its checkpoints; copy it to these and convert again", path);
        return;
    }
    if (rows) {
        fputs("\n## Training loss\n\n| step | loss |\n|---|---|\n", out);
        if (curve_read(&rows, out, found) != OK) log_line("%s", fail_text());
        log_line("README.md has the curve of losses of %s", found);
    } else log_line("README.md has no curve of losses: %s has no losses of training steps", found);
}

static void text_write(FILE *out, const ConvertRun *c, const HfTexts *texts)
{
    const ForeignModel *from = c->from;
    json_t *options = json_loads(from->options, 0, NULL);
    const char *type = json_string_value(json_object_get(texts->config, "model_type"));
    fprintf(out,
            "---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n- jotun\n- %s\n---\n\n",
            type ? type : "model");
    fprintf(out,
            "# A language model trained by jotun\n\nWeights of the architecture %s, written by jotun %s.\n",
            type ? type : "", texts->version);
    if (from->step > 0)
        fprintf(out, "\nTrained for %" PRId64 " steps on %" PRId64 " samples.\n", from->step, from->samples);
    if (tokenizer_is_none(texts->tokenizer))
        fprintf(out, "\n## Tokenizer\n\nNone: the model reads and writes ids. The folder has no tokenizer,"
                     " since the checkpoint names none.\n");
    if (from->data && *from->data) data_write(out, from->data);
    curve_write(out, options, from->file.path);
    if (from->given) command_write(out, options, from->given, texts);
    json_decref(options);
}

Status hf_model_card_write(const char *folder, const ConvertRun *c, const HfTexts *texts)
{
    char   path[1024], *text = NULL;
    size_t bytes;
    TRY(path_join(path, folder, "README.md"));
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return fail(NO_MEMORY, "%s: no memory for its text", path);
    text_write(out, c, texts);
    Status status =
        fclose(out) == 0 ? file_write_whole(path, text, bytes) : fail(NO_MEMORY, "%s: no memory", path);
    free(text);
    return status;
}
