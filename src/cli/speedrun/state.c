/* The directory of a speedrun and its state. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "cli/speedrun/speedrun.h"

enum { PATHS = 8, LOCK_TRIES = 100 }; /* tries 0.1 s apart: children of a killed run end within this */

const char *speedrun_path(const Speedrun *s, const char *name)
{
    static char path[PATHS][1100];
    static int  next;
    char       *out = path[next++ % PATHS];
    snprintf(out, sizeof path[0], "%s/%s", s->folder, name);
    return out;
}

/* What the result depends on. Numbers that nobody gave are 0. */
static json_t *asked(const Options *o)
{
    json_t *inputs = json_array();
    bool    depth  = options_typed_by_person(o, OPTION_speedrun_depth);
    bool    flops  = options_typed_by_person(o, OPTION_speedrun_flops);
    for (int i = 0; i < o->speedrun_input.count; i++)
        json_array_append_new(inputs, json_string(o->speedrun_input.text[i]));
    return json_pack("{s:o, s:f, s:I, s:f, s:I}", "input", inputs, "minutes",
                     depth || flops ? 0.0 : o->speedrun_minutes, "depth",
                     (json_int_t)(depth ? o->speedrun_depth : 0), "flops", flops ? o->speedrun_flops : 0.0,
                     "seed", (json_int_t)o->seed);
}

static Status lock_take(Speedrun *s)
{
    int         fd;
    bool        taken = false;
    const char *path  = speedrun_path(s, "lock");
    TRY(file_create(&fd, path));
    s->lock = dup(fd); /* a descriptor that children inherit */
    close(fd);
    if (s->lock < 0) return fail(NO_MEMORY, "%s: no descriptor: %s", path, strerror(errno));
    for (int i = 0; i < LOCK_TRIES; i++) {
        TRY(file_lock(s->lock, path, &taken));
        if (taken) return OK;
        usleep(100000);
    }
    return fail(
        BAD_FILE,
        "--output %s: another jotun speedrun is at work there; wait until it ends, or give another directory",
        s->folder);
}

static Status state_read(Speedrun *s, json_t *mine)
{
    json_error_t error;
    const char  *path = speedrun_path(s, "speedrun.json");
    s->state          = json_load_file(path, 0, &error);
    if (!s->state)
        return fail(BAD_FILE, "%s: %s; remove the directory to begin from nothing", path, error.text);
    if (!json_is_object(json_object_get(s->state, "stages")))
        return fail(BAD_FILE, "%s: no state of a speedrun; remove the directory to begin from nothing", path);
    json_t *before = json_object_get(s->state, "asked");
    if (json_equal(before, mine)) return OK;
    char  *was = json_dumps(before, JSON_COMPACT), *is = json_dumps(mine, JSON_COMPACT);
    Status status = fail(
        BAD_OPTION,
        "--output %s holds a run of other options: %.600s, and these are %.600s; give the options that it "
        "began with, or another directory",
        s->folder, was ? was : "", is ? is : "");
    free(was);
    free(is);
    return status;
}

Status speedrun_open(Speedrun *s, const Options *o, const char *folder)
{
    *s = (Speedrun){.o = o, .folder = folder, .lock = -1};
    if (strlen(folder) > 900)
        return fail(BAD_OPTION, "--output %.80s...: the path is longer than 900 bytes", folder);
    bool begun = file_exists(speedrun_path(s, "speedrun.json"));
    if (!begun && file_exists(folder) && !file_exists(speedrun_path(s, "lock")) && rmdir(folder) != 0)
        return fail(BAD_OPTION, "--output %s: is there and is no directory of a speedrun; give another one",
                    folder);
    TRY(folder_make(folder));
    TRY(lock_take(s));
    json_t *mine   = asked(o);
    Status  status = OK;
    if (file_exists(speedrun_path(s, "speedrun.json"))) status = state_read(s, mine);
    else {
        s->state = json_pack("{s:O, s:{}}", "asked", mine, "stages");
        status   = s->state ? speedrun_save(s) : fail(NO_MEMORY, "no memory for the state");
    }
    json_decref(mine);
    return status;
}

void speedrun_close(Speedrun *s)
{
    json_decref(s->state);
    if (s->lock >= 0) close(s->lock);
    s->state = NULL;
    s->lock  = -1;
}

Status speedrun_save(const Speedrun *s)
{
    char *text = json_dumps(s->state, JSON_INDENT(1));
    if (!text) return fail(NO_MEMORY, "no memory for the state");
    Status status = file_write_whole(speedrun_path(s, "speedrun.json"), text, strlen(text));
    free(text);
    return status;
}

json_t *speedrun_facts(const Speedrun *s, const char *stage)
{
    return json_object_get(json_object_get(s->state, "stages"), stage);
}

double speedrun_number(const Speedrun *s, const char *stage, const char *name)
{
    json_t *value = json_object_get(speedrun_facts(s, stage), name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

double speedrun_seconds(const Speedrun *s)
{
    const char *stage;
    json_t     *facts;
    double      seconds = 0;
    json_object_foreach(json_object_get(s->state, "stages"), stage, facts) seconds +=
        speedrun_number(s, stage, "seconds");
    return seconds;
}
