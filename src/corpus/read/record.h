#ifndef CORPUS_READ_RECORD_H
#define CORPUS_READ_RECORD_H
/* The documents of a block (corpus/read/lines.h) in any format, each with the metadata that its file has
 * about it:
 *
 *     RecordWalk walk = record_walk(&plan, &block, name, &buffer);
 *     for (Record record; (step = record_next(&walk, &record)) != RECORD_END; )
 *         if (step == RECORD_FAULT) ... walk.fault
 *
 * A record's texts point into the block, which is changed by decoding, or into the buffer, which each
 * record overwrites; they are valid until the next call. A record's text is UTF-8 without NUL. A document
 * that is not is a fault, which names file and line, and the walk continues after it; with `repair`,
 * invalid bytes and NULs become U+FFFD instead. */
#include <stdbool.h>
#include "base/buffer.h"
#include "corpus/read/json_line.h"
#include "corpus/read/lines.h"

/* Keys of JSON lines: "text", or "meta.url" for the key "url" of the object under "meta". NULL: the keys of
 * the known corpora, the rows of record.def. */
typedef struct {
    const char *text_key, *id_key, *url_key, *title_key, *source_key;
    int64_t     bytes_most;     /* a longer document is a fault */
    bool        repair;
    bool        all_pages;      /* MediaWiki: also pages outside namespace 0, which are no articles */
} RecordPlan;

typedef struct {
    char     *text;
    int64_t   bytes, line;              /* line: of the file, where the document begins */
    JsonText  id, url, title, source;   /* text NULL: the file does not say */
    /* OSCAR 22 and later: the language, and the JSON list ["noisy", "adult"] */
    JsonText  label, warnings;
    Markup    markup;                   /* of the text */
} Record;

typedef enum { RECORD_END, RECORD_WHOLE, RECORD_FAULT } RecordStep;
typedef enum {
    RECORD_LONG, RECORD_BROKEN, RECORD_UTF8, RECORD_NUL, RECORD_NO_MEMORY,
    RECORD_FAULTS                           /* how many kinds there are */
} RecordFaultKind;

typedef struct {
    RecordFaultKind kind;           /* after NO_MEMORY the caller must stop */
    int64_t         line, bytes;    /* of the document that is skipped */
    char            message[FAIL_BYTES];   /* the message: F.jsonl:12: ... */
} RecordFault;

typedef struct {
    const RecordPlan *plan;
    Block            *block;
    const char       *name;                     /* of the block's file, for messages */
    Buffer           *buffer;                   /* for repaired text; the caller's, one per thread */
    int64_t           repaired;                 /* documents in which something became U+FFFD */
    /* MediaWiki pages that are not read: redirects, other namespaces, other content models than wikitext */
    int64_t           skipped_pages;
    RecordFault       fault;                    /* valid after RECORD_FAULT */
    /* This field and those below are internal: the item of the block that is read, or its repaired copy in
     * the buffer. */
    Line              piece;
    int64_t           at;                       /* where in the piece the next MediaWiki page is searched */
    bool              repaired_now;             /* something of the piece was repaired */
    JsonPath          key[JSON_PATHS_MOST];     /* [keys], in order of preference for each field */
    uint8_t           field[JSON_PATHS_MOST];   /* [keys]: which field of the record key[i] is for */
    int               keys;
} RecordWalk;

RecordWalk record_walk(const RecordPlan *plan, Block *block, const char *name, Buffer *buffer);
RecordStep record_next(RecordWalk *walk, Record *record);
bool       record_warned(const Record *record, const char *warning);     /* is "adult" among its warnings? */
const char *record_fault_name(RecordFaultKind kind);                     /* "too long", for reports */
#endif
