/* The record of a script: the words of its calls with their places, agreed where runs with other answers give
 * them, too; what decides the others; and notes of all that a person should know of the runs. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/message.h"
#include "base/words.h"
#include "compat/bash/runs.h"

extern char **environ;
enum { COMPARED_WORDS = 2000, REFUSALS_MOST = 20 };

/* ---- words of a command line ---- */

Status launch_words(LaunchInput *out, const char **argument, const char **variable, int count,
                    const char *const *words)
{
    bool all = false;
    *out = (LaunchInput){ .argument = argument, .variable = variable };
    for (int i = 0; i < count; i++) {
        size_t name = assigned_letters(words[i]);
        if (!all && name && words[i][name] == '=') variable[out->variables++] = words[i];
        else if (!out->script) out->script = words[i];
        else if (!all && !strcmp(words[i], "--")) all = true;
        else argument[out->arguments++] = words[i];
    }
    if (out->script) return OK;
    return fail(BAD_USAGE,
                "--from-megatron needs a script or a list of arguments: [NAME=value...] FILE [ARGUMENT...]");
}

/* ---- comparison ---- */

/* For each word of `a` the index of its equal in `b`, or -1: a longest common subsequence, in which the name
 * of an option counts more than values. */
static void match_words(int *out, const char *const *a, int n, const char *const *b, int m)
{
    for (int i = 0; i < n; i++) out[i] = -1;
    int first = 0;
    while (first < n && first < m && !strcmp(a[first], b[first])) out[first] = first, first++;
    while (n > first && m > first && !strcmp(a[n - 1], b[m - 1])) n--, m--, out[n] = m;
    int rows = n - first, columns = m - first;
    if (!rows || !columns || rows > COMPARED_WORDS || columns > COMPARED_WORDS) return;
    short *best = calloc((size_t)(rows + 1) * (size_t)(columns + 1), sizeof *best);
    CHECK(best, "no memory to compare %d words", rows);
#define BEST(i, k) best[(size_t)(i) * (size_t)(columns + 1) + (size_t)(k)]
    for (int i = rows - 1; i >= 0; i--)
        for (int k = columns - 1; k >= 0; k--) {
            bool same = !strcmp(a[first + i], b[first + k]);
            int with = same ? BEST(i + 1, k + 1) + (strncmp(a[first + i], "--", 2) ? 1 : 4) : 0;
            int without = BEST(i + 1, k) > BEST(i, k + 1) ? BEST(i + 1, k) : BEST(i, k + 1);
            BEST(i, k) = (short)(with > without ? with : without);
        }
    for (int i = 0, k = 0; i < rows && k < columns;) {
        bool same = !strcmp(a[first + i], b[first + k]);
        if (same && BEST(i, k) > BEST(i + 1, k) && BEST(i, k) > BEST(i, k + 1))
            out[first + i++] = first + k++;
        else if (BEST(i + 1, k) >= BEST(i, k + 1)) i++;
        else k++;
    }
#undef BEST
    free(best);
}

/* Whether a word of a run with other answers is one of a variable's made-up value. */
static bool is_unset_value(const Launch *l, const char *text, int which)
{
    for (const SourceName *n = l->sources.name; n < l->sources.name + l->sources.names; n++)
        if (which < ANSWERS && n->unset && !n->site &&
            words_have(unset_value(l, n, which), text, strlen(text)))
            return true;
    return false;
}

/* Whether a word of the other run has the name of a variable in the place of its value. */
static bool has_unset_name(const Launch *l, const char *other, const char *ours)
{
    for (const SourceName *n = l->sources.name; n < l->sources.name + l->sources.names; n++)
        if (n->unset && !n->site && strstr(other, n->name) && !strstr(ours, n->name)) return true;
    return false;
}

/* Whether a value that only the other run has is one of several: --data-path 1 a $(cat FILE). That of a
 * variable that nobody sets is left out with a remark (lacks). */
static bool adds_value(const Launch *l, const LaunchCall *call, int which, const char *text, int at)
{
    bool unset = is_unset_value(l, text, which) || (which == 1 && has_unset_name(l, text, ""));
    bool behind = at && strncmp(call->word[at - 1].text, "--", 2);
    bool before = at < call->words && strncmp(call->word[at].text, "--", 2);
    return !unset && (behind || before);
}

/* A word that only the other run has, behind `at` words of ours. replaces: it replaces the next of them. */
static void add_other(Launch *l, LaunchCall *call, int which, const char *text, int at, bool replaces)
{
    const Run *base = &l->run[0], *other = &l->run[which];
    bool option = !strncmp(text, "--", 2), changed = replaces && !strncmp(call->word[at].text, "--", 2);
    if (which == 1 && at && is_unset_value(l, text, 1) && !*call->word[at - 1].lacks)
        call->word[at - 1].lacks = word_cause(&l->sources, base, other, "", text, &l->texts);
    if (option ? changed : replaces || !adds_value(l, call, which, text, at)) return;
    const char *cause = l->cause[which];
    if (!cause) cause = word_cause(&l->sources, other, base, text, NULL, &l->texts);
    const LaunchWord *value = at && !option ? &call->word[at - 1] : NULL; /* which is refused already */
    if (value && !value->agreed && !strcmp(value->decided_by, cause)) return;
    for (int i = 0; i < call->others; i++) { /* one of a list is enough */
        bool like = !option && strncmp(call->other[i].text, "--", 2);
        bool again = !other->entries && !strcmp(call->other[i].text, text); /* at random, without a trace */
        if (again || (like && !strcmp(call->other[i].decided_by, cause))) return;
    }
    call->other[call->others++] = (LaunchWord){ text, call->file, call->line, false, cause, text, "" };
}

/* ours, theirs: the words of the call [call->words] and of the other run's [count]. */
static void compare_words(Launch *l, LaunchCall *call, int which, const char *const *ours,
                          const char *const *theirs, int count)
{
    int *match = malloc(((size_t)call->words + 1) * sizeof *match), at = 0;
    CHECK(match, "no memory to compare %d words", call->words);
    match_words(match, ours, call->words, theirs, count);
    match[call->words] = count;
    for (int i = 0; i < call->words; i++) {
        LaunchWord *w = &call->word[i];
        if (match[i] >= 0) continue;
        int before = i ? match[i - 1] : -1;
        bool one = (i == 0 || before >= 0) && match[i + 1] == before + 2; /* a word for a word */
        const char *changed = one ? theirs[before + 1] : NULL;
        if (changed && which == 1 && has_unset_name(l, changed, w->text)) w->unset = changed;
        if (w->agreed && !(w->decided_by = l->cause[which]))
            w->decided_by = word_cause(&l->sources, &l->run[0], &l->run[which], w->text, changed, &l->texts);
        w->agreed = false;
    }
    for (int k = 0; k < count; k++) {
        bool both = false;
        for (int i = 0; i < call->words && !both; i++)
            if (match[i] == k) both = true, at = i + 1;
        if (!both)
            add_other(l, call, which, theirs[k], at, at < call->words && match[at] < 0);
    }
    free(match);
}

/* In whatever folder: $MEGATRON/pretrain_gpt.py */
static bool is_same_program(const char *a, const char *b)
{
    return !strcmp(path_leaf(a, strlen(a)), path_leaf(b, strlen(b)));
}

/* Whether they start the same program; whole: with the same words, at the same place. */
static bool is_like(const Launch *l, const Run *run, const CallRecord *a, const CallRecord *b, bool whole)
{
    int p = program_word(a), q = program_word(b);
    if (p < 0 || q < 0 || !is_same_program(a->word[p], b->word[q])) return false;
    if (whole && a->words - p != b->words - q) return false;
    for (int i = 1; whole && i < a->words - p; i++)
        if (strcmp(a->word[p + i], b->word[q + i])) return false;
    if (!whole || !run->entries) return true;
    Place at = call_place(&l->sources, &l->run[0], a), there = call_place(&l->sources, run, b);
    return at.line == there.line && !strcmp(at.file, there.file);
}

/* For each call of the base run its like in another, or else the next one of the same program: other runs may
 * have more of them, or those in the background in another order. */
static void pair_calls(const CallRecord **other, const Launch *l, const CallRecord *const *own, int which)
{
    const Run *run = &l->run[which];
    bool *used = calloc((size_t)run->calls + 1, sizeof *used);
    CHECK(used, "no memory for %d calls", run->calls);
    for (int whole = 1; whole >= 0; whole--)
        for (int i = 0; i < l->out->calls; i++)
            for (int k = 0; k < run->calls && !other[i]; k++)
                if (!used[k] && is_like(l, run, own[i], &run->call[k], whole))
                    other[i] = &run->call[k], used[k] = true;
    free(used);
}

/* Whether both are started by the same line, and not by the same shell in turn: trainings in the background,
 * whose order means nothing. */
static bool is_beside(const Launch *l, const Run *run, const CallRecord *a, const CallRecord *b)
{
    Place at = call_place(&l->sources, run, a), there = call_place(&l->sources, run, b);
    bool in_turn = a->pids > 1 && b->pids > 1 && a->pid[1] == b->pid[1];
    return at.line == there.line && !strcmp(at.file, there.file) && !in_turn;
}

static bool is_accepted(bool (*accepts)(const char *), const char *program)
{
    return !accepts || accepts(program);
}

/* What another run starts in the place of a call: a training before it that the caller would take, or where
 * the run has no such call, any other training. Other programs get a note. */
static void find_instead(Launch *l, LaunchCall *call, int which, const CallRecord *const *other, int index)
{
    const Run *run = &l->run[which];
    const CallRecord *end = other[index] ? other[index] : run->call + run->calls;
    for (const CallRecord *c = run->call; c < end && !call->instead; c++) {
        int at = program_word(c);
        bool paired = at < 0;
        for (int i = 0; i < l->out->calls; i++) paired |= other[i] == c;
        if (paired) continue;
        if (other[index] && (!is_accepted(l->in->wanted, c->word[at]) || is_beside(l, run, c, end))) continue;
        Place place = call_place(&l->sources, run, c);
        const char *program = texts_format(&l->texts, "%.200s (%s:%d)", c->word[at], place.file, place.line);
        const char *cause = l->cause[which];
        if (!cause) cause = word_cause(&l->sources, run, &l->run[0], c->word[at], NULL, &l->texts);
        if (is_accepted(l->in->trains, c->word[at])) call->instead = program, call->decided_by = cause;
        else if (!other[index])
            note_add(l, call->file, call->line,
                     texts_format(&l->texts, "with another answer of %s, %s is started instead of %.200s",
                                  cause, program, call->program));
    }
}

/* A call with its like in another run. The names of files may depend on the machine, too. */
static void compare_call(Launch *l, LaunchCall *call, int which, const CallRecord *own,
                         const CallRecord *other)
{
    int from = program_word(other) + 1, count = other->words - from;
    LaunchWord *more = texts_room(&l->texts, (size_t)(call->others + count) * sizeof *more);
    if (call->others) memcpy(more, call->other, (size_t)call->others * sizeof *more);
    call->other = more;
    compare_words(l, call, which, own->word + own->words - call->words, other->word + from, count);
    for (int i = 0; i < call->files && i < other->files; i++) {
        LaunchFile *f = &call->made[i];
        if (!f->agreed || !strcmp(other->file[i].text, f->text)) continue;
        f->agreed = false;
        f->decided_by = l->cause[which];
        if (!f->decided_by)
            f->decided_by = word_cause(&l->sources, &l->run[0], &l->run[which], f->path, NULL, &l->texts);
    }
}

/* ---- calls ---- */

static void add_words(Launch *l, LaunchCall *call, const CallRecord *c, const char *const *word)
{
    Place place = { call->file, call->line }, first = place;
    for (int i = 0; i < call->words; i++) {
        const char *text = word[i], *value = i + 1 < call->words ? word[i + 1] : NULL;
        if (!strncmp(text, "--", 2)) {
            if (value && !strncmp(value, "--", 2)) value = NULL;
            place = word_place(&l->sources, &l->run[0], c->traced, text, value);
            if (!*place.file) place = first;
        }
        call->word[i] = (LaunchWord){ text, place.file, place.line, true, "", text, "" };
    }
}

static void find_lacks(Launch *l, LaunchCall *call)
{
    for (int i = 0; i < call->words; i++) {
        LaunchWord *w = &call->word[i];
        bool bare = !strncmp(w->text, "--", 2) && (i + 1 == call->words || !strncmp(w[1].text, "--", 2));
        if (bare && !*w->lacks)
            w->lacks = word_lacks(&l->sources, &l->run[0], (Place){ w->file, w->line }, w->text, &l->texts);
    }
}

/* Calls of wrappers that led to this one, in the same process or in one above it, and its own words before
 * the program. Of a wrapper's words those from the next one's name on are the next one's. */
static void add_launcher(Launch *l, LaunchCall *call, const CallRecord *c, int program)
{
    int room = 0;
    for (const CallRecord *w = l->run[0].call; w <= c; w++) room += w->words + 1;
    call->launcher = texts_room(&l->texts, (size_t)room * sizeof *call->launcher);
    for (const CallRecord *w = l->run[0].call; w <= c; w++) {
        bool leads = w == c;
        for (int i = 0; i < c->pids && !leads; i++)
            leads = w->pids && w->pid[0] == c->pid[i] && program_word(w) < 0;
        for (int i = -1; leads && i < (w == c ? program : w->words); i++) {
            const char *text = i < 0 ? w->name : w->word[i];
            bool inner = i >= 0 && w < c;
            if (inner && (strpbrk(text, " \n") || !strcmp(path_leaf(text, strlen(text)), w[1].name))) break;
            call->launcher[call->launchers++] =
                (LaunchWord){ text, call->file, call->line, true, "", text, "" };
        }
    }
}

static void add_call(Launch *l, const CallRecord *c, int program)
{
    LaunchCall *call = &l->out->call[l->out->calls++];
    Place place = call_place(&l->sources, &l->run[0], c);
    int words = c->words - program - 1;
    *call = (LaunchCall){ .program = c->word[program],
                          .folder = c->folder,
                          .file = place.file,
                          .line = place.line,
                          .word = texts_room(&l->texts, (size_t)words * sizeof *call->word),
                          .made = texts_room(&l->texts, (size_t)c->files * sizeof *call->made),
                          .words = words,
                          .files = c->files };
    add_words(l, call, c, c->word + program + 1);
    add_launcher(l, call, c, program);
    for (int i = 0; i < c->files; i++) {
        Place made = file_place(&l->sources, &l->run[0], c->file[i].path);
        call->made[i] = (LaunchFile){ c->file[i].path, c->file[i].text, made.file, made.line, true, "" };
    }
}

static void add_calls(Launch *l)
{
    Run *run = &l->run[0];
    l->out->call = texts_room(&l->texts, (size_t)calls_of(run) * sizeof *l->out->call);
    const CallRecord **own = texts_room(&l->texts, (size_t)calls_of(run) * sizeof *own), **other;
    for (int i = 0; i < run->calls; i++) {
        int program = program_word(&run->call[i]);
        if (program >= 0) own[l->out->calls] = &run->call[i], add_call(l, &run->call[i], program);
    }
    for (int which = 1; which < l->runs; which++) {
        runs_pair(run, &l->run[which]);
        other = texts_room(&l->texts, (size_t)l->out->calls * sizeof *other);
        pair_calls(other, l, own, which);
        for (int i = 0; i < l->out->calls; i++) {
            find_instead(l, &l->out->call[i], which, other, i);
            if (other[i]) compare_call(l, &l->out->call[i], which, own[i], other[i]);
        }
    }
    for (int i = 0; i < l->out->calls; i++) find_lacks(l, &l->out->call[i]);
}

/* ---- notes ---- */

/* A variable that the caller has set, and the script does not see, would have changed it. */
static void note_environment(Launch *l)
{
    for (char **v = environ; v && *v; v++) {
        const char *name = texts_keep(&l->texts, *v, (int64_t)strcspn(*v, "="));
        const SourceName *n = source_name(&l->sources, name);
        if (n && (n->read || n->tested) && !is_common_name(name) && !is_variable_set(l, name))
            note_add(l, "", 0,
                     texts_format(&l->texts,
                                  "%s is set in the environment, and the script, which reads it, is run "
                                  "without it; give %s=VALUE before the script's name if it counts",
                                  name, name));
    }
}

static void note_job(Launch *l)
{
    for (int i = 0; i < l->jobs; i++) {
        const char *text = l->job[i].assignment;
        const char *name = texts_keep(&l->texts, text, (int64_t)strcspn(text, "="));
        const SourceName *n = source_name(&l->sources, name);
        text += strlen(name) + 1;
        if (n && n->place.line && l->job[i].line)
            note_add(l, l->in->script, l->job[i].line,
                     texts_format(&l->texts,
                                  "%s is %s by this line of #SBATCH; where sbatch itself is given another "
                                  "value, give %s=VALUE before the script's name",
                                  name, texts_printable(&l->texts, text, (int64_t)strlen(text), 100), name));
    }
}

/* Each line that reports a refused write, as it was printed. */
static void note_refusals(Launch *l)
{
    int notes = 0;
    for (const char *p = l->run[0].output->text[RUN_PRINTED]; *p && notes < REFUSALS_MOST; p += *p == '\n') {
        const char *line = texts_printable(&l->texts, p, (int64_t)strcspn(p, "\n"), 300);
        p += strcspn(p, "\n");
        if (!strstr(line, "Read-only file system") && !strstr(line, "Permission denied")) continue;
        note_add(l, "", 0, texts_format(&l->texts, "refused, since nothing outside may change: %s", line));
        notes++;
    }
}

static void note_run(Launch *l)
{
    const Run *run = &l->run[0];
    const char *note = run->output->note;
    int line = 0;
    if (*note) note_add(l, "", 0, texts_printable(&l->texts, note, (int64_t)strlen(note), 500));
    note_job(l);
    failures(l, true);
    const char *says = bash_says(l, "syntax error", &line);
    if (says) note_add(l, l->in->script, line, texts_format(&l->texts, "bash reads it up to here: %s", says));
    note_refusals(l);
    if (run->output->end != END_NORMALLY)
        note_add(l, "", 0,
                 "it was ended at a limit of time, processes, memory or disk; what it does after these calls "
                 "is not known");
    if (run->damaged)
        note_add(l, "", 0,
                 "the script has written into the records of its run; what follows there is not read");
    note_environment(l);
}

/* <Specify path> in a line of the script, which bash takes for a redirection. */
static const char *placeholder(Launch *l, int line)
{
    int bytes;
    const char *text = source_line(&l->sources, l->script, line, &bytes),
               *open = memchr(text, '<', (size_t)bytes);
    const char *close = open ? memchr(open, '>', (size_t)(text + bytes - open)) : NULL;
    if (!close) return "";
    return texts_format(&l->texts, "; put a value in the place of %s",
                        texts_printable(&l->texts, open, close + 1 - open, 100));
}

static Status fail_without_call(Launch *l)
{
    static const char *const ends[] = { "", "it ran longer than its time and was ended",
                                        "it started too many processes and was ended",
                                        "it took too much memory and was ended",
                                        "it wrote too much and was ended" };
    const Run *run = &l->run[0];
    int line = 0;
    const char *says = bash_says(l, "syntax error", &line), *script = l->in->script;
    if (!says) says = bash_says(l, "unexpected EOF", &line);
    if (says)
        return fail(BAD_FILE, "%s:%d: bash cannot read it: %s%s", script, line, says, placeholder(l, line));
    if (run->output->end != END_NORMALLY)
        return fail(BAD_FILE,
                    "%s: bash was started with it, and no program was reached: %s (at most %d s, %d "
                    "processes, %d MiB of memory)",
                    script, ends[run->output->end], runs_seconds(l), RUN_PROCESSES_MOST, RUN_MEMORY_MIB);
    if (run->damaged)
        return fail(BAD_FILE,
                    "%s: the script has written into the records of its run, so that they say nothing",
                    script);
    failures(l, true);
    char why[600] = "";
    for (int i = 0; i < l->out->notes && i < 2; i++)
        message_add(why, sizeof why, "; %.100s:%d: %.150s", l->out->note[i].file, l->out->note[i].line,
                    l->out->note[i].text);
    return fail(
        BAD_FILE,
        "%s: bash runs it%s, and it starts no Python program, such as torchrun pretrain_gpt.py ${ARGS[@]}%s; "
        "give a file that starts one with the arguments it wants, or the arguments alone",
        script, l->lenient ? ", failures and exits skipped" : "", why);
}

/* ---- a script ---- */

static Status find_bash(const char **bash)
{
    static const char *const places[] = { "/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash" };
    for (int i = 0; i < COUNT(places); i++)
        if (access(*bash = places[i], X_OK) == 0) return OK;
    return fail(BAD_OPTION, "no bash is installed here (looked for %s) to read a script", places[0]);
}

static Status find_paths(Launch *l)
{
    char git[PATH_MAX + 8];
    const char *script = l->in->script;
    TRY(find_bash(&l->bash));
    if (!realpath(script, l->script)) return fail(BAD_FILE, "%s: %s", script, strerror(errno));
    if (!getcwd(l->current, sizeof l->current))
        return fail(BAD_FILE, "the current folder cannot be named: %s", strerror(errno));
    memcpy(l->own, l->script, sizeof l->own);
    char *slash = strrchr(l->own, '/');
    slash[slash == l->own] = 0;
    memcpy(l->top, l->own, sizeof l->top);
    do {
        snprintf(git, sizeof git, "%s/.git", l->top); /* the top of the repository that the folder is in */
        if (access(git, F_OK) == 0) return OK;
        slash = strrchr(l->top, '/'), *slash = 0;
    } while (slash != l->top);
    memcpy(l->top, l->own, sizeof l->top);
    return OK;
}

/* bash reads many scripts of other shells without an error, and other words out of them: an array of zsh is
 * its first element there. */
static Status refuse_other_text(const char *path, const char *text, size_t bytes)
{
    static const char *const other[] = { "zsh", "csh", "tcsh", "fish", "python", "python3", "perl" };
    char line[256], *rest = NULL;
    if (has_beginning(text, (int64_t)bytes, "\xef\xbb\xbf"))
        return fail(BAD_FILE, "%s:1: it begins with a byte order mark, which bash takes as a part of the "
                    "first command; save it as UTF-8 without one", path);
    snprintf(line, sizeof line, "%.*s", (int)(bytes < sizeof line ? bytes : sizeof line - 1), text);
    line[strcspn(line, "\r\n")] = 0;
    if (strncmp(line, "#!", 2)) return OK;
    for (char *word = strtok_r(line + 2, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        const char *name = strrchr(word, '/') ? strrchr(word, '/') + 1 : word;
        for (int i = 0; i < COUNT(other); i++)
            if (!strcmp(name, other[i]))
                return fail(BAD_FILE, "%s:1: it is a script for %s, and only bash's are run; give a file with"
                            " the arguments that it starts training with", path, name);
    }
    return OK;
}

/* *list: the file was a list of arguments, and is read. */
static Status read_file(Launch *l, bool *list)
{
    FileMap map;
    JobVariable job[SLURM_VARIABLES];
    const char *path = l->in->script;
    TRY(file_map(&map, path));
    const char *text = (const char *)map.data, *end = text + map.size;
    Status status = map.size > 1 << 20
                        ? fail(BAD_FILE, "%s: it has %zu bytes; a script has at most 1 MiB", path, map.size)
                    : memchr(text, 0, map.size) ? fail(BAD_FILE, "%s: it is no text: byte 0", path)
                                                : OK;
    *list = status == OK && launch_is_list(text, end);
    if (status == OK && !*list) status = refuse_other_text(path, text, map.size);
    if (*list) {
        l->out->call = texts_room(&l->texts, sizeof *l->out->call);
        l->out->calls = 1;
        status = argument_list_read(l->out->call, &l->texts, path, text, end);
    }
    int jobs = 0;
    if (status == OK && !*list)
        jobs = slurm_variables(job, texts_keep(&l->texts, text, end - text), l->in->variable,
                               l->in->variables, &l->texts);
    for (int i = 0; i < jobs; i++)
        if (!is_variable_set(l, job[i].assignment)) l->job[l->jobs++] = job[i];
    file_unmap(&map);
    return status;
}

/* What a script left that a person has run with the recorders of launch_offer: one run, of a machine that has
 * what it asks for, so that all is agreed. */
static Status read_own_run(Launch *l)
{
    Run *run = &l->run[0];
    const char *script = NULL;
    TRY(run_output_new(&run->output));
    for (int i = 0; i <= RUN_TRACE; i++) {
        FileMap map;
        char path[1024];
        TRY(path_join(path, l->in->script, run_files[i]));
        TRY(file_map(&map, path));
        bool fits = map.size <= RUN_FILE_BYTES;
        if (fits) memcpy(run->output->text[i], map.data, map.size), run->output->bytes[i] = (int64_t)map.size;
        file_unmap(&map);
        if (!fits) return fail(BAD_FILE, "%s: it has %zu bytes; a record has at most 32 MiB", path, map.size);
    }
    run_read(run, &l->texts);
    for (int i = 0; i < run->entries && !script; i++)
        if (*run->entry[i].file) script = run->entry[i].file;
    l->folder = run->calls ? run->call[0].folder : "";
    if (script) sources_add(&l->sources, run, script, script, l->folder, &l->texts);
    if (!calls_of(run))
        return fail(BAD_FILE, "%s: no Python program was started, or not with the recorders before PATH",
                    l->in->script);
    add_calls(l);
    failures(l, true);
    return OK;
}

static Status record(Launch *l)
{
    bool list;
    struct stat about;
    if (stat(l->in->script, &about) == 0 && S_ISDIR(about.st_mode)) return read_own_run(l);
    TRY(read_file(l, &list));
    if (list) return OK;
    TRY(find_paths(l));
    TRY(runs_make(l));
    if (!calls_of(&l->run[0])) return fail_without_call(l);
    add_calls(l);
    note_run(l);
    return OK;
}

Status launch_record(LaunchRecord *out, const LaunchInput *in)
{
    Launch *l = calloc(1, sizeof *l);
    CHECK(l, "no memory for a run of %s", in->script);
    *out = (LaunchRecord){ .owner = l };
    l->in = in, l->out = out, l->way = in->way;
    return record(l);
}

Status launch_offer(char *out, size_t size, const char *folder)
{
    char at[PATH_MAX];
    RunInput in = { .answers = 0 };
    if (file_exists(folder))
        return fail(BAD_FILE, "%s already exists; name a new folder for the recorders", folder);
    TRY(find_bash(&in.bash));
    TRY(folder_make(folder));
    if (!realpath(folder, at)) return fail(BAD_FILE, "%s: %s", folder, strerror(errno));
    if (!is_plain_path(at)) {
        rmdir(at);
        return fail(BAD_FILE, "%s: recorders need a path without blanks and quotes; name another folder", at);
    }
    TRY(run_folder_make(at, at, &in));
    snprintf(out, size, "PATH=%s/bin:$PATH BASH_ENV=%s/prelude bash", at, at);
    return OK;
}

void launch_close(LaunchRecord *r)
{
    Launch *l = r->owner;
    if (!l) return;
    for (int i = 0; i < RUNS_MOST; i++) run_close(&l->run[i]);
    sources_free(&l->sources);
    texts_free(&l->texts);
    free(r->note);
    free(l);
    *r = (LaunchRecord){ 0 };
}
