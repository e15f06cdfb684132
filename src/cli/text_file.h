#ifndef CLI_TEXT_FILE_H
#define CLI_TEXT_FILE_H
/* Texts that are read and written line by line. */
#include <stdbool.h>
#include "base/buffer.h"
#include "base/team.h"
#include "text/lines.h"

/* A text in pieces of whole lines, decompressed where its name says so; "-" is standard input. Of memory for
 * one piece: at least 4 MiB, or one line that is longer, up to line_most, 0: of any length.
 * text_reader_close also after a failure. */
typedef struct {
    const char *path, *name;                            /* name: for messages */
    struct Stream *stream;
    Buffer text;
    int64_t used, before, line_most;
    bool ended;
} TextReader;
Status text_reader_open (TextReader *reader, const char *path);
/* The next lines, of any bytes, which the following call replaces; none at the end. BAD_FILE where the text
 * cannot be read whole. */
Status text_reader_piece(TextSpan *lines, TextReader *reader);
void   text_reader_close(TextReader *reader);
/* Reads a whole text and hands its pieces to `take`, one after another. BAD_FILE where it is not UTF-8 or
 * has a NUL. */
Status text_pieces(const char *path, Status (*take)(void *context, TextSpan lines), void *context);

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
