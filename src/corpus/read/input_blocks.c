#include "corpus/read/input_blocks.h"

#include <string.h>
#include <sys/stat.h>

/* A pipe can be opened once: who writes it would not come again. */
static bool is_pipe(const char *path)
{
    struct stat about;
    return !strcmp(path, "-") || (stat(path, &about) == 0 && S_ISFIFO(about.st_mode));
}

static Status path_check(const InputBlocks *chain, const char *path)
{
    Lines *lines;
    if (is_pipe(path)) return OK;
    TRY(lines_open(&lines, path, chain->wanted, chain->line_most, chain->ratio_most));
    lines_close(lines);
    return OK;
}

Status input_blocks_check(const InputBlocks *chain)
{
    for (int i = 0; i < chain->paths; i++) TRY(path_check(chain, chain->path[i]));
    return OK;
}

const char *input_blocks_name(const InputBlocks *chain)
{
    return strcmp(chain->path[chain->file], "-") ? chain->path[chain->file] : "standard input";
}

static void file_leave(InputBlocks *chain)
{
    input_blocks_close(chain);
    chain->done   = chain->behind;
    chain->blocks = 0;
    chain->file++;
}

static Status file_open(InputBlocks *chain)
{
    TRY(lines_open(&chain->lines, chain->path[chain->file], chain->wanted, chain->line_most, chain->ratio_most));
    return chain->ahead > 1 ? lines_ahead(chain->lines, chain->ahead) : OK;
}

static Status file_fill(InputBlocks *chain, Block *block, bool *more)
{
    block->bytes = 0;
    if (!chain->lines) TRY(file_open(chain));
    Status status = lines_fill(chain->lines, block, more);
    chain->behind  = chain->done + block->behind;
    chain->blocks += *more;
    return status;
}

Status input_blocks_fill(InputBlocks *chain, Block *block, bool *more)
{
    Status status = OK;
    *more = false;
    if (chain->broken) file_leave(chain);
    while (status == OK && !*more && chain->file < chain->paths) {
        status = file_fill(chain, block, more);
        if (status == OK && !*more) file_leave(chain);
    }
    chain->broken = status != OK;
    return status;
}

void input_blocks_close(InputBlocks *chain)
{
    lines_close(chain->lines);
    chain->lines = NULL;
}
