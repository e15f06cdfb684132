/* Reads one file document by document: blocks from lines.c, one document at a time, on the calling thread.
 * For test sets, tokenizer training and other small inputs; clean and prepare read blocks on many threads. */
#include "corpus/read/source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "corpus/read/document.h"

struct Source {
    Lines    *lines;
    char     *key;
    Block     block;
    LineWalk  walk;
};

Status source_open(Source **source, const char *path, const char *key)
{
    *source = NULL;
    Source *s = calloc(1, sizeof *s);
    if (!s || !(s->key = strdup(key))) {
        source_close(s);
        return fail(NO_MEMORY, "%s: no memory to read it", path);
    }
    Status status = lines_open(&s->lines, path, BLOCK_LINES, LINE_MOST, STREAM_RATIO_MOST);
    if (status == OK) *source = s;
    else              source_close(s);
    return status;
}

Status source_texts(Source *s, TextRules rules) { return lines_texts(s->lines, rules); }

void source_close(Source *s)
{
    if (!s) return;
    lines_close(s->lines);
    block_free(&s->block);
    free(s->key);
    free(s);
}

int64_t source_read(const Source *s) { return s->block.bytes_read; }

bool source_json(const Source *s) { return s->block.kind == BLOCK_JSON; }

/* The size is for progress displays; a pipe has none. */
int64_t source_size(const char *path)
{
    struct stat info;
    bool known = strcmp(path, "-") != 0 && stat(path, &info) == 0 && S_ISREG(info.st_mode);
    return known ? (int64_t)info.st_size : -1;
}

Status source_next(Source *s, Document *document, bool *more)
{
    Line line;
    const char *const key[] = { s->key };
    while (!block_next(&s->block, &s->walk, &line)) {
        s->walk = (LineWalk){ 0 };
        TRY(lines_fill(s->lines, &s->block, more));
        if (!*more) return OK;
        if (s->block.skipped)
            return document_too_long(lines_name(s->lines), s->block.line, s->block.skipped, LINE_MOST, false);
    }
    *more = true;
    JsonText text;
    TRY(document_read(&text, s->block.kind == BLOCK_JSON, key, 1, line, lines_name(s->lines)));
    *document = (Document){ text.text, text.bytes };
    return OK;
}
