/* The texts of one line: the values of the wanted keys of a JSON line, or the line itself. Faults become
 * messages that name file, line and what to change. And one file read document by document on the calling
 * thread, for test sets, tokenizer training and other small inputs; clean and prepare read blocks on many. */
#include "corpus/read/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- one line ---- */

/* A missing key lists the keys that the line does have, since the usual mistake is a wrong --json-keys. */
static Status json_fault_message(JsonFault fault, const char *const *key, Line line, const char *name)
{
    char names[160];
    if (fault.key < 0)
        return fail(BAD_FILE, "%s:%" PRId64 ": not a JSON object at byte %" PRId64 " of the line: %s",
                    name, line.number, fault.at, fault.why);
    if (fault.at)
        return fail(BAD_FILE, "%s:%" PRId64 ": \"%s\": the value of the key is not a string, at byte %" PRId64
                    " of the line: write it as one string, or name another key by --json-keys",
                    name, line.number, key[fault.key], fault.at);
    json_line_names(names, sizeof names, line.text, line.bytes);
    return fail(BAD_FILE, "%s:%" PRId64 ": \"%s\": %s; the line has %s; choose the key with --json-keys",
                name, line.number, key[fault.key], fault.why, *names ? names : "none");
}

Status document_read(JsonText *text, bool json, const char *const *key, int keys, Line line, const char *name)
{
    if (json) {
        JsonFault fault = json_line_texts(text, key, keys, line.text, line.bytes);
        return fault.why ? json_fault_message(fault, key, line, name) : OK;
    }
    if (keys > 1)
        return fail(BAD_OPTION, "%s: a line of plain text is one text, but --json-keys names %d keys;"
                    " give one key, or JSON lines", name, keys);
    int64_t broken = text_not_utf8(line.text, line.bytes);
    if (broken >= 0)
        return fail(BAD_FILE, "%s:%" PRId64 ": byte %" PRId64 " of the line is 0x%02X, which is not UTF-8; "
                    "--input-encoding names another encoding", name, line.number, broken,
                    (unsigned char)line.text[broken]);
    *text = (JsonText){ line.text, line.bytes };
    return OK;
}

Status document_too_long(const char *name, int64_t line, int64_t bytes, int64_t most, bool said)
{
    return fail(BAD_FILE, "%s:%" PRId64 ": a line of %" PRId64 " bytes, and %s%" PRId64 " is the most;"
                " does the file have one document per line?",
                name, line, bytes, said ? "--max-document-bytes " : "", most);
}

/* ---- a file ---- */

struct Source {
    InputBlocks input;
    char       *path, *key;
    Block       block;
};

Status source_open(Source **source, const char *path, const char *key, TextRules texts)
{
    *source = NULL;
    Source *s = calloc(1, sizeof *s);
    if (!s || !(s->key = strdup(key)) || !(s->path = strdup(path))) {
        source_close(s);
        return fail(NO_MEMORY, "%s: no memory to read it", path);
    }
    s->input = (InputBlocks){ .path = (const char *const *)&s->path, .paths = 1, .wanted = BLOCK_LINES,
                              .line_most = LINE_MOST, .ratio_most = STREAM_RATIO_MOST, .texts = texts };
    Status status = input_blocks_check(&s->input);
    if (status == OK) *source = s;
    else              source_close(s);
    return status;
}

void source_close(Source *s)
{
    if (!s) return;
    input_blocks_close(&s->input);
    block_free(&s->block);
    free(s->path);
    free(s->key);
    free(s);
}

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
    while (!block_next(&s->block, &line)) {
        TRY(input_blocks_fill(&s->input, &s->block, more));
        if (!*more) return OK;
        if (s->block.skipped)
            return document_too_long(input_blocks_name(&s->input), s->block.line, s->block.skipped, LINE_MOST,
                                     false);
    }
    *more = true;
    JsonText text;
    TRY(document_read(&text, s->block.kind == BLOCK_JSON, key, 1, line, input_blocks_name(&s->input)));
    *document = (Document){ text.text, text.bytes };
    return OK;
}
