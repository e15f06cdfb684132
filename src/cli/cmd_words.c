/* jotun data words --only-source: a dictionary, and texts of words as its ids in token files without
 * documents, each line an item that ends with </s>. Threads find the ids of parts of a text, which are then
 * written in order. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "base/team.h"
#include "cli/command.h"
#include "cli/text_file.h"
#include "compat/log_names.h"
#include "data/token_file.h"
#include "logs/log_record.h"
#include "text/dictionary.h"

enum { PART_BYTES = 1 << 18, PARTS_AT_ONCE = 16 };

/* Lines of a text, and what they are as ids; unknown: words that the dictionary lacks. */
typedef struct {
    TextSpan text;
    int32_t *id, *length;
    int64_t ids, lines, unknown, room;
} TextPart; /* room: bytes */

typedef struct {
    const Options *o;
    Dictionary *dictionary;
    FILE *log;
    Team *team;
    TextPart part[PARTS_AT_ONCE];
} Preprocess;

/* ---- what it says ---- */

static void say(const Preprocess *p, const char *text)
{
    char line[1600];
    if (p->o->log_format.value == CHOICE_log_format_jotun) {
        log_line("%s", text);
        if (p->log) fprintf(p->log, "%s\n", text);
        return;
    }
    LogRecord now = log_record(0, 0, NULL);
    int bytes = log_other_line(line, sizeof line - 1, LINE_words_message, &now, text);
    line[bytes++] = '\n';
    log_write(line, (size_t)bytes);
    if (p->log) fwrite(line, 1, (size_t)bytes, p->log);
}

/* A percentage as Python's {:.3}: three digits, one of them behind the point at least. */
static void percent(char out[32], double value)
{
    char scientific[32];
    snprintf(scientific, sizeof scientific, "%.2e", value);
    long exponent = strtol(strchr(scientific, 'e') + 1, NULL, 10);
    snprintf(out, 32, "%.3g", value);
    if (value != 0 && exponent >= 2) {                      /* 1e+02: trailing zeros are left out */
        char *e = strchr(scientific, 'e'), *end = e;
        while (end[-1] == '0') end--;
        if (end[-1] == '.') end--;
        snprintf(out, 32, "%.*s%s", (int)(end - scientific), scientific, e);
    } else if (!strpbrk(out, ".e")) strcat(out, ".0");
}

/* ---- ids ---- */

/* A line of n bytes has at most n / 2 + 1 words and its end. */
static Status part_room(TextPart *part)
{
    if (part->room >= part->text.bytes) return OK;
    size_t room = (size_t)(part->text.bytes < PART_BYTES ? PART_BYTES : part->text.bytes);
    free(part->id);
    free(part->length);
    part->id     = malloc((2 * room + 8) * sizeof *part->id);
    part->length = malloc((room + 1) * sizeof *part->length);
    part->room   = part->id && part->length ? (int64_t)room : 0;
    return part->room ? OK : fail(NO_MEMORY, "no memory for the ids of %zu bytes of text", room);
}

static void part_fill(const Dictionary *d, TextPart *part)
{
    TextSpan rest = part->text, line, word;
    part->ids = part->lines = part->unknown = 0;
    while (text_line_next(&rest, &line)) {
        int64_t first = part->ids;
        while (text_word_next(&line, &word)) {
            int32_t id = dictionary_find(d, word);
            part->unknown += id == DICTIONARY_UNKNOWN && (word.bytes != 5 || memcmp(word.text, "<unk>", 5));
            part->id[part->ids++] = id;
        }
        part->id[part->ids++] = DICTIONARY_EOS;
        part->length[part->lines++] = (int32_t)(part->ids - first);
    }
}

static void parts_fill(void *context, int64_t begin, int64_t end)
{
    Preprocess *p = context;
    for (int64_t i = begin; i < end; i++) part_fill(p->dictionary, &p->part[i]);
}

/* Up to the end of a line. */
static Status part_next(TextPart *part, TextSpan *rest)
{
    int64_t bytes = rest->bytes < PART_BYTES ? rest->bytes : PART_BYTES;
    while (bytes < rest->bytes && rest->text[bytes - 1] != '\n') bytes++;
    part->text = (TextSpan){ rest->text, bytes };
    *rest      = (TextSpan){ rest->text + bytes, rest->bytes - bytes };
    return part_room(part);
}

typedef struct { int64_t lines, ids, unknown; } Counted;

static Status parts_write(Preprocess *p, int parts, TokenFileWriter *writer, Counted *counted)
{
    for (int i = 0; i < parts; i++) {
        const TextPart *part = &p->part[i];
        const int32_t  *id = part->id;
        for (int64_t l = 0; l < part->lines; id += part->length[l++])
            TRY(token_file_add(writer, id, part->length[l]));
        counted->lines += part->lines, counted->ids += part->ids, counted->unknown += part->unknown;
    }
    return OK;
}

static Status text_write(Preprocess *p, TextSpan rest, TokenFileWriter *writer, Counted *counted)
{
    while (rest.bytes > 0) {
        int parts = 0;
        while (rest.bytes > 0 && parts < PARTS_AT_ONCE) TRY(part_next(&p->part[parts++], &rest));
        team_for(p->team, parts, 1, parts_fill, p);
        TRY(parts_write(p, parts, writer, counted));
    }
    return OK;
}

static Status binarize(Preprocess *p, const char *path, const char *name)
{
    TokenFileWriter *writer;
    TextReader reader;
    TextSpan   lines;
    Counted counted = { 0 };
    char    prefix[1024], line[1400], share[32];
    int64_t types = dictionary_size(p->dictionary);
    snprintf(line, sizeof line, "[None] Dictionary: %" PRId64 " types", types);
    say(p, line);
    TRY(path_join(prefix, p->o->destdir, name));
    Status status = text_reader_open(&reader, path);
    if (status == OK && (status = token_file_create_items(&writer, prefix, types)) == OK) {
        while ((status = text_reader_next(&lines, &reader)) == OK && lines.bytes)
            if ((status = text_write(p, lines, writer, &counted)) != OK) break;
        if (status == OK) status = token_file_finish(writer);
        else              token_file_discard(writer);
    }
    text_reader_close(&reader);
    TRY(status);
    percent(share, counted.ids ? 100 * (double)counted.unknown / (double)counted.ids : 0);
    snprintf(line, sizeof line,
             "[None] %.1000s: %" PRId64 " sents, %" PRId64 " tokens, %s%% replaced by <unk>", path,
             counted.lines, counted.ids, share);
    say(p, line);
    return OK;
}

/* Files with commas between: NAME, NAME1, ... */
static Status binarize_all(Preprocess *p, const char *paths, const char *name)
{
    char path[1024], numbered[32];
    for (int i = 0; paths && *paths; i++) {
        size_t letters = strcspn(paths, ",");
        if (letters == 0 || letters >= sizeof path)
            return fail(BAD_OPTION, "--%spref: a name of a file is empty or longer than %zu bytes", name,
                        sizeof path - 1);
        snprintf(path, sizeof path, "%.*s", (int)letters, paths);
        snprintf(numbered, sizeof numbered, i ? "%s%d" : "%s", name, i);
        TRY(binarize(p, path, numbered));
        paths += letters + (paths[letters] == ',');
    }
    return OK;
}

/* ---- the dictionary ---- */

static Status count_words(Dictionary *d, TextSpan rest)
{
    TextSpan line, word;
    while (text_line_next(&rest, &line))
        while (text_word_next(&line, &word)) TRY(dictionary_count(d, word, 1));
    return OK;
}

static Status dictionary_make(Preprocess *p)
{
    const Options *o = p->o;
    TextReader reader;
    TextSpan   lines;
    TRY(dictionary_new(&p->dictionary));
    Status status = text_reader_open(&reader, o->trainpref);
    while (status == OK && (status = text_reader_next(&lines, &reader)) == OK && lines.bytes)
        status = count_words(p->dictionary, lines);
    text_reader_close(&reader);
    TRY(status);
    return dictionary_order(p->dictionary, o->thresholdsrc, o->nwordssrc, o->padding_factor);
}

static Status dictionary_take(Preprocess *p)
{
    const Options *o = p->o;
    char path[1024];
    TRY(path_join(path, o->destdir, "dict.txt"));
    if (!o->srcdict && file_exists(path))
        return fail(BAD_FILE, "%s: is there already; give it as --srcdict, or another --destdir", path);
    TRY(o->srcdict ? dictionary_open(&p->dictionary, o->srcdict, compat_overwrite_word) : dictionary_make(p));
    TRY(folder_make(o->destdir));
    TRY(dictionary_write(p->dictionary, path));
    TRY(path_join(path, o->destdir, "preprocess.log"));
    if (!(p->log = fopen(path, "ae"))) return fail(IO_FAILED, "%s: cannot be written: %m", path);
    return OK;
}

static Status options_fit(const Options *o)
{
    if (!o->only_source)
        return fail(BAD_USAGE, "jotun data words needs --only-source: texts of one language are prepared, "
                    "and no translations");
    if (!o->srcdict && !o->trainpref)
        return fail(BAD_USAGE, "jotun data words needs --trainpref, of which it makes the dictionary, or "
                    "--srcdict");
    return OK;
}

static Status preprocess(Preprocess *p)
{
    const Options *o = p->o;
    char line[1200];
    TRY(options_fit(o));
    TRY(team_open(&p->team,
                  o->preprocess_workers < team_cores() ? (int)o->preprocess_workers : team_cores()));
    TRY(dictionary_take(p));
    if (o->trainpref) TRY(binarize(p, o->trainpref, "train"));
    TRY(binarize_all(p, o->validpref, "valid"));
    TRY(binarize_all(p, o->testpref, "test"));
    snprintf(line, sizeof line, "Wrote preprocessed data to %.1000s", o->destdir);
    say(p, line);
    return OK;
}

Status cmd_data_words(Options *o)
{
    Preprocess p = { .o = o };
    Status status = preprocess(&p);
    for (int i = 0; i < PARTS_AT_ONCE; i++) free(p.part[i].id), free(p.part[i].length);
    if (p.log) fclose(p.log);
    team_close(p.team);
    dictionary_close(p.dictionary);
    return status;
}
