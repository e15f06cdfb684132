#ifndef CORPUS_READ_INPUT_BLOCKS_H
#define CORPUS_READ_INPUT_BLOCKS_H
/* Several files, one after the other, as one sequence of blocks; the path "-" is standard input.
 *
 *     InputBlocks input = { .path = path, .paths = n, .wanted = BLOCK_LINES, .line_most = ...,
 *                           .ratio_most = ... };
 *     TRY(input_blocks_check(&input));
 *     for (bool more; input_blocks_fill(&input, &block, &more) == OK && more; ) ...
 *     input_blocks_close(&input);
 *
 * The caller fills in the first seven fields; the others begin as zero, and a caller that resumes may set
 * them. */
#include "corpus/read/lines.h"

typedef struct {
    const char *const *path;    /* [paths], the caller's, which must outlive this */
    int                paths;
    BlockKind          wanted;  /* the format of all files */
    /* Longest document in bytes; largest compression ratio: see lines_open. */
    int64_t            line_most, ratio_most;
    TextRules          texts;   /* their encoding, and windows of zstd */
    int                ahead;   /* threads that decompress; below 2: the calling thread does */
    int                file;    /* index of the file that the last block came from */
    int64_t            blocks;  /* blocks filled from that file, the last one included */
    /* (compressed) bytes read of all files up to the end of the last block */
    int64_t            bytes_read;
    int64_t            done;    /* bytes of the files before this one */
    Lines             *lines;   /* the open file; NULL between files */
    /* Reading the open file failed; the next call continues with the next file. */
    bool               broken;
} InputBlocks;

/* Opens and closes each file, so that a wrong path is reported before any work. Standard input and pipes
 * are left alone, since they can be opened only once. */
Status input_blocks_check(const InputBlocks *input);
/* *more is false after the last file. After BAD_FILE the rest of the file is given up: the next call reads
 * the next one. */
Status input_blocks_fill (InputBlocks *input, Block *block, bool *more);
/* Name of the last block's file for messages; it lives as long as the paths. */
const char *input_blocks_name(const InputBlocks *input);
void   input_blocks_close(InputBlocks *input);
#endif
