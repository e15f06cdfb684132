#ifndef CORPUS_READ_INPUT_BLOCKS_H
#define CORPUS_READ_INPUT_BLOCKS_H
/* Files behind each other as one row of blocks; "-" is standard input.
 *
 *     InputBlocks chain = { .path = path, .paths = n, .wanted = BLOCK_LINES, .line_most = ..., .ratio_most = ... };
 *     TRY(input_blocks_check(&chain));
 *     for (bool more; input_blocks_fill(&chain, &block, &more) == OK && more; ) ...
 *     input_blocks_close(&chain);                                                                                            */
#include "corpus/read/lines.h"

typedef struct {
    const char *const *path;
    int      paths;
    BlockKind wanted;                   /* the shape of all of them */
    int64_t  line_most, ratio_most;
    int      ahead;                     /* threads that unpack; below 2: who fills does it */
    int      file;                      /* of the block at hand */
    int64_t  blocks;                    /* of that file so far, this one too */
    int64_t  behind;                    /* bytes of all files up to the end of this block */
    int64_t  done;                      /* of the files before this one */
    Lines   *lines;
    bool     broken;                    /* the file at hand is */
} InputBlocks;

Status input_blocks_check(const InputBlocks *chain);                         /* can each be opened? Standard input is left alone */
/* After BAD_FILE the file at hand is done with: the next call goes on behind it. */
Status input_blocks_fill (InputBlocks *chain, Block *block, bool *more);
const char *input_blocks_name(const InputBlocks *chain);                     /* of the block's file, as messages say it; lives as the paths do */
void   input_blocks_close(InputBlocks *chain);
#endif
