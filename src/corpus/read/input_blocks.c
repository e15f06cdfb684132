/* A sequence of files as one sequence of blocks. A file that breaks off is left and the next call opens
 * the next one, so that the caller decides whether damage ends its run. */
#include "corpus/read/input_blocks.h"

#include <string.h>
#include <sys/stat.h>

/* A pipe can be opened only once: closing it after a check would end the writer. */
static bool is_pipe(const char *path)
{
    struct stat info;
    return !strcmp(path, "-") || (stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
}

static Status path_open(Lines **lines, const InputBlocks *input, const char *path)
{
    return lines_open(lines, path, input->wanted, input->line_most, input->ratio_most, input->texts);
}

Status input_blocks_check(const InputBlocks *input)
{
    for (int i = 0; i < input->paths; i++) {
        Lines *lines;
        if (is_pipe(input->path[i])) continue;
        TRY(path_open(&lines, input, input->path[i]));
        lines_close(lines);
    }
    return OK;
}

const char *input_blocks_name(const InputBlocks *input)
{
    return strcmp(input->path[input->file], "-") ? input->path[input->file] : "standard input";
}

static void next_file(InputBlocks *input)
{
    input_blocks_close(input);
    input->done   = input->bytes_read;
    input->blocks = 0;
    input->file++;
}

/* `bytes_read` counts over all files, for a progress display; that of a block begins at 0 in each file. */
static Status block_fill_from_file(InputBlocks *input, Block *block, bool *more)
{
    block->bytes = 0;
    if (!input->lines) {                    /* only now, so that one file is open at a time */
        TRY(path_open(&input->lines, input, input->path[input->file]));
        if (input->ahead > 1) TRY(lines_ahead(input->lines, input->ahead));
    }
    Status status = lines_fill(input->lines, block, more);
    input->bytes_read  = input->done + block->bytes_read;
    input->blocks += *more;
    return status;
}

Status input_blocks_fill(InputBlocks *input, Block *block, bool *more)
{
    Status status = OK;
    *more = false;
    if (input->broken) next_file(input);
    while (status == OK && !*more && input->file < input->paths) {
        status = block_fill_from_file(input, block, more);
        if (status == OK && !*more) next_file(input);
    }
    input->broken = status != OK;
    return status;
}

void input_blocks_close(InputBlocks *input)
{
    lines_close(input->lines);
    input->lines = NULL;
}
