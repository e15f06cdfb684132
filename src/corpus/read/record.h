#ifndef CORPUS_READ_RECORD_H
#define CORPUS_READ_RECORD_H
/* The documents of a block (corpus/read/lines.h), whatever its shape, each with what its file tells of it:
 *
 *     RecordWalk walk = record_walk(&plan, &block, name, &buffer);
 *     for (Record record; (step = record_next(&walk, &record)) != RECORD_END; )
 *         if (step == RECORD_FAULT) ... walk.fault
 *
 * A record's texts stand in the block, which changes, or in the buffer, which each record empties; they are good until
 * the next. A record's text is UTF-8 without NUL. What is none is a fault, which names file and line, and the walk goes
 * on behind it; with `repair`, broken bytes and NULs become U+FFFD.                                                  */
#include <stdbool.h>
#include "corpus/read/buffer.h"
#include "corpus/read/json_line.h"
#include "corpus/read/lines.h"

/* Keys of JSON lines: "text", or "meta.url" where it stands in an object under "meta". NULL: as the known corpora have
 * it, by the rows of record.def. */
typedef struct {
    const char *text_key, *id_key, *url_key, *title_key, *source_key;
    int64_t bytes_most;                     /* a document of more is a fault */
    bool    repair;
    bool    all_pages;                      /* of MediaWiki also those outside namespace 0 */
} RecordPlan;

typedef struct {
    char    *text;
    int64_t  bytes, line;                   /* line: of the file, where it begins */
    JsonText id, url, title, source;        /* text NULL: not told */
    JsonText label, warnings;               /* OSCAR 22 on: the language found, and ["noisy", "adult"] as it stands there */
    bool     wiki;                          /* text is MediaWiki's markup */
} Record;

typedef enum { RECORD_END, RECORD_WHOLE, RECORD_FAULT } RecordStep;
typedef enum { RECORD_LONG, RECORD_BROKEN, RECORD_UTF8, RECORD_NUL, RECORD_NO_MEMORY, RECORD_FAULTS } RecordFaultKind;

typedef struct {
    RecordFaultKind kind;                   /* NO_MEMORY ends the walk */
    int64_t line, bytes;                    /* bytes: of the document passed over */
    char    told[512];                      /* F.jsonl:12: ... */
} RecordFault;

typedef struct {
    const RecordPlan *plan;
    Block      *block;
    const char *name;                       /* of the block's file, as messages say it */
    Buffer     *buffer;
    int64_t     repaired;                   /* documents in which something became U+FFFD */
    int64_t     passed;                     /* MediaWiki: redirects, pages of other namespaces, models other than wikitext */
    RecordFault fault;
    LineWalk    lines;                      /* from here on the walk's own */
    Line        piece;                      /* the document as it stands in the block, or repaired in the buffer */
    int64_t     at;                         /* of the piece: the next page */
    bool        repaired_now;
    JsonPath    key[JSON_PATHS_MOST];
    uint8_t     field[JSON_PATHS_MOST];
    int         keys;
} RecordWalk;

RecordWalk record_walk(const RecordPlan *plan, Block *block, const char *name, Buffer *buffer);
RecordStep record_next(RecordWalk *walk, Record *record);
bool       record_warned(const Record *record, const char *warning);     /* is "adult" among its warnings? */
const char *record_fault_word(RecordFaultKind kind);                     /* "too long", for reports */
#endif
