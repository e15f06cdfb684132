#ifndef CORPUS_READ_LINES_H
#define CORPUS_READ_LINES_H
/* Files, one after the other, as one sequence of blocks of whole documents, so that many threads can work on
 * one file; the path "-" is standard input.
 *
 *     Block block = { 0 };
 *     InputBlocks input = { .path = path, .paths = n, .wanted = BLOCK_LINES, .line_most = ...,
 *                           .ratio_most = ... };
 *     TRY(input_blocks_check(&input));
 *     for (bool more; input_blocks_fill(&input, &block, &more) == OK && more; ) {
 *         for (Line line; block_next(&block, &line); ) ...   the block is the caller's and is reused
 *     }
 *     input_blocks_close(&input);
 *
 * A block has about one mebibyte, or one document that is longer. A document longer than `line_most` is never
 * held in memory: it is reported as a block of its own without text, whose `skipped` is its length.
 * Documents inside a block may still be somewhat longer than `line_most`, so the caller checks each. A file
 * that is one document is a block; one of more than FILE_USUAL bytes becomes several documents, cut at the
 * last blank line before that many bytes or, where there is none in twice as many, at the end of a line. */
#include <stdbool.h>
#include "corpus/read/format.h"
#include "corpus/read/stream.h"

/* Bytes of a block; most of a document of FILES; default limit for a document. */
enum { BLOCK_USUAL = 1 << 20, FILE_USUAL = 4 << 20, LINE_MOST = 256 << 20 };

typedef struct {
    BlockKind  kind;            /* as found: never LINES or AUTO */
    char      *text;            /* owned; documents are decoded inside it */
    size_t     bytes, capacity; /* bytes in use; bytes of memory */
    int64_t    line;            /* number of its first line in the file, from 1 */
    int64_t    skipped;         /* bytes of a document that was too long; else 0 */
    int64_t    bytes_read;      /* (compressed) bytes of the file read when it was filled */
    size_t     at;              /* bytes and lines that block_next has walked over */
    int64_t    lines;
} Block;

/* One document in the block; of TEXT and JSON one line without its "\n" or "\r\n". number: of its first
 * line. */
typedef struct { char *text; int64_t bytes, number; } Line;

/* The caller fills in the first eight fields; the others begin as zero, and a caller that resumes may set
 * them. */
typedef struct {
    const char *const *path;    /* [paths], the caller's, which must outlive this */
    int                paths;
    BlockKind          wanted;  /* the format of all files, where `kind` does not say */
    const BlockKind   *kind;    /* [paths] of each, the caller's (corpus/read/inputs.h); NULL: as wanted */
    /* Longest document in bytes; largest compression ratio: see stream_open. */
    int64_t            line_most, ratio_most;
    TextRules          texts;   /* their encoding, and windows of zstd */
    int                ahead;   /* threads that decompress; below 2: the calling thread does */
    int                file;    /* index of the file that the last block came from */
    int64_t            blocks;  /* blocks filled from that file, the last one included */
    /* (compressed) bytes read of all files up to the end of the last block */
    int64_t            bytes_read;
    int64_t            done;    /* bytes of the files before this one */
    struct Lines      *lines;   /* the open file; NULL between files */
    /* Reading the open file failed; the next call continues with the next file. */
    bool               broken;
} InputBlocks;

/* Opens and closes each file, so that a wrong path is reported before any work. Standard input and pipes
 * are left alone, since they can be opened only once. */
Status input_blocks_check(const InputBlocks *input);
/* *more is false after the last file. After a failure the block is empty; what precedes damage is returned
 * first. After BAD_FILE the rest of the file is given up: the next call reads the next one. */
Status input_blocks_fill (InputBlocks *input, Block *block, bool *more);
/* Name of the last block's file for messages; it lives as long as the paths. */
const char *input_blocks_name(const InputBlocks *input);
void   input_blocks_close(InputBlocks *input);

/* The next document; false at the end of the block. Blank lines are skipped. Of PAGES an item is a stretch
 * that ends with one </page>; corpus/wiki/wiki_page.h finds the page in it. */
bool   block_next (Block *block, Line *line);
void   block_free (Block *block);
#endif
