/* Ranks on the hosts of a job, and a line that says what was found. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/team.h"
#include "compat/alcf/agpt_start.h"

extern char **environ;
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
