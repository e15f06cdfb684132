/* The rows of file_types.def, looked up by the ending of a name, and the looks of a file's first bytes. */
#include "corpus/read/format.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/array.h"
#include "base/file.h"
#include "base/words.h"
#include "corpus/prose/reflow.h"
#include "corpus/read/codec.h"
#include "corpus/read/stream.h"

/* ---- names ---- */

static const struct { Markup markup; const char *endings; } text_file[] = {
#define TEXT_FILE(markup, endings) { MARKUP_##markup, endings },
#include "corpus/read/file_types.def"
};
static const char *const code_file[] = {
#define CODE_FILE(endings) endings,
#include "corpus/read/file_types.def"
};
static const struct { const char *cure, *endings; bool made_text; } unread_file[] = {
#define UNREAD(cure, endings)    { cure, endings, false },
#define MADE_TEXT(cure, endings) { cure, endings, true },
#include "corpus/read/file_types.def"
};

/* Bytes of the name without the ending of a compressed file. */
static size_t name_bytes(const char *path)
{
    const Codec *codec = codec_by_ending(path);
    return strlen(path) - (codec ? strlen(codec->ending) : 0);
}

/* What follows the dot of "notes of 12.3", "Dr. Smith" or "GPL-2.0" is no ending. */
const char *format_ending(char out[16], const char *path)
{
    size_t length = name_bytes(path), bytes = 0, letters = 0, other = 0;
    const char *leaf = path_leaf(path, length), *dot = memrchr(leaf, '.', length - (size_t)(leaf - path));
    for (; dot && dot > leaf && dot + bytes < path + length && bytes < 15; bytes++) {
        unsigned char c = (unsigned char)dot[bytes];
        out[bytes] = (char)tolower(c);
        letters += isalpha(c) != 0;
        other   += bytes && !isalnum(c);
    }
    out[letters && !other && bytes < 15 ? bytes : 0] = 0;
    return out;
}

static bool ending_is(const char *path, const char *endings)
{
    char ending[16];
    return *format_ending(ending, path) && words_have(endings, ending + 1, strlen(ending + 1));
}

/* A text whose ending is not known is plain: its lines are joined only where they are wrapped. */
Markup format_markup(const char *path)
{
    for (size_t i = 0; i < COUNT(text_file); i++)
        if (ending_is(path, text_file[i].endings)) return text_file[i].markup;
    return format_is_code(path) ? MARKUP_NONE : MARKUP_TEXT;
}

static bool is_prose(const char *path)
{
    char ending[16];
    bool found = !*format_ending(ending, path);
    for (size_t i = 0; i < COUNT(text_file); i++) found |= ending_is(path, text_file[i].endings);
    return found;
}

bool format_is_code(const char *path)
{
    for (size_t i = 0; i < COUNT(code_file); i++)
        if (ending_is(path, code_file[i])) return true;
    return false;
}

/* named: a text that is no prose is read. */
static const char *cure_of(const char *path, bool named)
{
    for (size_t i = 0; i < COUNT(unread_file); i++)
        if (ending_is(path, unread_file[i].endings) && !(named && unread_file[i].made_text))
            return unread_file[i].cure;
    return NULL;
}

const char *format_unread(const char *path) { return cure_of(path, false); }

/* The cure with the path in the place of FILE. */
static Status refuse_unread(const char *path, const char *cure)
{
    char ending[16];
    const char *file = strstr(cure, "FILE");
    format_ending(ending, path);
    int before = file ? (int)(file - cure) : 0;
    if (!*cure) return fail(BAD_FILE, "%s: %s is not text; leave it out", path, ending);
    if (!file) return fail(BAD_FILE, "%s: %s is not read here: %s", path, ending, cure);
    return fail(BAD_FILE, "%s: %s is not read here; %.*s%s%s", path, ending, before, cure, path, file + 4);
}

static Status name_unknown(const char *path, BlockKind wanted)
{
    if (wanted == BLOCK_AUTO)
        return fail(BAD_FILE, "%s: has no known ending; give its format by --input-format: files for a text "
                    "that is one document, txt for one document on each line, jsonl for JSON lines", path);
    return fail(BAD_FILE, "%s: ends neither in .txt (one document per line) nor in .jsonl (one JSON object"
                " per line), each also with .gz, .zst or .bz2 added; rename it, give it through --input -, "
                "or let jotun clean make JSON lines of it", path);
}

Status format_by_name(BlockKind *kind, const char *path, BlockKind wanted)
{
    char ending[16];
    const char *cure = cure_of(path, wanted > BLOCK_AUTO);
    *kind = wanted;
    if (!strcmp(path, "-")) return OK;
    if (cure) return refuse_unread(path, cure);
    if (wanted > BLOCK_AUTO) return OK;
    format_ending(ending, path);
    bool text = !strcmp(ending, ".txt"), any = wanted == BLOCK_AUTO;
    if (!strcmp(ending, ".jsonl") || !strcmp(ending, ".json")) *kind = BLOCK_JSON;
    else if (text && !any) *kind = BLOCK_TEXT;
    else if (any && !strcmp(ending, ".xml")) return OK;
    else if (any && format_is_code(path)) *kind = BLOCK_FILES;
    else if (!text && !(any && is_prose(path))) return name_unknown(path, wanted);
    return OK;
}

/* ---- beginnings ---- */

/* A text that is cut may end within a character. */
static bool is_text(const char *text, int64_t bytes)
{
    if (memchr(text, 0, (size_t)bytes)) return false;
    int64_t broken = text_not_utf8(text, bytes);
    return broken < 0 || (broken > 0 && bytes - broken < 4);
}

static Status not_text(FileFormat *format, const char *path)
{
    format->not_text = true;
    return fail(BAD_FILE, "%s: is not text in UTF-8; --input-encoding ISO-8859-1 (Western Europe), SHIFT_JIS "
                "(Japanese) or the like reads a text in another encoding", path);
}

/* Files without an ending may be anything, WikiExtractor's wiki_00 for one, and plain texts may have a
 * document on each line. */
static Status kind_by_looks(FileFormat *format, const char *path, const char *text, int64_t bytes)
{
    char ending[16];
    bool plain = *format_ending(ending, path) != 0;
    if (!plain && !is_text(text, bytes)) return not_text(format, path);
    if (bytes > FORMAT_BEGINNING) bytes = FORMAT_BEGINNING;
    if (bytes > FORMAT_BEGINNING / 2)                                        /* the last line may be cut */
        while (bytes > 0 && text[bytes - 1] != '\n') bytes--;
    LinesLook look = lines_look(text, bytes);
    format->unsure = plain && look == LINES_UNSURE;
    format->kind   = !plain || look == LINES_TEXT ? BLOCK_FILES : BLOCK_TEXT;
    return OK;
}

Status format_by_beginning(FileFormat *format, const char *path, BlockKind wanted, const char *text,
                           int64_t bytes)
{
    char ending[16];
    bool standard = !strcmp(path, "-"), any = wanted == BLOCK_AUTO;
    while (bytes > 0 && memchr(" \t\r\n", *text, 4)) text++, bytes--;
    format_ending(ending, path);
    bool xml = !strcmp(ending, ".xml"), plain = !strcmp(ending, ".txt") || !strcmp(ending, ".text");
    bool open = standard || plain || xml || !*ending;           /* not of one format by their names */
    bool wiki = has_beginning(text, bytes, "<mediawiki") || has_beginning(text, bytes, "<page>") ||
                (has_beginning(text, bytes, "<?xml") && memmem(text, (size_t)bytes, "<mediawiki", 10));
    *format = (FileFormat){ .kind = BLOCK_TEXT };
    if (any && !open) format->kind = BLOCK_FILES;
    else if (any && has_beginning(text, bytes, "<doc ")) format->kind = BLOCK_DOCS;
    else if (any && (wiki || (xml && !bytes))) format->kind = BLOCK_PAGES;
    else if (any && xml)
        return fail(BAD_FILE, "%s: is no MediaWiki dump; --input-format files reads it as it is", path);
    else if (!plain && has_beginning(text, bytes, "{")) format->kind = BLOCK_JSON;
    else if (any && !standard && bytes) return kind_by_looks(format, path, text, bytes);
    return OK;
}

/* ---- files ---- */

static Status beginning_read(char *text, size_t *bytes, const char *path, TextRules texts)
{
    Stream *stream;
    TRY(stream_open(&stream, path, 0));
    Status status = stream_texts(stream, texts);
    if (status == OK) status = stream_read(stream, text, FORMAT_BEGINNING, bytes);
    stream_close(stream);
    bool marked = status == OK && has_beginning(text, (int64_t)*bytes, "\xEF\xBB\xBF");
    if (marked) memmove(text, text + 3, *bytes -= 3);
    return status;
}

/* empty: what is empty is not even compressed. */
static Status beginning_check(FileFormat *format, char *text, const char *path, const FormatRules *rules,
                              bool empty)
{
    size_t bytes = 0;
    if (!empty) TRY(beginning_read(text, &bytes, path, rules->texts));
    if (format->kind <= BLOCK_AUTO)
        TRY(format_by_beginning(format, path, rules->wanted, text, (int64_t)bytes));
    if (format->kind != BLOCK_FILES || rules->repair || is_text(text, (int64_t)bytes)) return OK;
    return not_text(format, path);
}

Status format_of_file(FileFormat *format, const char *path, const FormatRules *rules)
{
    struct stat info;
    *format = (FileFormat){ 0 };
    TRY(format_by_name(&format->kind, path, rules->wanted));
    bool look = format->kind <= BLOCK_AUTO || format->kind == BLOCK_FILES;
    bool once = !strcmp(path, "-") || (stat(path, &info) == 0 && !S_ISREG(info.st_mode));
    if (once || !look) return OK;
    char *text = malloc(FORMAT_BEGINNING);
    if (!text) return fail(NO_MEMORY, "%s: no memory to read it", path);
    bool   empty  = stat(path, &info) == 0 && info.st_size == 0;
    Status status = beginning_check(format, text, path, rules, empty);
    free(text);
    return status;
}
