/* jotun data words --only-source: a dictionary, and texts of words as its ids in token files without
 * documents, each line an item that ends with </s>. */
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

/* writer, and what follows: of the text that is read; unknown: words that the dictionary lacks */
typedef struct {
    const Options *o;
    Dictionary *dictionary;
    FILE *log;
    TextParts parts;
    TokenFileWriter *writer;
    int64_t lines, ids, unknown;
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

/* Three digits, one of them behind the point at least, as Python's {:.3} has them below 100. */
static void percent(char out[32], double value)
{
    snprintf(out, 32, "%.3g", value);
    if (!strpbrk(out, ".e")) strcat(out, ".0");
}

/* ---- ids ---- */

/* Of each line how many of its words are unknown, how many ids it has, and these. */
static void part_fill(void *context, TextSpan lines, Buffer *made)
{
    const Preprocess *p = context;
    TextSpan line, word;
    while (text_line_next(&lines, &line)) {
        int64_t head = made->bytes;
        int32_t counts[2] = { 0 }, end = DICTIONARY_EOS;
        buffer_add_or_stop(made, counts, sizeof counts);
        while (text_word_next(&line, &word)) {
            int32_t id = dictionary_find(p->dictionary, word);
            counts[0] += id == DICTIONARY_UNKNOWN && (word.bytes != 5 || memcmp(word.text, "<unk>", 5));
            buffer_add_or_stop(made, &id, sizeof id);
        }
        buffer_add_or_stop(made, &end, sizeof end);
        counts[1] = (int32_t)((made->bytes - head) / (int64_t)sizeof end) - 2;
        memcpy(made->text + head, counts, sizeof counts);
    }
}

static Status part_write(void *context, const Buffer *made)
{
    Preprocess *p = context;
    const int32_t *at = (const int32_t *)(const void *)made->text;
    for (int64_t left = made->bytes / (int64_t)sizeof *at; left > 0; left -= at[1] + 2, at += at[1] + 2) {
        TRY(token_file_add(p->writer, at + 2, at[1]));
        p->lines++, p->ids += at[1], p->unknown += at[0];
    }
    return OK;
}

static Status binarize(Preprocess *p, const char *path, const char *name)
{
    char    prefix[1024], line[1400], share[32];
    int64_t types = dictionary_size(p->dictionary);
    p->lines = p->ids = p->unknown = 0;
    snprintf(line, sizeof line, "[None] Dictionary: %" PRId64 " types", types);
    say(p, line);
    TRY(path_join(prefix, p->o->destdir, name));
    TRY(token_file_create_items(&p->writer, prefix, types));
    Status status = text_pieces(path, NULL, text_parts_make, &p->parts);
    if (status == OK) status = token_file_finish(p->writer);
    else              token_file_discard(p->writer);
    TRY(status);
    percent(share, p->ids ? 100 * (double)p->unknown / (double)p->ids : 0);
    snprintf(line, sizeof line,
             "[None] %.1000s: %" PRId64 " sents, %" PRId64 " tokens, %s%% replaced by <unk>", path, p->lines,
             p->ids, share);
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

static Status count_words(void *dictionary, TextSpan rest)
{
    TextSpan line, word;
    while (text_line_next(&rest, &line))
        while (text_word_next(&line, &word)) TRY(dictionary_count(dictionary, word, 1));
    return OK;
}

static Status dictionary_make(Preprocess *p)
{
    const Options *o = p->o;
    TRY(dictionary_new(&p->dictionary));
    TRY(text_pieces(o->trainpref, NULL, count_words, p->dictionary));
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
    TRY(team_open(&p->parts.team,
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
    Preprocess p = { .o = o, .parts = { .context = &p, .make = part_fill, .take = part_write } };
    Status status = preprocess(&p);
    if (p.log) fclose(p.log);
    text_parts_close(&p.parts);
    dictionary_close(p.dictionary);
    return status;
}
