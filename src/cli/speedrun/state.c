/* The directory of a speedrun, its state, and the commands of its stages. */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/team.h"
#include "cli/in_out.h"
#include "cli/run_state.h"
#include "cli/speedrun/speedrun.h"
#include "cli/text_file.h"
#include "base/utf8.h"

enum { PATHS = 8, LOCK_SECONDS = 10 };             /* children of a killed run end within this */

const char *speedrun_path(const Speedrun *s, const char *name)
{
    static char path[PATHS][1100];
    static int  next;
    char       *out = path[next++ % PATHS];
    snprintf(out, sizeof path[0], "%s/%s", s->folder, name);
    return out;
}

double speedrun_minutes(const Options *o)
{
    bool other = options_typed_by_person(o, OPTION_speedrun_depth) ||
                 options_typed_by_person(o, OPTION_speedrun_flops);
    return other ? 0 : o->speedrun_minutes;
}

int speedrun_threads(const Options *o) { return o->tool_threads ? (int)o->tool_threads : team_cores(); }

RecipeAsk speedrun_ask(const Options *o)
{
    bool depth = options_typed_by_person(o, OPTION_speedrun_depth);
    bool flops = options_typed_by_person(o, OPTION_speedrun_flops);
    return (RecipeAsk){ .seconds = 60 * speedrun_minutes(o), .depth = depth ? (int)o->speedrun_depth : 0,
                        .flops = flops ? o->speedrun_flops : 0 };
}

/* What the result depends on. Numbers that nobody gave are 0; how texts are read is there where it was said,
 * by the name of the option. */
static json_t *asked(const Options *o)
{
    RecipeAsk ask = speedrun_ask(o);
    json_t *input = words_json(o->speedrun_input.text, o->speedrun_input.count);
    json_t *asked = json_pack("{s:o, s:f, s:i, s:f, s:I}", "input", input, "minutes", speedrun_minutes(o),
                              "depth", ask.depth, "flops", ask.flops, "seed", (json_int_t)o->seed);
    if (options_typed_by_person(o, OPTION_input_format))
        json_object_set_new(asked, "input-format", json_string(o->input_format.word));
    if (options_typed_by_person(o, OPTION_speedrun_heldout))
        json_object_set_new(asked, "heldout", json_string(o->speedrun_heldout));
    if (repairs_utf8(o)) json_object_set_new(asked, "invalid-utf8", json_string(o->invalid_utf8.word));
    if (o->input_encoding) json_object_set_new(asked, "input-encoding", json_string(o->input_encoding));
    if (options_typed_by_person(o, OPTION_clean_json_key))
        json_object_set_new(asked, "json-keys", words_json(o->clean_json_key.text, o->clean_json_key.count));
    return asked;
}

static Status state_begin(Speedrun *s, json_t *mine)
{
    json_decref(s->state);
    s->state = json_pack("{s:O, s:{}}", "asked", mine, "stages");
    return speedrun_save(s);
}

/* Until a model is chosen nothing of a run is worth keeping for others than its own options: a run that was
 * refused for a budget that is too small starts over with a larger one. */
static Status other_options(Speedrun *s, json_t *before, json_t *mine)
{
    const char *name = "";
    json_t     *now  = NULL;
    if (!speedrun_facts(s, "recipe")) {
        log_line("speedrun: %s holds a run of other options that had chosen no model: it starts over",
                 s->folder);
        return state_begin(s, mine);
    }
    json_object_foreach(mine, name, now) if (!json_equal(now, json_object_get(before, name))) break;
    if (!name) json_object_foreach(before, name, now) if (!json_object_get(mine, name)) break;
    now = json_object_get(mine, name);
    int   flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6);
    char *was = json_dumps(json_object_get(before, name), (size_t)flags);
    char *is  = json_dumps(now, (size_t)flags);
    Status status = fail(BAD_OPTION, "--output %s holds a run of other options: --%s %.300s there, %.300s "
                         "here; give the options that it began with, or another directory",
                         s->folder, name ? name : "input", was ? was : "none", is ? is : "none");
    free(was);
    free(is);
    return status;
}

static Status state_open(Speedrun *s, json_t *mine)
{
    const char *path = speedrun_path(s, "speedrun.json");
    TRY(state_read(&s->state, path));
    if (!s->state) return state_begin(s, mine);
    if (!json_is_object(json_object_get(s->state, "stages")))
        return fail(BAD_FILE, "%s: no state of a speedrun; remove the directory to begin from nothing", path);
    json_t *before = json_object_get(s->state, "asked");
    return json_equal(before, mine) ? OK : other_options(s, before, mine);
}

static bool is_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    int  names = dir ? 0 : 3;
    for (; dir && names <= 2 && readdir(dir);) names++;        /* "." and ".." are there */
    if (dir) closedir(dir);
    return names <= 2;
}

bool speedrun_begun(const char *folder)
{
    Speedrun there = {.folder = folder};
    return file_exists(speedrun_path(&there, "speedrun.json")) ||
           file_exists(speedrun_path(&there, "speedrun.lock"));
}

Status speedrun_open(Speedrun *s)
{
    const char *folder = s->folder;
    if (strlen(folder) > 900)
        return fail(BAD_OPTION, "--output %.80s...: the path is longer than 900 bytes", folder);
    if (utf8_broken(folder, (int64_t)strlen(folder)) >= 0)
        return fail(BAD_OPTION, "--output %s: is not UTF-8, but a checkpoint names a file there, as UTF-8; "
                                "give another directory", folder);
    if (!speedrun_begun(folder) && file_exists(folder) && !is_empty(folder))
        return fail(BAD_OPTION, "--output %s: is there and is no directory of a speedrun; give another one",
                    folder);
    bool absent = !file_exists(folder);
    TRY(state_lock(&s->lock, folder, "speedrun", LOCK_SECONDS, s->stop));
    s->made = absent;
    json_t *mine   = asked(s->o);
    Status  status = state_open(s, mine);
    json_decref(mine);
    return status;
}

void speedrun_close(Speedrun *s)
{
    json_decref(s->state);
    if (s->lock >= 0) close(s->lock);
}

Status speedrun_save(const Speedrun *s) { return state_write(speedrun_path(s, "speedrun.json"), s->state); }

json_t *speedrun_facts(const Speedrun *s, const char *stage)
{
    return json_object_get(json_object_get(s->state, "stages"), stage);
}

bool speedrun_nothing_done(const Speedrun *s)
{
    return s->made && json_object_size(json_object_get(s->state, "stages")) == 0;
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

/* ---- the commands of the stages: a stage that fails leaves this process to say what it means ---- */

static void show_words(const WordList *words)
{
    char  *line  = NULL;
    size_t bytes = 0;
    FILE  *out   = open_memstream(&line, &bytes);
    if (out) word_list_write(out, words);
    if (out && fclose(out) == 0) log_line("$ jotun%s", line);
    free(line);
}

/* --threads, as the command calls it. */
static void threads_add(WordList *words, const Options *o)
{
    static const struct { const char *command, *option; } takes[] = {
        { "clean", "--workers" },     { "prepare", "--workers" }, { "tokenizer", "--threads" },
        { "train", "--threads" },     { "eval", "--threads" },
    };
    for (int i = 0; o->tool_threads && i < COUNT(takes); i++)
        if (!strcmp(words->word[0], takes[i].command))
            word_list_split(words, "%s %" PRId64, takes[i].option, o->tool_threads);
}

static Status wait_for(const Speedrun *s, pid_t child, const char *name)
{
    char end[80];
    int  state = 0, sent = 0;
    while (!child_ended(child, &state)) {
        if (*s->stop && sent != *s->stop) {
            sent = *s->stop;
            kill(child, sent);
        }
        usleep(20000);
    }
    if (*s->stop) return fail(INTERRUPTED, "stopped by a signal; the same command resumes %s", s->folder);
    if (child_succeeded(state)) return OK;
    child_end_words(end, sizeof end, state);
    if (WIFSIGNALED(state))
        return fail(IO_FAILED, "jotun %s was %s; the same command resumes %s", name, end, s->folder);
    if (WEXITSTATUS(state) != 3 && speedrun_nothing_done(s))
        return fail(BAD_FILE, "jotun %s failed, as the line above says", name);
    return fail(WEXITSTATUS(state) == 3 ? IO_FAILED : BAD_FILE,
                "jotun %s failed, as the line above says; what is done is kept in %s, and the same command "
                "continues there once the cause is mended", name, s->folder);
}

Status child_run(const Speedrun *s, WordList *words, const char *out)
{
    char       name[64];
    TextOutput file   = { .fd = -1 };
    pid_t      child  = 0;
    bool       second = words->count > 1 && isalpha((unsigned char)*words->word[1]);
    snprintf(name, sizeof name, "%s%s%s", words->word[0], second ? " " : "", second ? words->word[1] : "");
    threads_add(words, s->o);
    show_words(words);
    Status status = out ? text_output_open(&file, out) : OK;
    if (status == OK && *s->stop)
        status = fail(INTERRUPTED, "stopped by a signal; the same command resumes %s", s->folder);
    if (status == OK)
        status = child_start(&child, (ChildStart){ .word = words->word, .out = file.fd, .err = -1,
                                                   .orphan_signal = SIGKILL });
    word_list_free(words);
    if (status == OK) status = wait_for(s, child, name);
    return out ? text_output_finish(&file, status) : status;
}
