/* jotun data detokenize [FILE...]: WikiText's words as plain text, a line for each line. */
#include <stdio.h>
#include <stdlib.h>
#include "cli/command.h"
#include "cli/text_file.h"
#include "cli/setup/parse.h"
#include "conf/conf.h"
#include "text/moses.h"

static Status detokenize(TextSpan rest)
{
    char    *room = NULL;
    int64_t  bytes = 0;
    TextSpan line;
    Status   status = OK;
    while (status == OK && text_line_next(&rest, &line)) {
        if (moses_room(line.bytes) > bytes) {
            bytes = 2 * moses_room(line.bytes);
            free(room);
            room = malloc(2 * (size_t)bytes);
        }
        int64_t made = room ? moses_detokenize(room, room + bytes, line) : -1;
        if (made < 0) status = fail(NO_MEMORY, "no memory for a line of %lld bytes", (long long)line.bytes);
        else {
            made = moses_wikitext(room, made);
            room[made++] = '\n';
            fwrite(room, 1, (size_t)made, stdout);
        }
    }
    free(room);
    return status;
}

static Status detokenize_file(const char *path)
{
    TextReader reader;
    TextSpan   lines;
    Status status = text_reader_open(&reader, path);
    while (status == OK && (status = text_reader_next(&lines, &reader)) == OK && lines.bytes)
        status = detokenize(lines);
    text_reader_close(&reader);
    return status;
}

Status cmd_data_detokenize(int argc, char **argv)
{
    Options o;
    Status status = setup_parse(&o, FOR_DETOKENIZE, argc, argv);
    if (status == OK && o.words.count == 0) status = detokenize_file("-");
    for (int i = 0; status == OK && i < o.words.count; i++) status = detokenize_file(o.words.text[i]);
    options_close(&o);
    return status;
}
