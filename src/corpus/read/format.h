#ifndef CORPUS_READ_FORMAT_H
#define CORPUS_READ_FORMAT_H
/* Which format a file has: by its name, and where that does not say, by its beginning. */
#include <stdbool.h>
#include "corpus/prose/markup.h"
#include "corpus/read/encoding.h"

typedef enum {
    BLOCK_LINES,       /* as wanted: TEXT or JSON, by the name; standard input by its first byte */
    BLOCK_AUTO,        /* as wanted: any but PARAGRAPHS, by the name and the first bytes */
    BLOCK_TEXT,        /* one document per line */
    BLOCK_JSON,        /* one JSON object per line */
    BLOCK_PARAGRAPHS,  /* documents separated by blank lines: OSCAR 21.09 */
    BLOCK_DOCS,        /* <doc id="" url="" title=""> lines </doc>: WikiExtractor */
    BLOCK_PAGES,       /* <page> ... </page>: a MediaWiki dump */
    BLOCK_FILES        /* the file is one document; a long one several */
} BlockKind;

enum { FORMAT_BEGINNING = 64 << 10 };           /* bytes of a file that decide */

/* How the formats of files are found. repair: invalid bytes are replaced, so that they say nothing against a
 * text. */
typedef struct { BlockKind wanted; TextRules texts; bool repair; } FormatRules;

/* unsure: taken for lines, which are too few to be sure. not_text: BAD_FILE since it should be one document,
 * and is no text in UTF-8 or the encoding that was named. */
typedef struct { BlockKind kind; bool unsure, not_text; } FileFormat;

/* By the name of a file: *kind stays LINES or AUTO where its beginning has to decide, and is FILES for
 * source code. BAD_FILE, with the way out: the name is of a format that is not read. */
Status format_by_name(BlockKind *kind, const char *path, BlockKind wanted);
/* The format of what is wanted as LINES or AUTO by its first bytes, which are UTF-8 if it is text; of
 * standard input "-". BAD_FILE: it begins like none of the formats. */
Status format_by_beginning(FileFormat *format, const char *path, BlockKind wanted, const char *text,
                           int64_t bytes);
/* Both. BAD_FILE also where the file cannot be read. A pipe, which can be read only once, keeps LINES or
 * AUTO. */
Status format_of_file(FileFormat *format, const char *path, const FormatRules *rules);

/* For files that are one document. */
Markup format_markup(const char *path);
bool   format_is_code(const char *path);
/* ".pdf" of "a.pdf" and of "a.pdf.gz"; "" of a name without an ending. Returns out. */
const char *format_ending(char out[16], const char *path);
/* What makes a text of a file with an ending that is not read in folders; "" where nothing does, NULL of
 * other files. */
const char *format_unread(const char *path);
#endif
