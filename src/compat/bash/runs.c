/* Which runs a script gets:
 *
 *   strict      bash as it is, in an empty environment but what the caller names
 *   lenient     where that does not reach a program: errexit, nounset, `exit` and a failing cd are skipped
 *   three more  with other answers: many lines and what the script looks for, no line and exit code 1,
 *               large numbers; another host and another machine's files; variables that nobody sets have
 *               their names as values, then a list, then numbers; files that an earlier run missed are
 *               there; variables of a site's scheduler are set
 *   edited      one for each condition that answers decide, with its other outcome
 *   untraced    as the base, but bash does not trace, which a script may ask: [[ $- == *x* ]]
 *
 * The script starts in the current folder, as a person would start it. Where files are missing there and the
 * script's own folder, or the top of its repository, has them, it starts there, with a note. */
#include "compat/bash/runs.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/message.h"
#include "base/words.h"

enum { SECONDS = 10, RERUNS = 2, EDITED_SECONDS = 3 };

int runs_seconds(const Launch *l)
{
    return l->in->seconds ? l->in->seconds : SECONDS;
}

int calls_of(const Run *run)
{
    int count = 0;
    for (int i = 0; i < run->calls; i++) count += program_word(&run->call[i]) >= 0;
    return count;
}

void note_add(Launch *l, const char *file, int line, const char *text)
{
    LaunchRecord *r = l->out;
    for (int i = 0; i < r->notes; i++)
        if (!strcmp(r->note[i].text, text) && r->note[i].line == line && !strcmp(r->note[i].file, file))
            return;
    ARRAY_RESERVE_OR_STOP(r->note, l->note_room, r->notes + 1);
    r->note[r->notes++] = (LaunchNote){ file, line, text };
}

/* ---- the environment ---- */

/* Variables that a scheduler's job has; the values are no machine's. */
static const char *const site[] = {
    "SLURM_JOB_ID=77", "SLURM_JOBID=77", "SLURM_JOB_NAME=seven", "SLURM_NNODES=7", "SLURM_JOB_NUM_NODES=7",
    "SLURM_NTASKS=56", "SLURM_NTASKS_PER_NODE=8", "SLURM_GPUS_ON_NODE=8", "SLURM_NODEID=0",
    "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_JOB_NODELIST=h[1-7]", "SLURM_NODELIST=h[1-7]",
    "PBS_JOBID=77", "WORLD_SIZE=56", "RANK=0", "LOCAL_RANK=0", "NODE_RANK=0", "MASTER_ADDR=h1",
    "MASTER_PORT=7777", "CUDA_VISIBLE_DEVICES=0, 1"
};

static bool is_named(const char *variable, const char *name)
{
    size_t n = strcspn(name, "=");
    return !strncmp(variable, name, n) && variable[n] == '=';
}

bool is_variable_set(const Launch *l, const char *name)
{
    bool set = false;
    for (int i = 0; i < l->in->variables; i++) set |= is_named(l->in->variable[i], name);
    for (int i = 0; i < l->jobs; i++) set |= is_named(l->job[i].assignment, name);
    return set;
}

const char *unset_value(const Launch *l, const SourceName *name, int answers)
{
    bool counted = name->counted || l->numbers;
    return answers == 3 ? "4097" : answers == 2 ? counted ? "9" : "9, 8" : counted ? "7" : name->name;
}

static void add_variable(RunInput *in, const char **out, const char *text)
{
    for (int i = 0; i < in->variables; i++)
        if (is_named(out[i], text)) return;
    if (in->variables < VARIABLES_MOST) out[in->variables++] = text;
}

/* The first that has a name sets it; of the caller's the last. */
static void set_environment(Launch *l, RunInput *in, const char **out)
{
    const struct passwd *user = getpwuid(geteuid());
    const char *name = user ? user->pw_name : "user", *home = user ? user->pw_dir : "/";
    in->variable = out;
    for (int i = l->in->variables; i > 0; i--) add_variable(in, out, l->in->variable[i - 1]);
    for (int i = 0; i < l->jobs; i++) add_variable(in, out, l->job[i].assignment);
    add_variable(in, out, texts_format(&l->texts, "HOME=%s", home));
    add_variable(in, out, texts_format(&l->texts, "USER=%s", name));
    add_variable(in, out, texts_format(&l->texts, "LOGNAME=%s", name));
    add_variable(in, out, "SHELL=/bin/bash");
    add_variable(in, out, "LANG=C.UTF-8");
    add_variable(in, out, "TERM=dumb");
    for (const SourceName *n = l->sources.name; in->answers && n < l->sources.name + l->sources.names; n++)
        if (n->unset && !n->site)
            add_variable(in, out, texts_format(&l->texts, "%s=%s", n->name, unset_value(l, n, in->answers)));
    for (int i = 0; in->answers == 2 && i < COUNT(site); i++) add_variable(in, out, site[i]);
    for (const SourceName *n = l->sources.name; in->answers == 2 && n < l->sources.name + l->sources.names;
         n++)
        if (n->site) add_variable(in, out, texts_format(&l->texts, "%s=7", n->name));
}

/* The word at `text` as it names a file: without quotes, and braces of names. */
static const char *file_word(Launch *l, const char *text, const char *end)
{
    char word[1024], quote = 0;
    size_t n = 0;
    for (; text < end && n < sizeof word && (quote || !strchr(" \t\n;&|)", *text)); text++) {
        if (strchr("\"'", *text) && (!quote || quote == *text)) quote = quote ? 0 : *text;
        else if (!strchr("{}", *text)) word[n++] = *text;
    }
    return texts_keep(&l->texts, word, (int64_t)n);
}

/* The path of `source PATH` or `. PATH`; NULL: the text is no such command. */
static const char *sourced_path(Launch *l, const char *text, const char *end)
{
    const char *path = !strncmp(text, "source ", 7) ? text + 7 : !strncmp(text, ". ", 2) ? text + 2 : NULL;
    return path ? file_word(l, path + strspn(path, " "), end) : NULL;
}

static bool is_same_path(const char *a, const char *b)
{
    return !strcmp(a + 2 * !strncmp(a, "./", 2), b + 2 * !strncmp(b, "./", 2));
}

/* The FILE of [ -f FILE ] && . FILE, written alike in both places, the second one before the end of the
 * line or a `fi`. NULL: the entry is no such test, or the run sources the file. */
static const char *tested_path(Launch *l, const Run *run, const TraceEntry *e)
{
    const SourceText *t = source_find(&l->sources, e->file);
    const char *option = strchr("['t", *e->text) ? strstr(e->text, " -") : NULL, *other;
    if (!option || !t || e->line < 1 || e->line > t->lines || !strchr("fers", option[2]) || option[3] != ' ')
        return NULL;
    int last = e->line;
    while (last < t->lines && last < e->line + 100 && !find_word(t->line[last - 1], t->line[last], "fi"))
        last++;
    const char *begin = t->line[e->line - 1], *end = t->line[last];
    const char *word = memmem(begin, (size_t)(end - begin), option + 1, 3);
    if (!word) return NULL;
    const char *path = file_word(l, option + 4, option + strlen(option)), *own = file_word(l, word + 3, end);
    bool would = false;
    for (const char *p = word + 3; p < end && !would; p++)
        would = strchr(" \t\n;&", p[-1]) && (other = sourced_path(l, p, end)) && is_same_path(other, own);
    for (const TraceEntry *i = run->entry; i < run->entry + run->entries && would; i++)
        would = !(other = sourced_path(l, i->text, i->text + strlen(i->text))) || !is_same_path(other, path);
    return would ? path : NULL;
}

/* Whether a file that the run sources is not there, or was made for it: bash says so (of /tmp, which is not
 * the machine's), or none of its lines was traced in a run without such files. */
static bool lacks_file(const Launch *l, const Run *run, const char *path)
{
    char at[PATH_MAX + 1024], says[600];
    bool whole = *path == '/';
    snprintf(at, sizeof at, "%s%s%s", whole ? "" : l->folder, whole ? "" : "/", path);
    snprintf(says, sizeof says, "%.500s: No such file or directory", path);
    if (strstr(run->output->text[RUN_PRINTED], says)) return true;
    if (access(at, F_OK) == 0 || !strncmp(path, "/dev/", 5)) return false;
    for (int i = 0; i < l->lackings; i++)
        if (!strcmp(l->lacking[i].path, path)) run = &l->run[0];
    for (const TraceEntry *e = run->entry; e < run->entry + run->entries; e++)
        if (is_same_path(e->file, path)) return false;
    return true;
}

/* A file that is missing, and that some run sources, or would if it were there; but none of those that only
 * find programs. NULL: none. */
static const char *find_lost(Launch *l)
{
    static const char finders[] =
        "activate conda.sh mamba.sh micromamba.sh modules.sh module.sh lmod.sh z00_lmod.sh setvars.sh "
        "bash .bashrc .bash_profile .profile profile bashrc";
    for (const Run *run = l->run; run < l->run + l->runs; run++)
        for (const TraceEntry *e = run->entry; e < run->entry + run->entries; e++) {
            const char *path = sourced_path(l, e->text, e->text + strlen(e->text));
            bool lost = path && lacks_file(l, run, path);
            if (!path) lost = (path = tested_path(l, run, e)) != NULL;
            const char *name = lost ? path_leaf(path, strlen(path)) : "";
            if (lost && !words_have(finders, name, strlen(name))) return path;
        }
    return NULL;
}

/* Names that bash reads from the environment without a default, and those of a scheduler's job; those with a
 * default as well where a file is missing that might set them. Returns whether there are such. */
static bool find_unset(Launch *l, const char *lost)
{
    bool any = false;
    static const char *const schedulers[] = { "SLURM_", "PBS_", "LSB_", "COBALT_", "FLUX_", "OMPI_", "PMI_" };
    for (SourceName *n = l->sources.name; n < l->sources.name + l->sources.names; n++) {
        n->unset = source_reads_unset(n) && !is_variable_set(l, n->name);
        for (int i = 0; i < COUNT(schedulers) && !n->unset; i++)
            n->site |= !strncmp(n->name, schedulers[i], strlen(schedulers[i])) && !n->assigned &&
                       !is_variable_set(l, n->name);
        n->unset |= n->site;
        if (!lost || n->unset || !n->tested || is_common_name(n->name) || is_variable_set(l, n->name))
            continue;
        n->unset = true, n->lost = lost, any = true;
    }
    for (int i = 0; i < COUNT(site); i++) {
        SourceName *n =
            source_name(&l->sources, texts_keep(&l->texts, site[i], (int64_t)strcspn(site[i], "=")));
        if (n && !n->unset && !n->assigned && !is_variable_set(l, site[i])) n->unset = n->site = true;
    }
    return any;
}

/* ---- one run ---- */

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return !strncmp(path, folder, n) && (path[n] == '/' || !path[n]);
}

/* The root and folders of the system are not laid over. */
static void add_top(RunInput *in, const char *folder)
{
    static const char *const never[] = { "/",    "/usr", "/bin", "/etc", "/proc", "/sys", "/dev",
                                         "/tmp", "/run", "/var", "/lib", "/opt",  "/boot" };
    int at = 0;
    for (int i = 0; i < COUNT(never); i++)
        if (!strcmp(folder, never[i])) return;
    while (at < in->tops && !is_below(in->top[at], folder) && !is_below(folder, in->top[at])) at++;
    if (at == TOPS || strlen(folder) >= sizeof in->top[0]) return;
    if (at == in->tops) in->tops++;
    else if (is_below(folder, in->top[at])) return;
    snprintf(in->top[at], sizeof in->top[at], "%s", folder);
}

/* In one way, or in the first that works here. */
static Status shut_in(Launch *l, RunOutput *out, const RunInput *in)
{
    char why[FAIL_BYTES / 2], also[FAIL_BYTES / 4];
    if (l->way != LAUNCH_ANY_WAY) return run_shut_in(out, in, l->way);
    l->way = LAUNCH_NAMESPACES;
    if (run_shut_in(out, in, l->way) == OK) return OK;
    snprintf(why, sizeof why, "%s", fail_text());
    l->way = LAUNCH_LANDLOCK;
    Status status = run_shut_in(out, in, l->way);
    if (status == OK) return OK;
    snprintf(also, sizeof also, "%s", fail_text());
    return fail(
        status,
        "%s is not run, because this machine allows nothing to shut it in: no namespaces (%.300s), no "
        "Landlock (%.300s); "
        "run it yourself with recorders in the place of its programs: jotun config --record FOLDER says how",
        l->in->script, why, also);
}

/* The file's text with an edit, and with those that it is inside of. */
static void add_edit(Launch *l, RunInput *in, const Edit *edit)
{
    _Static_assert((int)EDITED_MOST >= (int)EDITS_MOST, "a chain of edits may be of as many files");
    const Edit *list[EDITS_MOST];
    int count = 0;
    for (; count < EDITS_MOST; edit = &l->edit[edit->inside]) {
        int at = count++;
        for (; at && list[at - 1]->from < edit->from; at--) list[at] = list[at - 1];
        list[at] = edit;
        if (edit->inside < 0) break;
    }
    for (int i = 0; i < count; i++) { /* from the last one of a file to its first */
        const SourceText *t = list[i]->source;
        bool first = true;
        for (int k = 0; k < i; k++) first &= list[k]->source != t;
        if (!first) continue;
        const char *text = t->text;
        for (int k = i; k < count; k++)
            if (list[k]->source == t)
                text = texts_join(&l->texts, text, list[k]->from - t->text, list[k]->text,
                                  text + (list[k]->to - t->text));
        in->edited[in->editeds].path = t->path, in->edited[in->editeds++].text = text;
    }
}

/* edit: what the script has in another way; NULL: nothing */
static Status run_once(Launch *l, Run *run, int answers, bool lenient, const Edit *edit)
{
    static const char *const hosts[ANSWERS] = { NULL, "host6", "other8", "place4097" };
    const char *variable[VARIABLES_MOST];
    RunInput in = { .bash = l->bash,
                    .script = l->script,
                    .argument = l->in->argument,
                    .arguments = l->in->arguments,
                    .folder = l->folder,
                    .lacking = l->lacking,
                    .lackings = l->lackings,
                    .answers = answers,
                    .host = hosts[answers],
                    .lenient = lenient,
                    .untraced = l->untraced,
                    .patterns = l->patterns,
                    .seconds = runs_seconds(l) };
    if (edit) add_edit(l, &in, edit);
    if (edit && in.seconds > EDITED_SECONDS) in.seconds = EDITED_SECONDS;
    set_environment(l, &in, variable);
    add_top(&in, l->folder);
    add_top(&in, l->top);
    add_top(&in, l->own);
    run_close(run);
    TRY(run_output_new(&run->output));
    TRY(shut_in(l, run->output, &in));
    run_read(run, &l->texts);
    if (!run->old_bash) return OK;
    return fail(BAD_OPTION, "%s is older than bash 4.1, which running a script takes; install a later one",
                l->bash);
}

/* ---- what a run missed ---- */

static void add_lacking(Launch *l, const char *path, bool is_folder)
{
    Lacking *new = &l->lacking[l->lackings];
    if (l->lackings == LACKINGS_MOST || strlen(path) >= sizeof new->path || path[0] != '/' || !path[1] ||
        strpbrk(path, " \t\n*?[]{}$`'\"\\;&|<>()") || strstr(path, "/../") || strstr(path, "/.jotun") ||
        is_below(path, "/proc") || is_below(path, "/dev") || is_below(path, "/sys"))
        return;
    for (int i = 0; i < l->lackings; i++)
        if (!strcmp(l->lacking[i].path, path)) return;
    snprintf(new->path, sizeof new->path, "%s", path);
    new->is_folder = is_folder;
    l->lackings++;
}

/* The path of bash's own line: "run.sh: line 7: /scratch/log/x: No such file or directory". NULL: another. */
static const char *missing_path(Launch *l, const char *line, size_t bytes)
{
    static const char why[] = ": No such file or directory";
    const size_t n = sizeof why - 1;
    if (bytes < n || memcmp(line + bytes - n, why, n)) return NULL;
    const char *to = line + bytes - n, *from = to;
    while (from > line && from[-1] != ' ') from--;
    if (to == from) return NULL;
    bool whole = *from == '/';
    return texts_format(&l->texts, "%s%s%.*s", whole ? "" : l->folder, whole ? "" : "/", (int)(to - from),
                        from);
}

static void find_lacking_folder(Launch *l, const char *line, size_t bytes)
{
    const char *path = missing_path(l, line, bytes), *slash = path ? strrchr(path, '/') : NULL;
    if (!path || slash == path) return;
    path = texts_keep(&l->texts, path, slash - path);
    if (access(path, F_OK)) add_lacking(l, path, true);
}

/* Two files for a pattern that no file matches, in which an array's trace still has variables. */
static void add_matching(Launch *l, const TraceEntry *e, const char *p)
{
    char path[2][1024];
    size_t used = 0;
    bool pattern = false;
    for (p += strspn(p, "'\""); *p && !strchr(" \t\n'\");&|<>", *p) && used < 500; p++) {
        const char *name;
        size_t letters = *p == '$' ? variable_at(p, p + strlen(p), &name) : 0;
        if (letters) {
            used += (size_t)snprintf(path[0] + used, 500, "%s",
                                     last_value(&l->run[0], e, name, letters, &l->texts));
            if (used >= 500) return;
            memcpy(path[1], path[0], used);
            p = name + letters - (name[letters] != '}');
        } else if (strchr("*?[", *p)) {
            pattern = true;
            path[0][used] = *p == '[' ? p[1] : '0', path[1][used++] = '1';
            if (*p == '[') p += strcspn(p, "]") - !strchr(p, ']');
        } else path[0][used] = path[1][used] = *p, used++;
    }
    path[0][used] = path[1][used] = 0;
    char *slash = strrchr(path[0], '/');
    if (!pattern || path[0][0] != '/' || is_below(path[0], l->folder) || is_below(path[0], l->top) ||
        is_below(path[0], l->own))
        return;
    if (access(path[0], F_OK) && slash) add_lacking(l, path[0], false), add_lacking(l, path[1], false);
}

static void add_lacking_file(Launch *l, const char *path)
{
    if (access(path, F_OK) && !is_below(path, l->folder) && !is_below(path, l->top) &&
        !is_below(path, l->own))
        add_lacking(l, path, false);
}

/* Files of this machine that readers and tests asked for in vain, outside of the folders handed over; but not
 * the one by which a script asks whether its run has begun, which is not there, as for the first start. */
static void find_lacking_files(Launch *l)
{
    const Run *run = &l->run[0];
    char path[1024];
    for (const TraceEntry *e = run->entry; e < run->entry + run->entries; e++) {
        for (const char *p = e->text; strpbrk(e->text, "*?") && *p; p++)
            if (p == e->text || strchr(" (", p[-1])) add_matching(l, e, p);
        for (const char *p = e->text; entry_reads(path, &p, e);) {
            const char *leaf = path_leaf(path, strlen(path));
            if (!strcmp(leaf, "latest_checkpointed_iteration.txt") || !strcmp(leaf, "latest"))
                note_add(l, source_shown(&l->sources, e->file), e->line,
                         texts_format(&l->texts, "%.300s is not there, as before the first start", path));
            else add_lacking_file(l, path);
        }
    }
    for (const char *p = run->output->text[RUN_PRINTED]; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *wanted = missing_path(l, p, strcspn(p, "\n")); /* of read N < FILE */
        if (wanted) add_lacking_file(l, wanted);
    }
}

/* What grep and its kin look for, so that one of the other answers has it. */
static void find_patterns(Launch *l)
{
    char list[4096] = "";
    for (const TraceEntry *e = l->run[0].entry; e < l->run[0].entry + l->run[0].entries; e++) {
        if (strncmp(e->text, "grep ", 5) && strncmp(e->text, "egrep ", 6) && strncmp(e->text, "fgrep ", 6))
            continue;
        for (const char *p = strchr(e->text, ' '); *p; p += strcspn(p, " ")) {
            p += strspn(p, " '^");
            int n = (int)strcspn(p, " '$\n");
            if (n && *p != '-' && *p != '/') message_add(list, sizeof list, "%.*s\n", n, p);
        }
    }
    l->patterns = texts_keep(&l->texts, list, (int64_t)strlen(list));
}

/* ---- failures ---- */

/* Commands whose failure is an answer, and no fault. */
static bool is_question(const char *command)
{
    static const char asks[] = " [ [[ test grep egrep fgrep false let read command which type expr diff cmp "
                               "kill wait ls stat return shift unset hash trap clear tput ";
    char word[64];
    snprintf(word, sizeof word, " %.*s ", (int)strcspn(command, " \t\n"), command);
    return strstr(asks, word) || !strncmp(command, "((", 2) || !strncmp(command, "[[", 2);
}

/* They stand in the trace as : JOTUN_FAILED 1 'source missing.sh'; and exits that a lenient run skipped. */
int failures(Launch *l, bool tell)
{
    static const char mark[] = ": JOTUN_FAILED ";
    const Run *run = &l->run[0];
    int count = 0;
    for (const TraceEntry *e = run->entry; e < run->entry + run->entries; e++) {
        const char *file = source_shown(&l->sources, e->file), *text = e->text;
        bool left = !strncmp(text, "exit", 4) && (!text[4] || isspace((unsigned char)text[4]));
        if (l->lenient && left && tell)
            note_add(l, file, e->line,
                     texts_format(&l->texts, "%s was skipped",
                                  texts_printable(&l->texts, text, (int64_t)strlen(text), 40)));
        if (strncmp(text, mark, sizeof mark - 1)) continue;
        const char *code = text + sizeof mark - 1, *command = code + strcspn(code, " ");
        command += strspn(command, " '");
        if (is_question(command)) continue;
        count++;
        size_t letters = strlen(command);
        if (letters && command[letters - 1] == '\'') letters--;
        if (tell)
            note_add(l, file, e->line,
                     texts_format(&l->texts,
                                  "%s failed here with exit code %.*s and was skipped; what it does or sets "
                                  "is missing",
                                  texts_printable(&l->texts, command, (int64_t)letters, 200),
                                  (int)strcspn(code, " "), code));
    }
    return count;
}

const char *bash_says(Launch *l, const char *what, int *line)
{
    const char *text = l->run[0].output->text[RUN_PRINTED], *hit = strstr(text, what), *begin = hit;
    if (!hit) return NULL;
    while (begin > text && begin[-1] != '\n') begin--;
    const char *at = strstr(begin, ": line ");
    *line = at && at < hit ? (int)strtol(at + 7, NULL, 10) : 0;
    return texts_printable(&l->texts, hit, (int64_t)strcspn(hit, "\n"), 300);
}

/* ---- the base run ---- */

/* Whether a run reached a program that the caller wants, or any. */
static bool reaches(const Launch *l, const Run *run)
{
    for (int i = 0; i < run->calls; i++) {
        int word = program_word(&run->call[i]);
        if (word >= 0 && (!l->in->wanted || l->in->wanted(run->call[i].word[word]))) return true;
    }
    return false;
}

/* Whether the script submits a job with options, or another script as one: its own lines say nothing then. */
static bool submits_other(const Launch *l, const Run *run)
{
    const char *leaf = path_leaf(l->script, strlen(l->script));
    for (const CallRecord *c = run->call; c < run->call + run->calls; c++) {
        const char *first = c->words ? c->word[0] : "";
        if (!strcmp(c->name, "sbatch") && strcmp(path_leaf(first, strlen(first)), leaf)) return true;
    }
    return false;
}

/* With what it missed, as long as there is something new. */
static Status run_with_lacking(Launch *l)
{
    Run *run = &l->run[0];
    for (int again = 0; again <= RERUNS; again++) {
        int before = l->lackings;
        TRY(run_once(l, run, 0, l->lenient, NULL));
        const char *p = run->output->text[RUN_PRINTED];
        for (; *p; p += strcspn(p, "\n"), p += *p == '\n') find_lacking_folder(l, p, strcspn(p, "\n"));
        bool submits = l->jobs && submits_other(l, run);
        if (submits) l->jobs = 0;
        if (l->lackings == before && !submits) break;
    }
    return OK;
}

/* Strict; lenient where that reaches no program, or none that is wanted and a lenient one does. */
static Status run_base(Launch *l)
{
    Run *run = &l->run[0];
    l->lenient = false;
    TRY(run_with_lacking(l));
    if (!reaches(l, run) && run->output->end == END_NORMALLY) {
        Run strict = *run;
        *run = (Run){ 0 };
        l->lenient = true;
        Status status = run_with_lacking(l);
        l->lenient = status != OK || reaches(l, run) || !calls_of(&strict);
        if (!l->lenient) {
            Run other = *run;
            *run = strict, strict = other;
        }
        run_close(&strict);
        TRY(status);
    }
    sources_free(&l->sources);
    sources_add(&l->sources, run, l->script, l->in->script, l->folder, &l->texts);
    return OK;
}

/* How much the base run missed; 0: nothing. */
static int missed(Launch *l)
{
    int line, count = failures(l, false), no_call = calls_of(&l->run[0]) ? 0 : 10000;
    if (!count && !bash_says(l, "No such file or directory", &line)) return no_call;
    return 1 + count + 100 * l->lenient + 2 * no_call;
}

/* In the current folder; where that lacks files, in the script's own and at the top of its repository. */
static Status run_where_it_fits(Launch *l)
{
    const char *folders[] = { l->current, l->own, l->top }, *best = NULL;
    int least = INT_MAX;
    for (int i = 0; i < 3 && least; i++) {
        bool same = false;
        for (int k = 0; k < i; k++) same |= !strcmp(folders[i], folders[k]);
        if (same) continue;
        l->folder = folders[i];
        TRY(run_base(l));
        int now = missed(l);
        if (now < least) least = now, best = folders[i];
        if (l->run[0].output->end != END_NORMALLY) break;
    }
    if (strcmp(l->folder, best)) {
        l->folder = best;
        TRY(run_base(l));
    }
    if (strcmp(best, l->current) && calls_of(&l->run[0]))
        note_add(l, "", 0,
                 texts_format(&l->texts,
                              "it was run in %s, which has files that it misses in the current folder",
                              texts_printable(&l->texts, best, (int64_t)strlen(best), 500)));
    return OK;
}

/* One with other answers. */
static Status run_otherwise(Launch *l, int answers)
{
    Run *run = &l->run[l->runs++];
    TRY(run_once(l, run, answers, l->lenient, NULL));
    l->numbers = !calls_of(run); /* $((N * 2)), where N is the name of a variable */
    if (l->numbers) TRY(run_once(l, run, answers, l->lenient, NULL));
    if (!calls_of(run) && !l->lenient) TRY(run_once(l, run, answers, true, NULL));
    l->numbers = false;
    if (!calls_of(run))
        note_add(l, "", 0,
                 "with other answers of what this machine lacks it starts no program, so that its words "
                 "were compared with fewer runs");
    return OK;
}

/* Each condition that answers decide gets its other outcome, and with it those that are reached only then. */
static void run_edited(Launch *l)
{
    int edits = 0, answers = l->runs;
    for (int i = 1; i < answers; i++)
        edits = conditions_find(l->edit, edits, EDITS_MOST, -1, &l->sources, &l->run[0], &l->run[i],
                                &l->texts);
    for (int i = 0; i < edits && i < EDITS_MOST; i++) {
        Run *run = &l->run[l->runs];
        bool done = run_once(l, run, 0, l->lenient, &l->edit[i]) == OK;
        /* its file could not be copied; a loop that does not end; an edit that is no bash */
        l->out->untried |= !done || run->output->end != END_NORMALLY ||
                           (!calls_of(run) && strstr(run->output->text[RUN_PRINTED], "syntax error"));
        if (!done || !calls_of(run)) {
            run_close(run);
            continue;
        }
        l->cause[l->runs++] = l->edit[i].cause;
        edits = conditions_find(l->edit, edits, EDITS_MOST, i, &l->sources, run, &l->run[1], &l->texts);
    }
    l->out->untried |= edits > EDITS_MOST;
}

static Status run_untraced(Launch *l)
{
    Run *run = &l->run[l->runs];
    l->untraced = true;
    TRY(run_once(l, run, 0, l->lenient, NULL));
    if (calls_of(run)) l->cause[l->runs++] = "$-, which says whether bash traces";
    return OK;
}

Status runs_make(Launch *l)
{
    TRY(run_where_it_fits(l));
    if (!calls_of(&l->run[l->runs++])) return OK;
    find_lacking_files(l);
    find_patterns(l);
    const char *lost = find_lost(l), *known;
    const int notes = l->out->notes;
    find_unset(l, lost);
    do { /* again where only other answers lead to a file that is missing, and it might set something */
        l->runs = 1, l->out->notes = notes, l->out->untried = false, known = lost;
        for (int answers = 1; answers < ANSWERS; answers++) TRY(run_otherwise(l, answers));
        run_edited(l);
    } while (!known && (lost = find_lost(l)) && find_unset(l, lost));
    return run_untraced(l);
}
