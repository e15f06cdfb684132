#ifndef CLI_TEXT_FILE_H
#define CLI_TEXT_FILE_H
/* Texts that are read and written line by line. */
#include "base/buffer.h"
#include "base/team.h"
#include "corpus/read/encoding.h"
#include "text/lines.h"

/* Reads a text, decompressed where its name says so, "-" standard input, and hands pieces of whole lines to
 * `take`, one after another. Of memory for one piece: at least 4 MiB, or one line that is longer. rules: of
 * --input-encoding and --zstd-window-log; NULL: the command has no such options, and no use for a NUL.
 * BAD_FILE where it is not UTF-8, has a longer line than 256 MiB, or cannot be read whole. */
Status text_pieces(const char *path, const TextRules *rules, Status (*take)(void *context, TextSpan lines),
                   void *context);

/* Threads make something of a text, part by part of whole lines, and `take` gets it in the order of the text.
 * There are more parts than threads, so that parts of short lines, which take longer, balance out. */
enum { TEXT_PARTS = 64 };
typedef struct {
    Team    *team;
    void    *context;
    void   (*make)(void *context, TextSpan lines, Buffer *made);            /* on any thread; made is empty */
    Status (*take)(void *context, const Buffer *made);
    TextSpan part[TEXT_PARTS];
    Buffer   made[TEXT_PARTS];
} TextParts;
Status text_parts_make (void *parts, TextSpan lines);           /* of a TextParts; as text_pieces calls it */
void   text_parts_close(TextParts *parts);

/* A file that is written piece by piece and gets its name at the end; "-" is standard output. */
typedef struct { const char *path; char part[1100]; int fd; int64_t at; } TextOutput;
Status text_output_open  (TextOutput *out, const char *path);
Status text_output_put   (TextOutput *out, const void *text, int64_t bytes);
Status text_output_finish(TextOutput *out, Status status); /* removes the part where status is not OK */
#endif
