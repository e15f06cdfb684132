/* What machine train_aGPT_7B.sh would find: a job of PBS or Slurm, a file of hosts, GPUs. */
#include "compat/alcf/agpt_machine.h"
#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/message.h"

/* ---- whose machine it is ---- */

static const struct {
    const char *name, *hosts;
} machines[] = {
#define MACHINE(name, hosts, ...) {name, hosts},
#include "compat/dialects.def"
};
enum { MACHINES = COUNT(machines) };

static bool begins_with_one(const char *host, const char *beginnings)
{
    for (const char *a = beginnings; *a; a += strcspn(a, " "), a += *a == ' ')
        if (!strncmp(host, a, strcspn(a, " "))) return true;
    return false;
}

/* MACHINE names one of them for a plan made elsewhere. Hosts of Sirius have the names of Polaris's, and the
 * host that submitted the job tells them apart. */
static const char *machine_name(void)
{
    char        host[256] = "";
    const char *named = getenv("MACHINE"), *submitted = getenv("PBS_O_HOST");
    if (gethostname(host, sizeof host - 1)) host[0] = 0;
    for (int i = 0; named && i < MACHINES; i++)
        if (!strcasecmp(machines[i].name, named)) return machines[i].name;
    if (begins_with_one(host, "x3") && submitted && begins_with_one(submitted, "sirius")) return "sirius";
    for (int i = 0; i < MACHINES; i++)
        if (begins_with_one(host, machines[i].hosts)) return machines[i].name;
    return "";
}

/* MACHINE without choices of its own would change nothing. */
static Status judge_machine(void)
{
    char        known[256] = "";
    const char *named = getenv("MACHINE");
    if (!named || !*named) return OK;
    for (int i = 0; i < MACHINES; i++) {
        if (!strcasecmp(machines[i].name, named)) return OK;
        message_item(known, sizeof known, ", ", "%s", machines[i].name);
    }
    return fail(BAD_OPTION, "MACHINE=%s has no choices of its own in train_aGPT_7B.sh; these have: %s; give "
                "one of them, or unset it", named, known);
}

/* ---- hosts ---- */

static bool seen_before(char *const *host, int count, const char *name, size_t letters)
{
    for (int i = 0; i < count; i++)
        if (!strncmp(host[i], name, letters) && !host[i][letters]) return true;
    return false;
}

/* A host that has a line for each of its ranks counts once. */
static Status count_hosts(int *hosts, const char *name)
{
    enum { HOSTS_MAX = 65536 };
    FileMap     map;
    Status      status = OK;
    const char *path   = getenv(name);
    char      **host   = calloc(HOSTS_MAX, sizeof *host);
    *hosts             = 0;
    if (!host) return fail(NO_MEMORY, "no memory for the hosts of %s", path);
    if (file_map(&map, path) != OK) {
        free(host);
        return fail(BAD_FILE, "%s=%s cannot be read; give a file with a host on each line, or unset it", name,
                    path);
    }
    const char *text = (const char *)map.data, *end = text + map.size;
    for (const char *line = text; line < end && *hosts < HOSTS_MAX;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        if (!next) next = end;
        while (line < next && isspace((unsigned char)*line)) line++;
        size_t letters = 0;
        while (line + letters < next && !isspace((unsigned char)line[letters])) letters++;
        if (letters && !seen_before(host, *hosts, line, letters)) host[(*hosts)++] = strndup(line, letters);
        line = next + 1;
    }
    if (!*hosts)
        status = fail(BAD_FILE, "%s=%s names no host; write one on each line, or unset it", name, path);
    for (int i = 0; i < *hosts; i++) free(host[i]);
    free(host);
    file_unmap(&map);
    return status;
}

static const char *first_set(const char *const *names)
{
    for (; *names; names++)
        if (getenv(*names) && *getenv(*names)) return *names;
    return NULL;
}

static int found_gpus(void)
{
    glob_t found;
    int    count = 0;
    if (glob("/proc/driver/nvidia/gpus/*", 0, NULL, &found) == 0) {
        count = (int)found.gl_pathc;
        globfree(&found);
    }
    return count;
}

static Status whole_number(int *value, const char *name)
{
    char       *end;
    const char *text = getenv(name);
    long        n    = strtol(text, &end, 10);
    if (*end || end == text || n < 1 || n > 65536)
        return fail(BAD_OPTION, "%s=%s is no number from 1 to 65536; give one, or unset it", name, text);
    *value = (int)n;
    return OK;
}

Status agpt_machine(AgptMachine *m)
{
    static const char *const pbs[]   = {"PBS_JOBID", NULL};
    static const char *const slurm[] = {"SLURM_JOB_ID", "SLURM_JOBID", NULL};
    static const char *const files[] = {"HOSTFILE", "PBS_NODEFILE", NULL};
    static const char *const nodes[] = {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", NULL};
    static const char *const ranks[] = {"NGPU_PER_HOST",         "LOCAL_WORLD_SIZE",   "PMI_LOCAL_SIZE",
                                        "SLURM_NTASKS_PER_NODE", "SLURM_GPUS_ON_NODE", NULL};
    const char              *name;
    TRY(judge_machine());
    *m = (AgptMachine){.hosts = 1, .gpus = found_gpus()};
    snprintf(m->name, sizeof m->name, "%s", machine_name());
    if ((name = first_set(pbs))) snprintf(m->job, sizeof m->job, "PBS job %s", getenv(name));
    else if ((name = first_set(slurm))) snprintf(m->job, sizeof m->job, "Slurm job %s", getenv(name));
    if ((name = first_set(files))) {
        snprintf(m->hostfile, sizeof m->hostfile, "%s", getenv(name));
        TRY(count_hosts(&m->hosts, name));
    } else if ((name = first_set(nodes))) TRY(whole_number(&m->hosts, name));
    if ((name = first_set(ranks))) return whole_number(&m->per_host, name);
    bool tiles  = !strcmp(m->name, "aurora") || !strcmp(m->name, "sunspot");
    m->per_host = tiles ? 12 : m->gpus; /* six GPUs of two tiles each */
    return OK;
}
