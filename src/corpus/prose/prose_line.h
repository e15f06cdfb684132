#ifndef CORPUS_PROSE_PROSE_LINE_H
#define CORPUS_PROSE_PROSE_LINE_H
/* The lines of a text, one after the other, each with what decides whether it is joined to its neighbours.
 * Private to corpus/prose. */
#include <stdbool.h>
#include <stdint.h>
#include "corpus/prose/markup.h"

typedef enum {
    LINE_BLANK,
    LINE_PROSE,
    LINE_ITEM,          /* begins an item of a list: never joined to the line before it */
    LINE_FIXED          /* code, table, heading, quotation ...: joined to neither neighbour */
} ProseLineKind;

/* The first letter of a line. UNCASED: of a script without capitals; NONE: a digit or no letter at all. */
typedef enum { BEGINS_NONE, BEGINS_SMALL, BEGINS_CAPITAL, BEGINS_UNCASED } ProseBegins;

typedef struct {
    ProseLineKind kind;
    const char   *text;         /* with its indentation, without the blanks and the line end after it */
    int64_t       bytes, body;  /* of the whole; bytes of the indentation */
    int64_t       columns;      /* of the whole; characters of CJK scripts have two */
    int64_t       word;         /* columns of its first word; of CJK scripts, which wrap anywhere, 2 */
    int           indent;       /* columns of the indentation, a tab being four */
    ProseBegins   begins;
    bool          ends;         /* with the end of a sentence or clause: . ! ? : ; { } */
    bool          hard;         /* with a line break of its markup */
} ProseLine;

/* Where the reader is. It can be copied to look ahead. */
typedef struct {
    const char   *text;
    int64_t       bytes, at;
    Markup        markup;
    ProseLineKind before;           /* kind of the line before; BLANK at the beginning */
    int           indent;           /* of the last line that was not blank */
    bool          begun;            /* a line has been read */
    bool          in_list;          /* Markdown: indented lines belong to an item */
    /* A region whose lines are all fixed. Its end is a line that begins with these bytes, or for reST the
     * first line that is not indented further than `edge`. */
    const char   *end;              /* NULL: none */
    int64_t       end_bytes;
    bool          below;            /* reST: what is indented below `edge` */
    int           edge;
} ProseReader;

/* False: no more lines. */
bool prose_line_next(ProseReader *reader, ProseLine *line);
#endif
