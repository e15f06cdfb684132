#include "corpus/read/encoding.h"
#include <errno.h>
#include <iconv.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/utf8.h"

struct Encoding {
    iconv_t     iconv;
    const char *name, *path;
    int64_t     at, line;                  /* bytes converted; number of the line that is converted */
};

/* The mark of UTF-32LE begins with that of UTF-16LE, so it comes first. */
static const struct { const char *name, *mark; size_t bytes; } marks[] = {
    { "UTF-32LE", "\xFF\xFE\0\0", 4 }, { "UTF-32BE", "\0\0\xFE\xFF", 4 },
    { "UTF-16LE", "\xFF\xFE", 2 },     { "UTF-16BE", "\xFE\xFF", 2 },     { "UTF-8", "\xEF\xBB\xBF", 3 },
};

/* A suffix such as //IGNORE would leave bytes out without a word. */
static Status converter_open(iconv_t *to, const char *encoding)
{
    *to = strchr(encoding, '/') ? (iconv_t)-1 : iconv_open("UTF-8", encoding);
    if (*to != (iconv_t)-1) return OK;
    return fail(BAD_OPTION, "--input-encoding %s: this system's C library knows no such encoding; iconv -l "
                "lists those it knows", encoding);
}

Status encoding_known(const char *encoding)
{
    iconv_t to;
    if (!encoding) return OK;
    TRY(converter_open(&to, encoding));
    iconv_close(to);
    return OK;
}

/* Latin letters of UTF-16 without a mark are valid UTF-8 with a NUL at every second byte. */
static const char *unmarked(const char *head, size_t bytes)
{
    if (bytes < 4) return NULL;
    if (head[0] && !head[1] && head[2] && !head[3]) return "UTF-16LE";
    return !head[0] && head[1] && !head[2] && head[3] ? "UTF-16BE" : NULL;
}

/* Bits of a unit, by a name in iconv's words: UTF-16, ISO-10646/UCS2, utf8, UCS-4LE; 0: another. */
static int unit_bits(const char *encoding)
{
    static const struct { const char *part; int bits; } parts[] = {
        { "UTF-8", 8 }, { "UTF8", 8 }, { "UTF-16", 16 }, { "UTF16", 16 }, { "UTF-32", 32 }, { "UTF32", 32 },
        { "UCS-2", 16 }, { "UCS2", 16 }, { "UCS-4", 32 }, { "UCS4", 32 },
    };
    for (int i = 0; i < COUNT(parts); i++)
        if (strcasestr(encoding, parts[i].part)) return parts[i].bits;
    return 0;
}

/* Whether a text in this encoding may have the byte order mark of that one. */
static bool may_have(const char *named, const char *mark)
{
    size_t n = strlen(named), m = strlen(mark);
    bool   ordered = n > 2 && (!strcasecmp(named + n - 2, "LE") || !strcasecmp(named + n - 2, "BE"));
    if (unit_bits(named) != unit_bits(mark)) return false;
    return !ordered || !strcasecmp(named + n - 2, mark + m - 2);
}

/* The encoding of a byte order mark; NULL: there is none. */
static const char *marked(size_t *mark, const char *head, size_t bytes)
{
    for (int i = 0; i < COUNT(marks); i++)
        if (bytes >= marks[i].bytes && !memcmp(head, marks[i].mark, marks[i].bytes))
            return *mark = marks[i].bytes, marks[i].name;
    return NULL;
}

Status encoding_open(Encoding **encoding, size_t *mark, const char *named, const char *path,
                     const char *head, size_t bytes)
{
    *encoding = NULL;
    const char *name = named, *like = named ? NULL : unmarked(head, bytes);
    if (like)
        return fail(BAD_FILE, "%s:1: byte 1 is a NUL: the text looks like %s without a byte order mark; if "
                    "it is, give --input-encoding %s", path, like, like);
    const char *says = marked(mark, head, bytes);
    if (says && named && !may_have(named, says))
        return fail(BAD_FILE, "%s:1: it begins with the byte order mark of %s, and --input-encoding says %s; "
                    "leave that out for this file", path, says, named);
    if (!named && strcmp(says ? says : "UTF-8", "UTF-8")) name = says;
    else *mark = 0;
    if (!name) return OK;
    Encoding *e = calloc(1, sizeof *e);
    if (!e) return fail(NO_MEMORY, "%s: no memory to convert it", path);
    *e = (Encoding){ .iconv = (iconv_t)-1, .name = name, .path = path, .at = (int64_t)*mark, .line = 1 };
    Status status = converter_open(&e->iconv, name);
    if (status == OK) *encoding = e;
    else              encoding_close(e);
    return status;
}

static Status refuse(const Encoding *e, const char *what)
{
    return fail(BAD_FILE, "%s:%" PRId64 ": byte %" PRId64 " of the text %s in %s; --input-encoding names "
                "another encoding", e->path, e->line, e->at, what, e->name);
}

Status encoding_step(Encoding *e, EncodingWindow *w, bool last)
{
    char  *in = (char *)(uintptr_t)w->in, *out = w->out;
    size_t done = iconv(e->iconv, &in, &w->in_bytes, &out, &w->out_bytes);
    int why = done == (size_t)-1 ? errno : 0;
    /* A stateful encoding may end with a change of its state. */
    if (why == 0 && last) iconv(e->iconv, NULL, NULL, &out, &w->out_bytes);
    e->at += in - w->in;
    for (const char *at = w->out; (at = memchr(at, '\n', (size_t)(out - at))); at++) e->line++;
    w->in  = in;
    w->out = out;
    if (why == EILSEQ) return refuse(e, "begins no character");
    if (why == EINVAL && last) return refuse(e, "begins a character that is cut off");
    return OK;
}

void encoding_close(Encoding *e)
{
    if (!e) return;
    if (e->iconv != (iconv_t)-1) iconv_close(e->iconv);
    free(e);
}

/* ---- whole texts ---- */

int64_t text_not_utf8(const char *text, int64_t bytes)
{
    int64_t at = 0, broken = utf8_broken(text, bytes);
    while (broken >= 0 && text[at + broken] == 0) {
        at += broken + 1;
        broken = utf8_broken(text + at, bytes - at);
    }
    return broken < 0 ? -1 : at + broken;
}

static Status check_utf8(const char *text, int64_t bytes, const char *path)
{
    int64_t at = text_not_utf8(text, bytes), line = 1;
    if (at < 0) return OK;
    for (int64_t i = 0; i < at; i++) line += text[i] == '\n';
    return fail(BAD_FILE, "%s:%" PRId64 ": byte %" PRId64 " of the text is 0x%02X, which is not UTF-8; "
                "--input-encoding names another encoding", path, line, at, (unsigned char)text[at]);
}

static Status convert(Encoding *e, const char *text, int64_t bytes, Buffer *out)
{
    EncodingWindow w = { .in = text, .in_bytes = (size_t)bytes };
    bool ends;
    do {
        TRY(buffer_reserve(out, (int64_t)w.in_bytes + 64));
        w.out = out->text + out->bytes;
        w.out_bytes = (size_t)(out->capacity - out->bytes);
        ends = w.in_bytes == 0;
        TRY(encoding_step(e, &w, true));
        out->bytes = w.out - out->text;
    } while (!ends);
    return OK;
}

Status text_to_utf8(const char **text, int64_t *bytes, Buffer *converted, const char *encoding,
                    const char *path)
{
    Encoding *e;
    size_t    mark;
    TRY(encoding_open(&e, &mark, encoding, path, *text, *bytes < 4 ? (size_t)*bytes : 4));
    Status status = e ? convert(e, *text + mark, *bytes - (int64_t)mark, converted) : OK;
    if (e && status == OK) *text = converted->text, *bytes = converted->bytes;
    encoding_close(e);
    TRY(status);
    bool marked = *bytes >= 3 && !memcmp(*text, "\xEF\xBB\xBF", 3);
    if (marked) *text += 3, *bytes -= 3;
    return check_utf8(*text, *bytes, path);
}
