/* Which runs a script gets, and what follows from them together.
 *
 *   strict      bash as it is, in an empty environment but what the caller names
 *   lenient     where no call is reached so: errexit, nounset, `exit` and a failing cd are skipped
 *   two more    with other answers: another line, then none and exit code 1; another host;
 *               variables that nobody sets have their names as values, then numbers; files that an earlier
 * run missed are there; variables of a site's scheduler are set
 *
 * The first run that reaches a call gives the words. A word is agreed where the two more give it, too.
 *
 * The script starts in the current folder, as a person would start it. Where files are missing there and the
 * script's own folder, or the top of its repository, has them, it starts there, with a note. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/message.h"
#include "compat/bash/launch_script.h"
#include "compat/bash/trace.h"

extern char **environ;
enum {
    LACKINGS_MOST = 200, VARIABLES_MOST = 400, SECONDS = 10, RERUNS = 2, COMPARED_WORDS = 2000,
    REFUSALS_MOST = 20
};

typedef struct {
    const LaunchInput *in;
    LaunchRecord *out;
    Texts *texts;
    JobVariable job[SLURM_VARIABLES]; /* of the script's own #SBATCH lines, which the caller does not set */
    int job_variables;
    const char *variable[VARIABLES_MOST]; /* [variables] the caller's, and after them those of the job */
    int variables;
    char script[PATH_MAX], recorder[PATH_MAX], current[PATH_MAX], own[PATH_MAX], top[PATH_MAX];
    const char *bash;
    Lacking lacking[LACKINGS_MOST];
    int lackings;
    LaunchWay way; /* the one that works here */
    Run run[3];    /* base, and two with other answers */
    Sources sources;
    UnsetNames unset;
    const char *folder; /* in which the script starts */
    bool numbers;       /* variables that are not set get numbers */
    bool lenient;       /* of the base run */
    int *note_room;
} Launch;

/* ---- words of a command line ---- */

static bool is_assignment(const char *word)
{
    size_t n = 0;
    while (isalnum((unsigned char)word[n]) || word[n] == '_') n++;
    return n && word[n] == '=' && !isdigit((unsigned char)word[0]);
}

Status launch_words(LaunchInput *out, const char **argument, const char **variable, int count,
                    const char *const *words)
{
    bool all = false;
    *out = (LaunchInput){ .argument = argument, .variable = variable };
    for (int i = 0; i < count; i++) {
        if (!all && is_assignment(words[i])) variable[out->variables++] = words[i];
        else if (!out->script) out->script = words[i];
        else if (!all && !strcmp(words[i], "--")) all = true;
        else argument[out->arguments++] = words[i];
    }
    if (out->script) return OK;
    return fail(BAD_USAGE,
                "--from-megatron needs a script or a list of arguments: [NAME=value...] FILE [ARGUMENT...]");
}

bool launch_is_list(const char *p, const char *end)
{
    for (;;) {
        while (p < end && (isspace((unsigned char)*p) || *p == '\\')) p++;
        if (p == end || *p != '#') break;
        while (p < end && *p != '\n') p++;
    }
    return end - p > 2 && p[0] == '-' && p[1] == '-';
}

/* ---- notes ---- */

static void add_note(Launch *l, const char *file, int line, const char *text)
{
    LaunchRecord *r = l->out;
    for (int i = 0; i < r->notes; i++)
        if (!strcmp(r->note[i].text, text) && r->note[i].line == line && !strcmp(r->note[i].file, file))
            return;
    ARRAY_RESERVE_OR_STOP(r->note, *l->note_room, r->notes + 1);
    r->note[r->notes++] = (LaunchNote){ file, line, text };
}

/* ---- one run ---- */

/* The top of the repository that the folder is in, or the folder itself. */
static void find_top(char out[PATH_MAX], const char *folder)
{
    char path[PATH_MAX], git[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s", folder);
    snprintf(out, PATH_MAX, "%s", folder);
    for (char *slash; strlen(path) > 1; *slash = 0) {
        snprintf(git, sizeof git, "%s/.git", path);
        if (access(git, F_OK) == 0) {
            snprintf(out, PATH_MAX, "%s", path);
            return;
        }
        slash = strrchr(path, '/');
        if (!slash || slash == path) return;
    }
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return !strncmp(path, folder, n) && (path[n] == '/' || !path[n]);
}

/* The root and folders of the system are not laid over. */
static void add_top(RunInput *in, const char *folder)
{
    static const char *const never[] = { "/",    "/usr", "/bin", "/etc", "/proc", "/sys",  "/dev",
                                         "/tmp", "/run", "/var", "/lib", "/opt",  "/boot", NULL };
    for (const char *const *n = never; *n; n++)
        if (!strcmp(folder, *n)) return;
    if (strlen(folder) >= sizeof in->top[0]) return;
    for (int i = 0; i < in->tops; i++) {
        if (is_below(folder, in->top[i])) return;
        if (is_below(in->top[i], folder)) {
            snprintf(in->top[i], sizeof in->top[i], "%s", folder);
            return;
        }
    }
    if (in->tops < TOPS) snprintf(in->top[in->tops++], sizeof in->top[0], "%s", folder);
}

/* Variables that a scheduler's job has; the values are no machine's. */
static const char *const site[] = {
    "SLURM_JOB_ID=77", "SLURM_JOBID=77", "SLURM_JOB_NAME=seven", "SLURM_NNODES=7", "SLURM_JOB_NUM_NODES=7",
    "SLURM_NTASKS=56", "SLURM_NTASKS_PER_NODE=8", "SLURM_GPUS_ON_NODE=8", "SLURM_NODEID=0",
    "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_JOB_NODELIST=h[1-7]", "SLURM_NODELIST=h[1-7]",
    "PBS_JOBID=77", "WORLD_SIZE=56", "RANK=0", "LOCAL_RANK=0", "NODE_RANK=0", "MASTER_ADDR=h1",
    "MASTER_PORT=7777", "CUDA_VISIBLE_DEVICES=0, 1", NULL
};

static bool is_set(const char *const *variable, int count, const char *name)
{
    size_t n = strcspn(name, "=");
    for (int i = 0; i < count; i++)
        if (!strncmp(variable[i], name, n) && variable[i][n] == '=') return true;
    return false;
}

/* The caller's own come first, so that they hold. */
static void set_variables(Launch *l)
{
    l->variables = 0;
    for (int i = 0; i < l->in->variables && l->variables < VARIABLES_MOST / 2; i++)
        l->variable[l->variables++] = l->in->variable[i];
    for (int i = 0; i < l->job_variables && l->variables < VARIABLES_MOST / 2; i++)
        l->variable[l->variables++] = l->job[i].assignment;
}

/* Its name, so that a person sees what is missing; a number where a name would end the script. */
static const char *unset_value(const Launch *l, const UnsetName *u, int answers)
{
    return answers == 2 ? "9" : u->counted || l->numbers ? "7" : u->name;
}

static int environment(Launch *l, const char **out, int answers)
{
    const struct passwd *user = getpwuid(geteuid());
    const char *name = user ? user->pw_name : "user", *home = user ? user->pw_dir : "/";
    const char *own[] = { texts_format(l->texts, "HOME=%s", home),
                          texts_format(l->texts, "USER=%s", name),
                          texts_format(l->texts, "LOGNAME=%s", name),
                          "SHELL=/bin/bash",
                          "LANG=C.UTF-8",
                          "TERM=dumb" };
    int n = 0;
    for (int i = 0; i < l->variables && n < VARIABLES_MOST / 2; i++) out[n++] = l->variable[i];
    for (size_t i = 0; i < COUNT(own); i++)
        if (!is_set(out, n, own[i])) out[n++] = own[i];
    for (int i = 0; answers && i < l->unset.names && n < VARIABLES_MOST - 60; i++) {
        const UnsetName *u = &l->unset.name[i];
        if (!u->site) out[n++] = texts_format(l->texts, "%s=%s", u->name, unset_value(l, u, answers));
    }
    for (const char *const *s = site; answers == 2 && *s; s++)
        if (!is_set(out, n, *s)) out[n++] = *s;
    return n;
}

/* In one way, or in the first that works here. */
static Status shut_in(Launch *l, RunResult *out, const RunInput *in)
{
    char why[FAIL_BYTES / 2];
    if (l->way == LAUNCH_NAMESPACES) return run_in_namespaces(out, in);
    if (l->way == LAUNCH_LANDLOCK) return run_in_landlock(out, in);
    Status status = run_in_namespaces(out, in);
    if (status == OK) return l->way = LAUNCH_NAMESPACES, OK;
    snprintf(why, sizeof why, "%s", fail_text());
    run_free(out);
    status = run_in_landlock(out, in);
    if (status == OK) return l->way = LAUNCH_LANDLOCK, OK;
    char also[FAIL_BYTES / 4];
    snprintf(also, sizeof also, "%s", fail_text());
    return fail(
        status,
        "%s is not run, because this machine allows nothing to shut it in: no namespaces (%.300s), no "
        "Landlock (%.300s); "
        "run it yourself with recorders in the place of its programs: jotun config --record FOLDER says how",
        l->in->script, why, also);
}

static Status run_once(Launch *l, Run *run, int answers, bool lenient)
{
    const char *variable[VARIABLES_MOST];
    RunInput in = { .recorder = l->recorder,
                    .bash = l->bash,
                    .script = l->script,
                    .argument = l->in->argument,
                    .arguments = l->in->arguments,
                    .variable = variable,
                    .folder = l->folder,
                    .lacking = l->lacking,
                    .lackings = l->lackings,
                    .answers = answers,
                    .host = answers == 1   ? "host6"
                            : answers == 2 ? "other8"
                                           : NULL,
                    .lenient = lenient,
                    .seconds = l->in->seconds ? l->in->seconds : SECONDS };
    Lacking kept[LACKINGS_MOST];
    int n = 0;
    for (int i = 0; i < l->lackings; i++) /* files are made for the other answers only */
        if (answers || l->lacking[i].kind != LACKING_FILE) kept[n++] = l->lacking[i];
    in.lacking = kept, in.lackings = n;
    in.variables = environment(l, variable, answers);
    add_top(&in, l->folder);
    add_top(&in, l->top);
    add_top(&in, l->own);
    run_close(run);
    TRY(shut_in(l, &run->result, &in));
    run_read(run, l->texts);
    if (run->old_bash)
        return fail(BAD_OPTION,
                    "%s is older than bash 4.1, which running a script takes; install a later one", l->bash);
    return OK;
}

/* ---- calls ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), e = strlen(end);
    return n >= e && !strcmp(text + n - e, end);
}

static bool is_python(const char *name)
{
    return !strncmp(name, "python", 6) && !name[6 + strspn(name + 6, "0123456789.")];
}

static bool is_launcher_module(const char *module)
{
    return !strncmp(module, "torch.distributed.", 18) || !strncmp(module, "deepspeed.launcher", 18) ||
           !strncmp(module, "accelerate.commands", 19);
}

/* The word that is the program of a recorded call: a .py file, or a module behind -m or --module. -1: it has
 * none. */
static int program_word(const CallRecord *c)
{
    static const char *const names[] = { "torchrun", "deepspeed", "accelerate", "horovodrun",
                                         "ipython",  "ray",       NULL };
    bool runs = is_python(c->name);
    for (const char *const *n = names; *n; n++) runs |= !strcmp(c->name, *n);
    for (int i = 0; runs && i < c->words; i++) {
        if (!strcmp(c->word[i], "-c") && is_python(c->name)) return -1;
        if (ends_with(c->word[i], ".py") && c->word[i][0] != '-') return i;
        bool module = !strcmp(c->word[i], "-m") || !strcmp(c->word[i], "--module");
        if (module && i + 1 < c->words && !is_launcher_module(c->word[i + 1])) return i + 1;
        if (module && i + 1 < c->words) i++;
    }
    return -1;
}

static int calls_of(const Run *run)
{
    int count = 0;
    for (int i = 0; i < run->calls; i++) count += program_word(&run->call[i]) >= 0;
    return count;
}

/* The k-th call of this program. */
static const CallRecord *call_like(const Run *run, const char *program, int k)
{
    for (int i = 0; i < run->calls; i++) {
        int p = program_word(&run->call[i]);
        if (p >= 0 && !strcmp(run->call[i].word[p], program) && k-- == 0) return &run->call[i];
    }
    return NULL;
}

/* ---- what a run missed ---- */

static bool is_plain(const char *path, size_t letters)
{
    for (size_t i = 0; i < letters; i++)
        if ((unsigned char)path[i] <= ' ' || strchr("*?[]{}$`'\"\\;&|<>()", path[i])) return false;
    return letters > 1;
}

static void add_lacking(Launch *l, const char *path, size_t letters, LackingKind kind)
{
    Lacking *new = &l->lacking[l->lackings];
    if (l->lackings == LACKINGS_MOST || letters >= sizeof new->path || path[0] != '/' ||
        !is_plain(path, letters))
        return;
    snprintf(new->path, sizeof new->path, "%.*s", (int)letters, path);
    new->kind = kind;
    if (strstr(new->path, "/../") || strstr(new->path, "/.jotun")) return;
    for (int i = 0; i < l->lackings; i++)
        if (!strcmp(l->lacking[i].path, new->path)) return;
    l->lackings++;
}

static bool is_program_name(const char *name)
{
    if (is_python(name)) return true;
    for (const char *const *n = recorded_names; *n; n++)
        if (!strcmp(name, *n)) return strcmp(name, "sh") != 0 && strcmp(name, "sleep") != 0;
    return false;
}

/* Programs by their path: /opt/x/bin/python is not there, or is a real one. */
static void lacking_programs(Launch *l, const Run *run)
{
    for (int i = 0; i < run->entries; i++) {
        const char *text = run->entry[i].text;
        if (!strncmp(text, "exec ", 5)) text += 5;
        size_t n = strcspn(text, " \t\n");
        char path[1024];
        if (*text != '/' || n >= sizeof path) continue;
        snprintf(path, sizeof path, "%.*s", (int)n, text);
        if (is_program_name(path_leaf(path, n)) && !strstr(path, "/.jotun/") && !is_below(path, "/usr/bin") &&
            !is_below(path, "/usr/local/bin") && !is_below(path, "/bin"))
            add_lacking(l, path, n, LACKING_PROGRAM);
    }
}

/* Real programs in the folders of a PATH that the script sets. */
static void lacking_in_path(Launch *l, const Run *run)
{
    static const char *const names[] = { "python",     "python3", "torchrun", "deepspeed",
                                         "accelerate", "srun",    "mpirun",   "mpiexec" };
    for (int i = 0; i < run->entries; i++) {
        const char *text = run->entry[i].text;
        if (strncmp(text, "PATH=", 5)) continue;
        for (const char *p = text + 5; *p && *p != '\n'; p += strcspn(p, ":\n"), p += *p == ':') {
            int n = (int)strcspn(p, ":\n'");
            char path[1200];
            if (*p != '/' || n > 1000 || !strncmp(p, "/.jotun", 7) ||
                (n == 8 && !strncmp(p, "/usr/bin", 8)) || !strncmp(p, "/usr/local/bin", 14) ||
                (n == 4 && !strncmp(p, "/bin", 4)))
                continue;
            for (size_t k = 0; k < COUNT(names); k++) {
                int letters = snprintf(path, sizeof path, "%.*s/%s", n, p, names[k]);
                if (access(path, X_OK) == 0) add_lacking(l, path, (size_t)letters, LACKING_PROGRAM);
            }
        }
    }
}

/* bash's own lines: "run.sh: line 7: /scratch/log/x: No such file or directory". */
static void lacking_folders(Launch *l, const Run *run)
{
    static const char why[] = ": No such file or directory";
    const char *text = run->result.printed.text, *end = text + run->result.printed.bytes;
    for (const char *p = text, *next; p && p < end; p = next) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        next = stop ? stop + 1 : end;
        stop = stop ? stop : end;
        size_t n = sizeof why - 1;
        if ((size_t)(stop - p) < n || memcmp(stop - n, why, n)) continue;
        const char *to = stop - n, *from = to;
        while (from > p && from[-1] != ' ') from--;
        char path[2300];
        int letters = *from == '/'
                          ? snprintf(path, sizeof path, "%.*s", (int)(to - from), from)
                          : snprintf(path, sizeof path, "%s/%.*s", l->folder, (int)(to - from), from);
        if (letters >= 1024 || to == from) continue;
        char *slash = strrchr(path, '/');
        struct stat about;
        if (slash > path && (*slash = 0, stat(path, &about) != 0))
            add_lacking(l, path, strlen(path), LACKING_FOLDER);
    }
}

/* The file by which a script asks whether its run has begun. It is not there, as for the first start. */
static bool is_tracker(const char *path)
{
    const char *leaf = path_leaf(path, strlen(path));
    return !strcmp(leaf, "latest_checkpointed_iteration.txt") || !strcmp(leaf, "latest");
}

/* Files of this machine that readers and tests asked for in vain, outside of the folders handed over. */
static void lacking_files(Launch *l, const Run *run)
{
    static const char *const readers[] = { "cat ", "head ", "tail ", "grep ",   "sed ",
                                           "awk ", "jq ",   "wc ",   "source ", ". ",
                                           "[ ",   "'[' ",  "[[ ",   "test ",   NULL };
    struct stat about;
    for (int i = 0; i < run->entries; i++) {
        const char *text = run->entry[i].text;
        bool reads = false;
        for (const char *const *r = readers; *r; r++) reads |= !strncmp(text, *r, strlen(*r));
        for (const char *p = text; reads && (p = strstr(p, " /"));) {
            size_t n = strcspn(++p, " \t\n'\"");
            char path[1024];
            if (n >= sizeof path) continue;
            snprintf(path, sizeof path, "%.*s", (int)n, p);
            if (is_tracker(path)) {
                add_note(l, source_shown(&l->sources, run->entry[i].file), run->entry[i].line,
                         texts_format(l->texts, "%.300s is not there, as before the first start", path));
                continue;
            }
            if (stat(path, &about) != 0 && !is_below(path, l->folder) && !is_below(path, l->top) &&
                !is_below(path, l->own))
                add_lacking(l, path, n, LACKING_FILE);
        }
    }
}

/* ---- failures ---- */

static bool begins_with_any(const char *text, const char *const *list)
{
    for (; *list; list++) {
        size_t n = strlen(*list);
        if (!strncmp(text, *list, n) && (!text[n] || isspace((unsigned char)text[n]))) return true;
    }
    return false;
}

/* Commands whose failure is an answer, and no fault. */
static bool is_question(const char *command)
{
    static const char *const asks[] = {
        "[", "[[", "test", "grep", "egrep", "fgrep", "false", "let", "read", "command", "which", "type",
        "expr", "diff", "cmp", "kill", "wait", "ls", "stat", "((", "return", "shift", "unset", "hash",
        "trap", "clear", "tput", "wait", NULL
    };
    return begins_with_any(command, asks) || !strncmp(command, "((", 2) || !strncmp(command, "[[", 2);
}

/* The failures of a run: `: JOTUN_FAILED 1 'source missing.sh'`; and exits that a lenient one skipped. */
static int failures(Launch *l, const Run *run, bool tell)
{
    static const char mark[] = ": JOTUN_FAILED ";
    int count = 0;
    for (int i = 0; i < run->entries; i++) {
        const TraceEntry *e = &run->entry[i];
        const char *file = source_shown(&l->sources, e->file);
        if (l->lenient && begins_with_any(e->text, (const char *const[]){ "exit", NULL }) && tell)
            add_note(l, file, e->line,
                     texts_format(l->texts, "%.40s was skipped", printable(l->texts, e->text, 40)));
        if (strncmp(e->text, mark, sizeof mark - 1)) continue;
        const char *code = e->text + sizeof mark - 1, *command = code + strcspn(code, " ");
        command += strspn(command, " '");
        if (is_question(command)) continue;
        count++;
        int letters = (int)strlen(command);
        if (letters && command[letters - 1] == '\'') letters--;
        const char *shown = printable(l->texts, texts_keep(l->texts, command, letters), 200);
        if (tell)
            add_note(
                l, file, e->line,
                texts_format(
                    l->texts,
                    "%s failed here with exit code %.*s and was skipped; what it does or sets is missing",
                    shown, (int)strcspn(code, " "), code));
    }
    return count;
}

/* Lines that bash itself prints: "FILE: line N: TEXT". The text of the first that has `what`, with its line.
 */
static const char *bash_says(Launch *l, const Run *run, const char *what, int *line)
{
    const char *text = run->result.printed.text, *hit = run->result.printed.bytes ? strstr(text, what) : NULL;
    if (!hit) return NULL;
    const char *begin = hit;
    while (begin > text && begin[-1] != '\n') begin--;
    const char *at = strstr(begin, ": line ");
    *line = at && at < hit ? (int)strtol(at + 7, NULL, 10) : 0;
    return printable(l->texts, texts_keep(l->texts, hit, (int64_t)strcspn(hit, "\n")), 300);
}

/* <Specify path> in a line of the script, which bash takes for a redirection. */
static const char *placeholder(Launch *l, int line)
{
    int bytes;
    const char *text = source_line(&l->sources, l->script, line, &bytes),
               *open = memchr(text, '<', (size_t)bytes);
    const char *close = open ? memchr(open, '>', (size_t)(text + bytes - open)) : NULL;
    if (!close) return "";
    const char *shown = printable(l->texts, texts_keep(l->texts, open, close + 1 - open), 100);
    return texts_format(l->texts, "; put a value in the place of %s", shown);
}

static Status fail_without_call(Launch *l)
{
    const Run *run = &l->run[0];
    int line = 0;
    static const char *const ends[] = { "", "it ran longer than its time and was ended",
                                        "it started too many processes and was ended",
                                        "it took too much memory and was ended",
                                        "it wrote too much and was ended" };
    const char *says = bash_says(l, run, "syntax error", &line);
    if (!says) says = bash_says(l, run, "unexpected EOF", &line);
    if (says)
        return fail(BAD_FILE, "%s:%d: bash cannot read it: %s%s", l->in->script, line, says,
                    placeholder(l, line));
    if (run->result.end != END_NORMALLY)
        return fail(BAD_FILE,
                    "%s: bash was started with it, and no program was reached: %s (at most %d s, %d "
                    "processes, %d MiB of memory)",
                    l->in->script, ends[run->result.end], l->in->seconds ? l->in->seconds : SECONDS,
                    RUN_PROCESSES_MOST, RUN_MEMORY_MIB);
    if (run->damaged)
        return fail(BAD_FILE,
                    "%s: the script has written into the records of its run, so that they say nothing",
                    l->in->script);
    failures(l, run, true);
    char why[600] = "";
    for (int i = 0; i < l->out->notes && i < 2; i++)
        message_add(why, sizeof why, "; %.100s:%d: %.150s", l->out->note[i].file, l->out->note[i].line,
                    l->out->note[i].text);
    return fail(
        BAD_FILE,
        "%s: bash runs it%s, and it starts no Python program, such as torchrun pretrain_gpt.py ${ARGS[@]}%s; "
        "give a file that starts one with the arguments it wants, or the arguments alone",
        l->in->script, l->lenient ? ", failures and exits skipped" : "", why);
}

/* ---- the base run ---- */

/* Whether the script submits a job with options, or another script as one: its own lines do not count for that. */
static bool submits_other(const Launch *l, const Run *run)
{
    const char *leaf = path_leaf(l->script, strlen(l->script));
    for (int i = 0; i < run->calls; i++) {
        const CallRecord *c = &run->call[i];
        const char *first = c->words ? c->word[0] : "";
        if (!strcmp(c->name, "sbatch") && strcmp(path_leaf(first, strlen(first)), leaf)) return true;
    }
    return false;
}

/* Strict; with what it missed as long as there is something new; lenient where it reaches no call. */
static Status run_base(Launch *l)
{
    Run *run = &l->run[0];
    for (int pass = 0; pass < 2; pass++) {
        l->lenient = pass;
        for (int again = 0; again <= RERUNS; again++) {
            int before = l->lackings;
            TRY(run_once(l, run, 0, l->lenient));
            lacking_programs(l, run);
            lacking_in_path(l, run);
            lacking_folders(l, run);
            bool submits = l->job_variables && submits_other(l, run);
            if (submits) l->job_variables = 0, set_variables(l);
            if (l->lackings == before && !submits) break;
        }
        if (calls_of(run) || run->result.end != END_NORMALLY) break;
    }
    sources_add(&l->sources, run, l->script, l->in->script, l->folder, l->texts);
    return OK;
}

static bool missed_files(Launch *l)
{
    int line;
    return failures(l, &l->run[0], false) || bash_says(l, &l->run[0], "No such file or directory", &line);
}

/* In the current folder; where that lacks files, in the script's own and at the top of its repository. */
static Status run_where_it_fits(Launch *l)
{
    const char *folders[] = { l->current, l->own, l->top };
    const char *best = l->current;
    int least = INT_MAX;
    for (int i = 0; i < 3; i++) {
        bool same = false;
        for (int k = 0; k < i; k++) same |= !strcmp(folders[i], folders[k]);
        if (same) continue;
        l->folder = folders[i];
        sources_free(&l->sources);
        TRY(run_base(l));
        int missed = !missed_files(l)       ? 0
                     : calls_of(&l->run[0]) ? 1 + failures(l, &l->run[0], false) + 100 * l->lenient
                                            : 10000;
        if (!calls_of(&l->run[0])) missed += 10000;
        if (missed < least) least = missed, best = folders[i];
        if (!missed || l->run[0].result.end != END_NORMALLY) break;
    }
    if (strcmp(l->folder, best)) {
        l->folder = best;
        sources_free(&l->sources);
        TRY(run_base(l));
    }
    if (strcmp(best, l->current) && calls_of(&l->run[0]))
        add_note(l, "", 0,
                 texts_format(l->texts,
                              "it was run in %s, which has files that it misses in the current folder",
                              printable(l->texts, best, 500)));
    return OK;
}

/* ---- comparison ---- */

/* For each word of `a` the index of its equal in `b`, or -1: a longest common subsequence. */
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
        for (int k = columns - 1; k >= 0; k--)
            BEST(i, k) = !strcmp(a[first + i], b[first + k]) ? (short)(BEST(i + 1, k + 1) + 1)
                         : BEST(i + 1, k) > BEST(i, k + 1)   ? BEST(i + 1, k)
                                                             : BEST(i, k + 1);
    for (int i = 0, k = 0; i < rows && k < columns;) {
        if (!strcmp(a[first + i], b[first + k])) out[first + i++] = first + k++;
        else if (BEST(i + 1, k) >= BEST(i, k + 1)) i++;
        else k++;
    }
#undef BEST
    free(best);
}

static const char *in_place_of(Launch *l, const char *text)
{
    return texts_keep(l->texts, text, (int64_t)strlen(text));
}

static bool is_unset_value(const Launch *l, const char *text)
{
    for (int i = 0; i < l->unset.names; i++)
        if (!l->unset.name[i].site && !strcmp(text, unset_value(l, &l->unset.name[i], 1))) return true;
    return false;
}

/* Words that only the other run has, between those that both have. */
static void add_others(Launch *l, LaunchCall *call, const CallRecord *c, const CallRecord *other,
                       const int *match, int from, int other_from, int which)
{
    int words = c->words - from, at = 0, room = call->others;
    for (int k = 0; k < other->words - other_from; k++) {
        const char *text = other->word[other_from + k];
        bool both = false;
        for (int i = 0; i < words && !both; i++)
            if (match[i] == k) both = true, at = i + 1;
        if (both) continue;
        if (which == 1 && at && is_unset_value(l, text) && !*call->word[at - 1].lacks)
            call->word[at - 1].lacks =
                word_cause(&l->sources, &l->run[0], &l->run[which], &l->unset, "", text, l->texts);
        bool changed = at < words && match[at] < 0; /* in the place of a word of ours */
        if (strncmp(text, "--", 2) || changed) continue;
        ARRAY_RESERVE_OR_STOP(call->other, room, call->others + 1);
        call->other[call->others++] = (LaunchWord){ in_place_of(l, text),
                                                    call->file,
                                                    call->line,
                                                    false,
                                                    word_cause(&l->sources, &l->run[which], &l->run[0],
                                                               &l->unset, text, NULL, l->texts),
                                                    in_place_of(l, text),
                                                    "" };
    }
}

static void compare(Launch *l, LaunchCall *call, const CallRecord *c, int from, int which, int k)
{
    const CallRecord *other = call_like(&l->run[which], call->program, k);
    if (!other) return;
    int other_from = program_word(other) + 1, words = c->words - from;
    int *match = malloc(((size_t)words + 1) * sizeof *match);
    CHECK(match, "no memory to compare %d words", words);
    match_words(match, c->word + from, words, other->word + other_from, other->words - other_from);
    for (int i = 0; i < words; i++) {
        if (match[i] >= 0) continue;
        int next = i + 1;
        while (next < words && match[next] < 0) next++;
        int before = i ? match[i - 1] : -1, after = next < words ? match[next] : other->words - other_from;
        bool one = (i == 0 || match[i - 1] >= 0) && next == i + 1 && after - before == 2;
        const char *changed = one ? other->word[other_from + before + 1] : NULL;
        LaunchWord *w = &call->word[i];
        if (changed && which == 1) w->unset = in_place_of(l, changed);
        if (w->agreed)
            w->decided_by =
                word_cause(&l->sources, &l->run[0], &l->run[which], &l->unset, w->text, changed, l->texts);
        w->agreed = false;
    }
    add_others(l, call, c, other, match, from, other_from, which);
    free(match);
}

/* ---- the record ---- */

static void add_words(Launch *l, LaunchWord *out, const CallRecord *c, int from, int count, LaunchCall *call)
{
    for (int i = 0; i < count; i++) {
        const char *text = c->word[from + i], *value = from + i + 1 < c->words ? c->word[from + i + 1] : NULL;
        Place place = { call->file, call->line };
        if (text[0] == '-' && text[1] == '-') {
            Place written = word_place(&l->sources, &l->run[0], c->traced, text,
                                       value && strncmp(value, "--", 2) ? value : NULL);
            if (*written.file) place = written;
        } else if (i) place = (Place){ out[i - 1].file, out[i - 1].line };
        out[i] = (LaunchWord){ text, place.file, place.line, true, "", text, "" };
    }
}

static void find_lacks(Launch *l, LaunchCall *call)
{
    for (int i = 0; i < call->words; i++) {
        LaunchWord *w = &call->word[i];
        bool bare =
            !strncmp(w->text, "--", 2) && (i + 1 == call->words || !strncmp(call->word[i + 1].text, "--", 2));
        if (bare && !*w->lacks)
            w->lacks = word_lacks(&l->sources, &l->run[0], (Place){ w->file, w->line }, w->text, l->texts);
    }
}

/* Calls of wrappers that led to this one: in the same process, or in one above it. */
static int launcher_words(LaunchWord *out, Launch *l, const CallRecord *c, int program, LaunchCall *call)
{
    int n = 0;
    for (const CallRecord *w = l->run[0].call; w <= c; w++) {
        bool leads = w == c;
        for (int i = 0; i < c->pids && !leads; i++)
            leads = w->pids && w->pid[0] == c->pid[i] && program_word(w) < 0;
        int words = w == c ? program : w->words;
        if (!leads) continue;
        for (int i = -1; i < words; i++) {
            const char *text = i < 0 ? w->name : w->word[i];
            bool next = w < c && (strchr(text, ' ') || strchr(text, '\n') ||
                                  !strcmp(path_leaf(text, strlen(text)), (w + 1)->name));
            if (i >= 0 && next) break; /* from there on they are the next one's */
            if (out) out[n] = (LaunchWord){ text, call->file, call->line, true, "", text, "" };
            n++;
        }
    }
    return n;
}

/* The file at this place of the call: its name may depend on the machine, too. */
static void compare_file(Launch *l, LaunchFile *f, const char *program, int k, int place)
{
    for (int which = 1; which < 3; which++) {
        const CallRecord *other = call_like(&l->run[which], program, k);
        for (int i = place; f->agreed && other && i < other->files; i = other->files) {
            if (!strcmp(other->file[i].text, f->text)) continue;
            f->agreed = false;
            f->decided_by =
                word_cause(&l->sources, &l->run[0], &l->run[which], &l->unset, f->path, NULL, l->texts);
        }
    }
}

static void add_call(Launch *l, const CallRecord *c, int program, int k)
{
    LaunchCall *call = &l->out->call[l->out->calls++];
    Place place = call_place(&l->sources, &l->run[0], c);
    *call = (LaunchCall){ .program = c->word[program],
                          .folder = c->folder,
                          .file = place.file,
                          .line = place.line,
                          .words = c->words - program - 1,
                          .files = c->files };
    call->launchers = launcher_words(NULL, l, c, program, call);
    call->word = calloc((size_t)call->words + 1, sizeof *call->word);
    call->launcher = calloc((size_t)call->launchers + 1, sizeof *call->launcher);
    call->made = calloc((size_t)call->files + 1, sizeof *call->made);
    CHECK(call->word && call->launcher && call->made, "no memory for a call of %s", call->program);
    add_words(l, call->word, c, program + 1, call->words, call);
    launcher_words(call->launcher, l, c, program, call);
    for (int which = 1; which < 3; which++) compare(l, call, c, program + 1, which, k);
    find_lacks(l, call);
    for (int i = 0; i < c->files; i++) {
        Place made = file_place(&l->sources, &l->run[0], c->file[i].path);
        call->made[i] = (LaunchFile){ c->file[i].path, c->file[i].text, made.file, made.line, true, "" };
        compare_file(l, &call->made[i], call->program, k, i);
    }
}

static void add_calls(Launch *l)
{
    const Run *run = &l->run[0];
    l->out->call = calloc((size_t)calls_of(run) + 1, sizeof *l->out->call);
    CHECK(l->out->call, "no memory for %d calls", calls_of(run));
    for (int i = 0; i < run->calls; i++) {
        int program = program_word(&run->call[i]), k = 0;
        if (program < 0) continue;
        for (int e = 0; e < i; e++) {
            int p = program_word(&run->call[e]);
            k += p >= 0 && !strcmp(run->call[e].word[p], run->call[i].word[program]);
        }
        add_call(l, &run->call[i], program, k);
    }
}

/* A variable that the caller has set, and the script does not see, would have changed it. */
static void note_environment(Launch *l)
{
    for (char **v = environ; v && *v; v++) {
        char name[128];
        size_t n = strcspn(*v, "=");
        if (n >= sizeof name || is_set(l->variable, l->variables, *v)) continue;
        snprintf(name, sizeof name, "%.*s", (int)n, *v);
        if (sources_read(&l->sources, name))
            add_note(l, "", 0,
                     texts_format(
                         l->texts,
                         "%s is set in the environment, and the script, which reads it, is run without it; "
                         "give %s=VALUE before the script's name if it counts",
                         name, name));
    }
}

/* Each line that reports a refused write, as it was printed. */
static void note_refusals(Launch *l, const Run *run)
{
    const char *text = run->result.printed.text, *end = text + run->result.printed.bytes;
    for (int notes = 0; text && text < end && notes < REFUSALS_MOST;) {
        size_t      n    = strcspn(text, "\n");
        const char *line = printable(l->texts, texts_keep(l->texts, text, (int64_t)n), 300);
        text += n + 1;
        if (!strstr(line, "Read-only file system") && !strstr(line, "Permission denied")) continue;
        line = texts_format(l->texts, "refused, since nothing outside may change: %s", line);
        add_note(l, "", 0, line), notes++;
    }
}

static void note_job(Launch *l)
{
    for (int i = 0; i < l->job_variables; i++) {
        const char *text = l->job[i].assignment;
        int name = (int)strcspn(text, "=");
        if (sources_name(&l->sources, texts_keep(l->texts, text, name)))
            add_note(l, l->in->script, l->job[i].line,
                     texts_format(l->texts,
                                  "%.*s is %s by this line of #SBATCH; where sbatch itself is given another "
                                  "value, give %.*s=VALUE before the script's name",
                                  name, text, printable(l->texts, text + name + 1, 100), name, text));
    }
}

static void note_run(Launch *l)
{
    Run *run = &l->run[0];
    note_job(l);
    if (*run->result.note) add_note(l, "", 0, printable(l->texts, run->result.note, 500));
    failures(l, run, true);
    int line = 0;
    const char *says = bash_says(l, run, "syntax error", &line);
    if (says) add_note(l, l->in->script, line, texts_format(l->texts, "bash reads it up to here: %s", says));
    note_refusals(l, run);
    if (run->result.end != END_NORMALLY)
        add_note(l, "", 0,
                 "it was ended at a limit of time, processes, memory or disk; what it does after these calls "
                 "is not known");
    if (run->damaged)
        add_note(l, "", 0,
                 "the script has written into the records of its run; what follows there is not read");
    note_environment(l);
}

/* ---- a script ---- */

static Status find_programs(Launch *l)
{
    static const char *const places[] = { "/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash" };
    for (size_t i = 0; i < COUNT(places) && !l->bash; i++)
        if (access(places[i], X_OK) == 0) l->bash = places[i];
    if (!l->bash)
        return fail(BAD_OPTION, "%s is a script, and no bash is installed here (looked for %s) to read it",
                    l->in->script, places[0]);
    const char *recorder = l->in->recorder ? l->in->recorder : "/proc/self/exe";
    if (!realpath(recorder, l->recorder))
        return fail(BAD_OPTION, "%s cannot be found: %s", recorder, strerror(errno));
    return OK;
}

static Status find_folders(Launch *l)
{
    if (!realpath(l->in->script, l->script)) return fail(BAD_FILE, "%s: %s", l->in->script, strerror(errno));
    if (!getcwd(l->current, sizeof l->current))
        return fail(BAD_FILE, "the current folder cannot be named: %s", strerror(errno));
    snprintf(l->own, sizeof l->own, "%s", l->script);
    char *slash = strrchr(l->own, '/');
    if (slash == l->own) slash++;
    *slash = 0;
    find_top(l->top, l->own);
    return OK;
}

/* *list: the file was a list of arguments, and is read. */
static Status read_file(Launch *l, bool *list)
{
    FileMap map;
    const char *path = l->in->script;
    TRY(file_map(&map, path));
    const char *text = (const char *)map.data, *end = text + map.size;
    Status status = map.size > 1 << 20
                        ? fail(BAD_FILE, "%s: it has %zu bytes; a script has at most 1 MiB", path, map.size)
                    : memchr(text, 0, map.size) ? fail(BAD_FILE, "%s: it is no text: byte 0", path)
                                                : OK;
    *list = status == OK && launch_is_list(text, end);
    if (*list) {
        l->out->call = calloc(1, sizeof *l->out->call);
        CHECK(l->out->call, "no memory for %s", path);
        l->out->calls = 1;
        status = argument_list_read(l->out->call, l->texts, path, text, end);
    } else if (status == OK) {
        JobVariable job[SLURM_VARIABLES];
        int count = slurm_variables(job, texts_keep(l->texts, text, (int64_t)map.size), l->texts);
        for (int i = 0; i < count; i++)
            if (!is_set(l->in->variable, l->in->variables, job[i].assignment))
                l->job[l->job_variables++] = job[i];
        set_variables(l);
    }
    file_unmap(&map);
    return status;
}

/* What a script left that a person has run with the recorders of launch_offer: one run, of a machine that has
 * what it asks for, so that all is agreed. */
static Status read_own_run(Launch *l)
{
    Run *run = &l->run[0];
    const char *name[] = { "calls", "trace" }, *script = NULL;
    Buffer *part[] = { &run->result.calls, &run->result.trace };
    for (int i = 0; i < 2; i++) {
        FileMap map;
        char path[1024];
        TRY(path_join(path, l->in->script, name[i]));
        TRY(file_map(&map, path));
        Status status =
            map.size > RUN_FILE_BYTES
                ? fail(BAD_FILE, "%s: it has %zu bytes; a record has at most 32 MiB", path, map.size)
                : buffer_add(part[i], map.data, (int64_t)map.size);
        file_unmap(&map);
        TRY(status);
        if (!buffer_string(part[i])) return fail(NO_MEMORY, "no memory for %s", path);
    }
    run_read(run, l->texts);
    for (int i = 0; i < run->entries && !script; i++)
        if (*run->entry[i].file) script = run->entry[i].file;
    l->folder = run->calls ? run->call[0].folder : "";
    if (script) sources_add(&l->sources, run, script, script, l->folder, l->texts);
    if (!calls_of(run))
        return fail(BAD_FILE, "%s: no Python program was started, or not with the recorders before PATH",
                    l->in->script);
    add_calls(l);
    failures(l, run, true);
    return OK;
}

static Status run_all(Launch *l)
{
    bool list;
    struct stat about;
    if (stat(l->in->script, &about) == 0 && S_ISDIR(about.st_mode)) return read_own_run(l);
    TRY(read_file(l, &list));
    if (list) return OK;
    TRY(find_programs(l));
    TRY(find_folders(l));
    TRY(run_where_it_fits(l));
    if (!calls_of(&l->run[0])) return fail_without_call(l);
    lacking_files(l, &l->run[0]);
    unset_names(&l->unset, &l->sources, l->variable, l->variables, l->texts);
    for (const char *const *s = site; *s; s++) {
        const char *name = texts_keep(l->texts, *s, (int64_t)strcspn(*s, "="));
        if (!is_set(l->variable, l->variables, *s))
            unset_names_add_site(&l->unset, &l->sources, name, l->texts);
    }
    for (int which = 1; which < 3; which++) {
        TRY(run_once(l, &l->run[which], which, l->lenient));
        l->numbers = !calls_of(&l->run[which]);         /* $((N * 2)), where N is the name of a variable */
        if (l->numbers) TRY(run_once(l, &l->run[which], which, l->lenient));
        if (!calls_of(&l->run[which]) && !l->lenient) TRY(run_once(l, &l->run[which], which, true));
        if (!calls_of(&l->run[which]))
            add_note(l, "", 0,
                     "with other answers of what this machine lacks it starts no program, so that its words "
                     "were compared with fewer runs");
    }
    add_calls(l);
    note_run(l);
    return OK;
}

typedef struct {
    Texts texts;
    Run run[3];
    int note_room;
} Kept;

Status launch_record(LaunchRecord *out, const LaunchInput *in)
{
    *out = (LaunchRecord){ .path = in->script };
    Kept *kept = calloc(1, sizeof *kept);
    Launch *l = calloc(1, sizeof *l);
    CHECK(kept && l, "no memory for a run of %s", in->script);
    out->texts = kept;
    l->in = in, l->out = out, l->texts = &kept->texts, l->note_room = &kept->note_room, l->way = in->way;
    Status status = run_all(l);
    out->way = l->way == LAUNCH_LANDLOCK     ? "Landlock"
               : l->way == LAUNCH_NAMESPACES ? "namespaces"
                                             : "its own run";
    memcpy(kept->run, l->run, sizeof l->run); /* the words are in their texts */
    sources_free(&l->sources);
    free(l->unset.name);
    free(l);
    return status;
}

Status launch_offer(char *out, size_t size, const char *folder, const char *recorder)
{
    char program[PATH_MAX], at[PATH_MAX];
    RunInput in = { .answers = 0 };
    if (file_exists(folder))
        return fail(BAD_FILE, "%s already exists; name a new folder for the recorders", folder);
    TRY(folder_make(folder));
    if (!realpath(folder, at) || !realpath(recorder ? recorder : "/proc/self/exe", program))
        return fail(BAD_FILE, "%s: %s", folder, strerror(errno));
    TRY(run_folder_make(at, at, program, &in));
    snprintf(out, size, "PATH=%s/bin:$PATH BASH_ENV=%s/prelude bash", at, at);
    return OK;
}

void launch_close(LaunchRecord *r)
{
    Kept *kept = r->texts;
    for (int i = 0; i < r->calls; i++)
        free(r->call[i].word), free(r->call[i].launcher), free(r->call[i].other), free(r->call[i].made);
    free(r->call);
    free(r->note);
    for (int i = 0; kept && i < 3; i++) run_close(&kept->run[i]);
    if (kept) texts_free(&kept->texts);
    free(kept);
    *r = (LaunchRecord){ 0 };
}
