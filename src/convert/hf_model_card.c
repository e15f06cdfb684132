/* README.md of an exported model: what a reader wants to know before using it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "convert/hf_write.h"
#include "text/tokenizer.h"

enum { CURVE_ROWS = 20, LINES_MOST = 10000000, LINE_BYTES = 4096 };

/* The last name of a path: directories are one machine's, and are not published. */
static const char *path_leaf(const char *path, size_t bytes)
{
    while (bytes > 1 && path[bytes - 1] == '/') bytes--;
    const char *slash = bytes ? memrchr(path, '/', bytes - 1) : NULL;
    return slash ? slash + 1 : path;
}

/* A word as a shell reads it. hf: and the like in front of a path stay. */
static void word_write(FILE *out, const char *word, bool path)
{
    const char *leaf = path ? path_leaf(word, strlen(word)) : word;
    size_t      kind = strspn(word, "abcdefghijklmnopqrstuvwxyz");
    fputs(" '", out);
    if (leaf != word && word[kind] == ':') fprintf(out, "%.*s:", (int)kind, word);
    for (; *leaf; leaf++)
        if (*leaf == '\'') fputs("'\\''", out);
        else fputc(*leaf, out);
    fputc('\'', out);
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

/* A row of the curve for every n-th training line of a metrics file: lines that are JSON objects with step
 * and loss. Those of evaluations have a split as well. */
typedef struct { int64_t seen, every, last; FILE *out; } Curve;

static void curve_line(Curve *curve, const char *text)
{
    json_t *line = json_loads(text, 0, NULL);
    const json_t *step = json_object_get(line, "step"), *loss = json_object_get(line, "loss");
    if (json_is_integer(step) && json_is_number(loss) && !json_object_get(line, "split")) {
        bool row = curve->out && (curve->seen % curve->every == 0 || curve->seen == curve->last);
        if (row)
            fprintf(curve->out, "| %lld | %.4f |\n", (long long)json_integer_value(step),
                    json_number_value(loss));
        curve->seen++;
    }
    json_decref(line);
}

static void curve_read(Curve *curve, FILE *in)
{
    char text[LINE_BYTES];
    rewind(in);
    curve->seen = 0;
    for (int64_t lines = 0; lines < LINES_MOST && fgets(text, sizeof text, in); lines++)
        curve_line(curve, text);
}

/* Two passes: the first counts the rows. */
static void curve_write(FILE *out, const json_t *options)
{
    const char *path = json_string_value(json_object_get(options, "metrics"));
    FILE       *in = path ? fopen(path, "r") : NULL;
    Curve       curve = { 0 };
    if (in) curve_read(&curve, in);
    if (curve.seen) {
        curve.every = (curve.seen + CURVE_ROWS - 1) / CURVE_ROWS;
        curve.last  = curve.seen - 1;
        curve.out   = out;
        fputs("\n## Training loss\n\n| step | loss |\n|---|---|\n", out);
        curve_read(&curve, in);
    }
    if (in) fclose(in);
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
    curve_write(out, options);
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
