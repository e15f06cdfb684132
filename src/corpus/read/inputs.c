/* Expands files, folders and lists of files into one list of paths. Names in a folder are sorted by strcmp
 * and not by the locale, so that the documents have the same order, and thus the same numbers, on every
 * machine. */
#include "corpus/read/inputs.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/array.h"
#include "base/log.h"

/* Texts of a folder from which an unsure one is taken for a text too */
enum { TEXTS_SEVERAL = 3, LIST_BYTES = 1600 };

static Status no_memory(const char *path)
{
    return fail(NO_MEMORY, "%s: no memory for the list of files", path);
}

static Status path_add(Inputs *in, const char *path, BlockKind kind)
{
    struct stat info;
    TRY(ARRAY_RESERVE(in->path, in->capacity, in->paths + 1));
    TRY(ARRAY_RESERVE(in->kind, in->kinds_capacity, in->paths + 1));
    char *copy = strdup(path);
    if (!copy) return no_memory(path);
    if (strcmp(path, "-") && stat(path, &info) == 0 && S_ISREG(info.st_mode)) in->bytes += info.st_size;
    in->kind[in->paths]   = kind;
    in->path[in->paths++] = copy;
    return OK;
}

/* ---- what is skipped ---- */

static Status path_skip(Inputs *in, const char *path, int64_t bytes, const char *what, const char *cure)
{
    int64_t i = 0;
    while (i < in->skips && strcmp(in->skipped[i].what, what) != 0) i++;
    if (i == in->skips) {
        TRY(ARRAY_RESERVE(in->skipped, in->skips_capacity, i + 1));
        in->skipped[i] = (SkippedFiles){ .first = strdup(path) };
        if (!in->skipped[i].first) return no_memory(path);
        snprintf(in->skipped[i].what, sizeof in->skipped[i].what, "%s", what);
        snprintf(in->skipped[i].cure, sizeof in->skipped[i].cure, "%s", cure);
        in->skips++;
    }
    in->skipped[i].files++;
    in->skipped[i].bytes += bytes;
    return OK;
}

static int by_bytes_skipped(const void *a, const void *b)
{
    const SkippedFiles *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->what, y->what);
}

/* "3 .pdf of 30.1 MiB (a/b.pdf ...): pdftotext FILE writes its text as .txt; ...", the largest first. */
static void skipped_text(char out[LIST_BYTES], const Inputs *in)
{
    char bytes[24], *at = out;
    if (in->skips) qsort(in->skipped, (size_t)in->skips, sizeof *in->skipped, by_bytes_skipped);
    for (int64_t i = 0; i < in->skips; i++) {
        const SkippedFiles *s = &in->skipped[i];
        size_t room = (size_t)(out + LIST_BYTES - at);
        if (room < 400) {
            snprintf(at, room, "; and %" PRId64 " more kinds of files", in->skips - i);
            return;
        }
        at += snprintf(at, room, "%s%" PRId64 " %s of %s (%.100s%s)%s%s", i ? "; " : "", s->files, s->what,
                       log_bytes(bytes, (double)s->bytes), s->first, s->files > 1 ? " ..." : "",
                       *s->cure ? ": " : "", s->cure);
    }
}

Status inputs_check_skipped(const Inputs *in, bool skip)
{
    char    list[LIST_BYTES];
    int64_t bytes = 0;
    for (int64_t i = 0; i < in->skips; i++) bytes += in->skipped[i].bytes;
    double share = bytes ? (double)bytes / ((double)bytes + (double)in->bytes) : 0;
    if (skip || share <= 0.1) return OK;
    skipped_text(list, in);
    return fail(BAD_FILE, "%.0f %% of the bytes of --input would be skipped: %s; convert or remove these "
                "files, or give --skip-unreadable to leave them out", 100 * share, list);
}

void inputs_log(const Inputs *in, const char *command)
{
    char    list[LIST_BYTES];
    int64_t whole = 0, lines = 0;
    for (int64_t i = 0; i < in->paths; i++) {
        whole += in->kind[i] == BLOCK_FILES;
        lines += in->kind[i] == BLOCK_TEXT;
    }
    if (whole && lines)
        log_line("%s: %" PRId64 " of the files are one document each (--input-format files), %" PRId64
                 " have a document on each line (txt)", command, whole, lines);
    else if (whole)
        log_line("%s: %" PRId64 " of the files are one document each (--input-format files)", command, whole);
    if (in->hidden)
        log_line("%s: %" PRId64 " hidden files, links to directories and the like are left out", command,
                 in->hidden);
    if (!in->skips) return;
    skipped_text(list, in);
    log_line("%s: skipped: %s", command, list);
}

/* ---- folders ---- */

static int by_bytes(const FTSENT **a, const FTSENT **b) { return strcmp((*a)->fts_name, (*b)->fts_name); }

/* The last message, which begins with the path, without it. */
static const char *reason_of(const char *path)
{
    const char *text = fail_text();
    size_t letters = strlen(path);
    if (!strncmp(text, path, letters)) text += letters;
    return text + strspn(text, ":0123456789 ");
}

/* A regular file of a folder. What cannot be read is skipped here, while the same path given by itself would
 * be an error. Source code is read where files are asked for: a folder of texts often has a few scripts. */
static Status file_take(Inputs *in, const char *path, int64_t bytes, const FormatRules *rules)
{
    char ending[16];
    BlockKind  kind;
    FileFormat format;
    const char *cure = format_unread(path);
    format_ending(ending, path);
    if (cure) return path_skip(in, path, bytes, ending, cure);
    if (format_by_name(&kind, path, rules->wanted) != OK)
        return path_skip(in, path, bytes, ending, "--input-format files reads any text");
    if (rules->wanted == BLOCK_AUTO && kind == BLOCK_FILES)
        return path_skip(in, path, bytes, ending, "--input-format files reads source code too");
    Status status = format_of_file(&format, path, rules);
    if (status == OK) return path_add(in, path, format.unsure ? BLOCK_AUTO : format.kind);
    if (status != BAD_FILE) return status;
    if (format.not_text)
        return path_skip(in, path, bytes, "not text in UTF-8",
                         "--input-encoding ISO-8859-1, SHIFT_JIS or the like reads texts of other encodings");
    if (!strcmp(ending, ".xml"))
        return path_skip(in, path, bytes, ending, "--input-format files reads what is no MediaWiki dump");
    return path_skip(in, path, bytes, "unreadable", reason_of(path));
}

/* Links to folders are not followed, since they can form a cycle; links to files are. */
static Status entry_add(Inputs *in, FTS *tree, FTSENT *entry, const FormatRules *rules)
{
    struct stat info;
    const char *path = entry->fts_path;
    if (entry->fts_info == FTS_DP) return OK;                       /* a folder, after its entries */
    if (entry->fts_info == FTS_DNR)
        return fail(BAD_FILE, "%s: the directory cannot be read: %s", path, strerror(entry->fts_errno));
    if (entry->fts_level > 0 && *entry->fts_name == '.') {
        fts_set(tree, entry, FTS_SKIP);
        in->hidden++;
        return OK;
    }
    if (entry->fts_info == FTS_D) return OK;
    bool regular = !stat(path, &info) && S_ISREG(info.st_mode);
    in->hidden += !regular;
    return regular ? file_take(in, path, info.st_size, rules) : OK;
}

/* Decides what the files from `from` on are whose format is still AUTO. */
static void unsure_decide(Inputs *in, int64_t from)
{
    int64_t texts = 0, lines = 0;
    for (int64_t i = from; i < in->paths; i++) {
        texts += in->kind[i] == BLOCK_FILES || in->kind[i] == BLOCK_AUTO;
        lines += in->kind[i] == BLOCK_TEXT;
    }
    bool several = texts >= TEXTS_SEVERAL && lines < texts;
    for (int64_t i = from; i < in->paths; i++)
        if (in->kind[i] == BLOCK_AUTO) in->kind[i] = several ? BLOCK_FILES : BLOCK_TEXT;
}

static Status folder_add(Inputs *in, const char *path, const FormatRules *rules)
{
    char  *const roots[] = { (char *)(uintptr_t)path, NULL };
    Status  status = OK;
    int64_t before = in->paths;
    FTS    *tree   = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_bytes);
    if (!tree) return no_memory(path);
    while (status == OK) {
        errno = 0;
        FTSENT *entry = fts_read(tree);
        if (!entry) break;
        status = entry_add(in, tree, entry, rules);
    }
    if (status == OK && errno) status = no_memory(path);            /* fts_read sets it to 0 at the end */
    fts_close(tree);
    unsure_decide(in, before);
    return status;
}

static Status folder_useless(const Inputs *in, const char *path, bool empty)
{
    char list[LIST_BYTES];
    if (empty) return fail(BAD_FILE, "%s: there is no file in this directory", path);
    if (!in->skips)
        return fail(BAD_FILE, "%s: has only hidden files, links to directories and the like, which are left "
                    "out; name the files", path);
    skipped_text(list, in);
    return fail(BAD_FILE, "%s: no file in this directory is read: %s", path, list);
}

/* ---- files and lists ---- */

/* A path that the user named: unlike one found in a folder, it must exist and be of a known format. */
static Status path_expand(Inputs *in, const char *path, const FormatRules *rules)
{
    struct stat info;
    FileFormat format;
    int64_t before = in->paths, hidden = in->hidden;
    if (!strcmp(path, "-")) return path_add(in, path, rules->wanted);
    if (stat(path, &info)) return fail(BAD_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        TRY(folder_add(in, path, rules));
        return in->paths > before ? OK : folder_useless(in, path, in->hidden == hidden && !in->skips);
    }
    TRY(format_of_file(&format, path, rules));
    return path_add(in, path, format.kind);
}

enum { LIST_LINE_BYTES = PATH_MAX + 2 };         /* a path with its newline and NUL */

/* One line of a list. A line that fills the whole array was cut by fgets, so it is longer than any path. */
static Status listed_expand(Inputs *in, const char *list, char *line, int64_t number,
                            const FormatRules *rules)
{
    /* An empty string here means that the line began with a NUL, which no path can have. */
    if (!*line || strlen(line) == LIST_LINE_BYTES - 1)
        return fail(BAD_FILE, "@%s:%" PRId64 ": a line that can be no path; a list has one file per line",
                    list, number);
    line[strcspn(line, "\r\n")] = 0;
    if (!*line) return OK;
    if (*line == '@')
        return fail(BAD_FILE, "%s:%" PRId64 ": %s: a list in a list, which must be an argument of its own",
                    list, number, line);
    return path_expand(in, line, rules);
}

static Status list_expand(Inputs *in, const char *list, const FormatRules *rules)
{
    FILE *file = fopen(list, "r");
    if (!file) return fail(BAD_FILE, "@%s: the list of files cannot be read: %s", list, strerror(errno));
    char   line[LIST_LINE_BYTES];
    Status status = OK;
    for (int64_t number = 1; status == OK && fgets(line, sizeof line, file); number++)
        status = listed_expand(in, list, line, number, rules);
    if (status == OK && ferror(file))
        status = fail(BAD_FILE, "@%s: the list of files cannot be read: %s", list, strerror(errno));
    fclose(file);
    return status;
}

Status inputs_expand(Inputs *in, const char *const *given, int count, const FormatRules *rules)
{
    Status status = OK;
    *in = (Inputs){ 0 };
    for (int i = 0; i < count && status == OK; i++)
        status = *given[i] == '@' ? list_expand(in, given[i] + 1, rules) : path_expand(in, given[i], rules);
    if (status == OK && !in->paths)
        status = fail(BAD_FILE, "%s: names no file", count ? given[0] : "--input");
    if (status != OK) inputs_free(in);
    return status;
}

void inputs_free(Inputs *in)
{
    for (int64_t i = 0; i < in->paths; i++) free(in->path[i]);
    for (int64_t i = 0; i < in->skips; i++) free(in->skipped[i].first);
    free(in->path);
    free(in->kind);
    free(in->skipped);
    *in = (Inputs){ 0 };
}
