/* A script as a whole: the file, its limits, and whether it is a script or a list of arguments. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "conf/script/commands.h"
#include "conf/script/inside.h"

static bool begins_with_option(const char *p, const char *end)
{
    for (;;) {
        while (p < end && (isspace((unsigned char)*p) || *p == '\\')) p++;
        if (p == end || *p != '#') break;
        while (p < end && *p != '\n') p++;
    }
    return end - p > 2 && p[0] == '-' && p[1] == '-';
}

/* Control characters would be taken for unknown parts. */
static void check_bytes(Reader *r, const FileMap *map)
{
    int line = 1;
    for (size_t i = 0; i < map->size && r->status == OK; i++) {
        line += map->data[i] == '\n';
        if (map->data[i] < ' ' && !strchr("\t\n\r", map->data[i]))
            reader_fail(r, line, "it is no text: byte %d", map->data[i]);
        if (map->data[i] == 0) reader_fail(r, line, "it is no text: byte 0");
    }
}

static void read_whole(Reader *r)
{
    if (begins_with_option(r->begin, r->end)) arguments_read(r); /* a file without a command */
    else commands_read(r, r->begin, r->end, 1);
    if (r->status == OK && !r->script->program)
        reader_fail(r, 1,
                    "no command line of a .py program is found, such as torchrun pretrain_gpt.py ${ARGS[@]}; "
                    "give a file that has one, "
                    "or the arguments alone");
}

Status script_read(Script *s, const char *path, int count, const char *const *given)
{
    FileMap map;
    *s = (Script){0};
    snprintf(s->path, sizeof s->path, "%s", path);
    TRY(file_map(&map, path));
    Reader r   = {.script       = s,
                  .begin        = (const char *)map.data,
                  .end          = (const char *)map.data + map.size,
                  .counted_line = 1};
    r.variable = calloc(SCRIPT_NAMES, sizeof *r.variable);
    if (map.size > SCRIPT_BYTES)
        r.status = fail(BAD_FILE, "%s: it has %zu bytes; a script has at most 1 MiB", path, map.size);
    else if (!r.variable) r.status = fail(NO_MEMORY, "no memory to read %s", path);
    else check_bytes(&r, &map);
    for (int i = 0; i < count; i++) words_add(&r, &r.given, reader_hold(&r, given[i], strlen(given[i])), 0);
    if (r.status == OK) read_whole(&r);
    for (int i = 0; i < r.variables; i++) free(r.variable[i].values.word);
    free(r.variable);
    free(r.given.word);
    free(r.function);
    free(r.local);
    free(r.doubtful.word);
    file_unmap(&map);
    if (r.status != OK) script_close(s);
    return r.status;
}

void script_close(Script *s)
{
    reader_release(s);
    free(s->arguments.word);
    free(s->launcher.word);
    free(s->notes.word);
    free(s->file);
    *s = (Script){0};
}
