/* What Slurm puts into the environment of a job whose script has lines of #SBATCH, as far as they say it:
 *
 *     #SBATCH --nodes=4 --gres=gpu:8               SLURM_NNODES=4 SLURM_JOB_NUM_NODES=4 SLURM_GPUS_ON_NODE=8
 *     #SBATCH -J gpt    --ntasks-per-node=2        SLURM_JOB_NAME=gpt SLURM_NTASKS_PER_NODE=2 SLURM_NTASKS=8
 *
 * The source is the section OUTPUT ENVIRONMENT VARIABLES of sbatch(1). Numbers of the job, names of hosts and
 * what a site's defaults decide are not known, nor ranges (--nodes=2-4) and what a site fills in. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "compat/bash/trace.h"

enum { NODES, TASKS, TASKS_PER_NODE, CPUS_PER_TASK, GPUS, GPUS_PER_NODE, GPUS_PER_TASK, GRES, OPTIONS = 12 };
typedef enum { A_NUMBER, A_NAME, A_COUNT } Kind; /* of a count: 8 or mi250:8 */

static const struct {
    const char *name;
    char letter;
    Kind kind;
    const char *variable[2]; /* that have its value */
} options[OPTIONS] = {
    [NODES] = { "nodes", 'N', A_NUMBER, { "SLURM_NNODES", "SLURM_JOB_NUM_NODES" } },
    [TASKS] = { "ntasks", 'n', A_NUMBER, { "SLURM_NTASKS", "SLURM_NPROCS" } },
    [TASKS_PER_NODE] = { "ntasks-per-node", 0, A_NUMBER, { "SLURM_NTASKS_PER_NODE" } },
    [CPUS_PER_TASK] = { "cpus-per-task", 'c', A_NUMBER, { "SLURM_CPUS_PER_TASK" } },
    [GPUS] = { "gpus", 'G', A_COUNT, { "SLURM_GPUS" } },
    [GPUS_PER_NODE] = { "gpus-per-node", 0, A_COUNT, { "SLURM_GPUS_PER_NODE" } },
    [GPUS_PER_TASK] = { "gpus-per-task", 0, A_COUNT, { "SLURM_GPUS_PER_TASK" } },
    [GRES] = { "gres", 0, A_NAME, { NULL } },
    { "job-name", 'J', A_NAME, { "SLURM_JOB_NAME" } },
    { "partition", 'p', A_NAME, { "SLURM_JOB_PARTITION" } },
    { "account", 'A', A_NAME, { "SLURM_JOB_ACCOUNT" } },
    { "qos", 'q', A_NAME, { "SLURM_JOB_QOS" } },
};

/* What the lines ask for, or the caller's variables say: texts, "" where they are not known, and lines. */
typedef struct {
    char text[OPTIONS][128];
    bool asked[OPTIONS];
    int line[OPTIONS];
} Requests;

/* The next word, without its quotation marks; false: the line has no more, or a comment. */
static bool next_word(char out[128], const char **p)
{
    size_t n = 0;
    while (**p && isspace((unsigned char)**p) && **p != '\n') ++*p;
    if (!**p || **p == '\n' || **p == '#') return false;
    for (char quote = 0; **p && **p != '\n' && (quote || !isspace((unsigned char)**p)); ++*p)
        if (**p == quote) quote = 0;
        else if (!quote && strchr("\"'", **p)) quote = **p;
        else if (n < 127) out[n++] = **p;
    out[n < 127 ? n : 0] = 0; /* a longer word is none of ours */
    return true;
}

/* Which option a word names, and where its value begins in the word; NULL: it is the next word. -1: none. */
static int find_option(const char *word, const char **value)
{
    for (int i = 0; i < OPTIONS; i++) {
        size_t letters = strlen(options[i].name);
        bool whole = !strncmp(word, "--", 2) && !strncmp(word + 2, options[i].name, letters) &&
                     (!word[2 + letters] || word[2 + letters] == '=');
        if (!whole && (word[0] != '-' || !options[i].letter || word[1] != options[i].letter)) continue;
        *value = word + (whole ? 2 + letters + (word[2 + letters] == '=') : 2);
        if (!**value) *value = NULL;
        return i;
    }
    return -1;
}

/* The number at the end of "8" or "mi250:8"; 0: it has none. */
static long count_of(const char *text)
{
    const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
    size_t n = strspn(digits, "0123456789");
    return n && n < 8 && !digits[n] ? strtol(digits, NULL, 10) : 0;
}

/* A site's placeholder, a list of partitions or a range has no value that is known here. */
static bool is_known(int option, const char *text)
{
    if (options[option].kind == A_NAME) return !strpbrk(text, option == GRES ? "$<>%" : "$<>,");
    return count_of(text) > 0 && !strpbrk(text, options[option].kind == A_COUNT ? "," : ":");
}

static void ask(Requests *r, int option, const char *value, int line)
{
    char *text = r->text[option];
    snprintf(text, sizeof r->text[option], "%s", is_known(option, value) ? value : "");
    if (*text && options[option].kind == A_NUMBER) snprintf(text, 16, "%ld", count_of(value)); /* 04 */
    r->asked[option] = true, r->line[option] = line;
}

/* What the caller gives holds for what follows from it, too. */
static void take_given(Requests *r, const char *const *variable, int variables)
{
    for (int v = 0; v < variables; v++)
        for (int i = 0; i < 2 * OPTIONS; i++) {
            const char *name = options[i / 2].variable[i % 2], *value = strchr(variable[v], '=') + 1;
            size_t n = name ? strlen(name) : 0;
            if (n && !strncmp(variable[v], name, n) && value == variable[v] + n + 1) ask(r, i / 2, value, 0);
        }
}

/* sbatch reads such lines only before the first command; the last one for an option counts. False: there
 * are none, or the job has several parts, each with variables of its own. */
static bool read_lines(Requests *r, const char *text)
{
    char word[128], next[128];
    bool any = false;
    for (int line = 1; *text; line++, text += strcspn(text, "\n"), text += *text == '\n') {
        const char *p = text + strspn(text, " \t\r");
        if (*p && *p != '\n' && *p != '#') break;
        if (strncmp(text, "#SBATCH", 7) || !isspace((unsigned char)text[7])) continue;
        for (p = text + 7; next_word(word, &p);) {
            const char *value = NULL;
            if (!strcmp(word, "hetjob") || !strcmp(word, "packjob")) return false;
            int option = find_option(word, &value);
            if (option < 0) continue;
            if (!value && !next_word(next, &p)) continue;
            ask(r, option, value ? value : next, line);
            any = true;
        }
    }
    return any;
}

/* GPUs of a node: by --gpus-per-node, gpu:N in --gres, or those of its tasks. *option: which of them. */
static long gpus_on_node(int *option, const Requests *r)
{
    long gpus = 0;
    *option = GPUS_PER_NODE;
    if (r->asked[GPUS_PER_NODE]) return count_of(r->text[GPUS_PER_NODE]);
    *option = GRES;
    for (const char *p = r->text[GRES]; *p; p += strcspn(p, ","), p += *p == ',') {
        char part[128];
        snprintf(part, sizeof part, "%.*s", (int)strcspn(p, ","), p);
        if (strncmp(part, "gpu", 3) || (part[3] && part[3] != ':')) continue;
        if (part[3] && !count_of(part)) return 0;
        gpus += part[3] ? count_of(part) : 1;
    }
    if (gpus) return gpus;
    *option = GPUS_PER_TASK;
    return count_of(r->text[GPUS_PER_TASK]) * count_of(r->text[TASKS_PER_NODE]);
}

int slurm_variables(JobVariable out[SLURM_VARIABLES], const char *text, const char *const *variable,
                    int variables, Texts *texts)
{
    Requests r = { 0 };
    int n = 0, option;
    if (!read_lines(&r, text)) return 0;
    take_given(&r, variable, variables);
    for (int i = 0; i < OPTIONS; i++)
        for (int k = 0; k < 2 && options[i].variable[k] && r.text[i][0]; k++)
            out[n++] = (JobVariable){ texts_format(texts, "%s=%s", options[i].variable[k], r.text[i]),
                                      r.line[i] };
    long tasks = count_of(r.text[NODES]) * count_of(r.text[TASKS_PER_NODE]), gpus = gpus_on_node(&option, &r);
    for (int k = 0; k < 2 && tasks && !r.asked[TASKS]; k++)
        out[n++] = (JobVariable){ texts_format(texts, "%s=%ld", options[TASKS].variable[k], tasks),
                                  r.line[TASKS_PER_NODE] };
    if (gpus)
        out[n++] = (JobVariable){ texts_format(texts, "SLURM_GPUS_ON_NODE=%ld", gpus), r.line[option] };
    return n;
}
