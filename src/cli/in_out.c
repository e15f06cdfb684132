/* Checks of the paths that a command reads and writes. */
#include "cli/in_out.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/log.h"
#include "cli/choice.h"

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
    return fail(BAD_OPTION, "the output %s is also an input (%s); write to another name", output, input);
}

/* The directory part of a path, "." where it has none. */
static const char *directory_of(char directory[1024], const char *path)
{
    const char *slash = strrchr(path, '/');
    int letters = slash == path ? 1 : slash ? (int)(slash - path) : 0;
    snprintf(directory, 1024, "%.*s", letters ? letters : 1, letters ? path : ".");
    return directory;
}

static bool is_directory(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

Status output_directory(const char *option, const char *path)
{
    char directory[1024];
    if (file_exists(directory_of(directory, path))) return OK;
    return fail(BAD_OPTION, "%s %s: there is no directory %s; make it first, or correct the name", option,
                path, directory);
}

CHOICE_AS( BlockKind, input_block_kind, input_format,
    TO( CHOICE_input_format_auto,       BLOCK_AUTO )
    TO( CHOICE_input_format_files,      BLOCK_FILES )
    TO( CHOICE_input_format_txt,        BLOCK_TEXT )
    TO( CHOICE_input_format_jsonl,      BLOCK_JSON )
    TO( CHOICE_input_format_paragraphs, BLOCK_PARAGRAPHS )
    TO( CHOICE_input_format_doc,        BLOCK_DOCS )
    TO( CHOICE_input_format_wiki,       BLOCK_PAGES ) )

Status inputs_are_files(const char *const *paths, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (is_directory(paths[i]))
            return fail(BAD_OPTION, "--input %s is a directory; give the files in it, as --input %s/*.txt, "
                        "or let jotun clean make JSON lines of it", paths[i], paths[i]);
    return OK;
}

void note_wrapped_lines(const char *command, const char *const *paths, int64_t count, TextRules texts)
{
    FormatRules rules = { BLOCK_AUTO, texts, true };
    FileFormat  format;
    char        ending[16];
    for (int64_t i = 0; i < count; i++) {
        bool plain = !strcmp(format_ending(ending, paths[i]), ".txt");
        if (!plain || format_of_file(&format, paths[i], &rules) != OK || format.kind != BLOCK_FILES) continue;
        log_line("%s: %s looks like one text, and each of its lines is a document here; jotun clean --input "
                 "%s --output NAME.jsonl makes one document of it", command, paths[i], paths[i]);
        return;
    }
}

Status checkpoint_directory(const char *name, const char *path)
{
    char directory[1024];
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path, *ending = strrchr(file, '.');
    if (!file_exists(path) || is_directory(path)) return OK;
    bool inside = !strcmp(file, "manifest.json") || !strcmp(file, "latest") ||
                  (ending && !strcmp(ending, ".safetensors"));
    if (inside) return fail(BAD_OPTION, "%s is a file of a checkpoint; give its directory: %s", name,
                            directory_of(directory, path));
    return fail(BAD_OPTION, "%s is a file; give the directory that jotun train --save wrote", name);
}

Status special_tokens(Tokenizer *t, const Options *o)
{
    t->parse_special = o->parse_special;
    if (!o->parse_special || t->specials) return OK;
    return fail(BAD_OPTION, "--parse-special-tokens: --tokenizer %s knows no special token that a text could "
                "hold; leave it out", t->name);
}
