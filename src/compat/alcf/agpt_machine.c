/* What machine train_aGPT_7B.sh would find: a job of PBS or Slurm, a file of hosts, GPUs; and ranks on the
 * hosts of a job. */
#include "compat/alcf/agpt.h"
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "base/array.h"
#include "base/log.h"
#include "base/message.h"
#include "base/team.h"
#include "compat/dialects.h"
#include "conf/value.h"

/* ---- whose machine it is ---- */

static const struct { const char *name, *hosts; } machines[] = {       /* hosts: how their names begin */
    { "aurora", "x4 aurora" },
    { "sunspot", "x1 uan" },
    { "polaris", "x3 polaris" },
    { "sirius", "sirius" },
    { "sophia", "sophia" },
    { "perlmutter", "nid login" },
};
enum { MACHINES = COUNT(machines) };

static bool begins_with_one(const char *host, const char *beginnings)
{
    char one[32];
    while (name_next(one, sizeof one, &beginnings))
        if (!strncmp(host, one, strlen(one))) return true;
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

/* A host that has a line for each of its ranks counts once. */
static Status count_hosts(int *hosts, const char *name)
{
    const char *path = getenv(name);
    char       *line = NULL, *rest;
    size_t      room = 0;
    TextList    host = { 0 };
    FILE       *in   = fopen(path, "r");
    while (in && getline(&line, &room, in) >= 0) {
        char *word = strtok_r(line, " \t\r\n\v\f", &rest);
        int   i    = 0;
        while (word && i < host.count && strcmp(host.text[i], word)) i++;
        if (!word || i < host.count) continue;
        text_list_add(&host, strdup(word));
        CHECK(host.text[i], "no memory for the hosts of %s", path);
    }
    bool read = in && !ferror(in);
    *hosts = host.count;
    for (int i = 0; i < host.count; i++) free((char *)(uintptr_t)host.text[i]);
    free(host.text);
    free(line);
    if (in) fclose(in);
    if (!read)
        return fail(BAD_FILE, "%s=%s cannot be read; give a file with a host on each line, or unset it", name,
                    path);
    if (*hosts) return OK;
    return fail(BAD_FILE, "%s=%s names no host; write one on each line, or unset it", name, path);
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

/* ---- ranks on its hosts ---- */

enum { WORD = 1200, OWN_WORDS = 16 };

void agpt_tell(const Options *o, const AgptMachine *m, const char *launcher)
{
    char gpus[64] = "no GPU", each[64] = "";
    if (m->gpus) snprintf(gpus, sizeof gpus, "%d GPU%s", m->gpus, m->gpus == 1 ? "" : "s");
    if (m->per_host) snprintf(each, sizeof each, ", %d ranks of each", m->per_host);
    long long ranks = (long long)o->ranks,
              unit  = (long long)(o->tensor_parallel * o->pipeline_parallel * o->context_parallel);
    log_line("found %s%s%s; %d host%s%s%s%s; here %s and %d CPU core%s: %lld rank%s = TP %lld x PP %lld x SP "
             "%lld x %lld "
             "data-parallel; started by %s",
             *m->job ? m->job : "no job of PBS or Slurm", *m->name ? " on " : "", m->name, m->hosts,
             m->hosts == 1 ? "" : "s", *m->hostfile ? " of " : "", m->hostfile, each, gpus, team_cores(),
             team_cores() == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s", (long long)o->tensor_parallel,
             (long long)o->pipeline_parallel, (long long)o->context_parallel, ranks / unit,
             launcher             ? launcher
             : m->hosts > 1       ? "mpiexec or srun, now"
                                  : "threads");
}

/* Open MPI's mpiexec places ranks and takes a file of hosts by other options than MPICH's and PALS's. */
static bool is_open_mpi(void)
{
    char  line[256] = "";
    FILE *out       = popen("mpiexec --version 2>/dev/null", "r");
    if (!out) return false;
    bool open = fgets(line, sizeof line, out) && (strstr(line, "Open MPI") || strstr(line, "OpenRTE"));
    pclose(out);
    return open;
}

/* Variables go along as words, because not every launcher hands the environment to other hosts. */
static int add_variables(char **command, int count)
{
    for (char **variable = environ; *variable; variable++) {
        char        name[128];
        const char *right;
        bool        certain;
        size_t      letters = strcspn(*variable, "=");
        if (letters >= sizeof name || !(*variable)[letters] || !(*variable)[letters + 1]) continue;
        snprintf(name, sizeof name, "%.*s", (int)letters, *variable);
        if (agpt_variable(name, &right, &certain)) command[count++] = *variable;
    }
    return count;
}

static int add(char **command, int count, const char *word)
{
    command[count] = strdup(word);
    CHECK(command[count], "no memory for a command");
    return count + 1;
}

/* mpiexec -n 24 --ppn 12 --hostfile FILE, or the same of Open MPI or Slurm */
static int add_launcher(char **command, const Options *o, const AgptMachine *m)
{
    char ranks[32], each[64], hosts[32];
    int  count = 0;
    bool slurm = !strncmp(m->job, "Slurm", 5) && !*m->hostfile, open = !slurm && is_open_mpi();
    snprintf(ranks, sizeof ranks, "%lld", (long long)o->ranks);
    snprintf(each, sizeof each, open ? "ppr:%lld:node" : "%lld", (long long)o->ranks / m->hosts);
    snprintf(hosts, sizeof hosts, "%d", m->hosts);
    count = add(command, count, slurm ? "srun" : "mpiexec");
    if (slurm) count = add(command, add(command, count, "-N"), hosts);
    count = add(command, add(command, count, "-n"), ranks);
    count = add(command,
                add(command, count,
                    slurm  ? "--ntasks-per-node"
                    : open ? "--map-by"
                           : "--ppn"),
                each);
    if (!slurm) count = add(command, add(command, count, "--hostfile"), m->hostfile);
    return count;
}

Status agpt_start_ranks(const Options *o, const AgptMachine *m, int argc, char **argv)
{
    char self[WORD] = "";
    if (m->hosts == 1) return OK;
    if (o->ranks % m->hosts)
        return fail(BAD_OPTION,
                    "%lld ranks do not divide over the %d hosts%s%s; give WORLD_SIZE as a multiple of %d, or "
                    "NGPU_PER_HOST",
                    (long long)o->ranks, m->hosts, *m->hostfile ? " of " : "", m->hostfile, m->hosts);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return fail(IO_FAILED, "the path of jotun is not known: %s", strerror(errno));
    size_t variables = 0;
    while (environ[variables]) variables++;
    char **command = calloc((size_t)argc + variables + OWN_WORDS, sizeof *command), line[900] = "";
    CHECK(command, "no memory for a command");
    int count = add_launcher(command, o, m);
    count     = add(command, add(command, count, self), "agpt");
    for (int i = 0; i < count; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", i ? " " : "", command[i]);
    count = add_variables(command, count);
    for (int i = 0; i < argc; i++) command[count++] = argv[i];
    log_line("starts the ranks: %s, and the variables", line);
    execvp(command[0], command);
    Status status =
        fail(BAD_OPTION, "%s cannot be started (%s); load the module of its MPI, or start the ranks by: %s",
             command[0], strerror(errno), line);
    free(command);
    return status;
}
