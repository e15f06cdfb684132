/* Which launcher started this process, by the variables that it sets, and how its processes are joined. */
#include "comm/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/message.h"
#include "comm/comm_internal.h"
#include "comm/start.h"
#include "comm/tcp/tcp.h"

/* The first row whose variables are set is taken. A launcher may run within another, whose variables are set
 * too: `jotun run` and torchrun start their processes last, and Open MPI's mpirun sets those of PMIx as well.
 * PMIx does not show which MPI library the program uses. srun also starts ordinary programs, as a job step
 * of one task, and one task is no start of ranks.
 *
 * A variable names the job only where the launcher itself gives the same one to every rank. Each host's agent
 * of torchrun has a TORCHELASTIC_RESTART_COUNT of its own, which leaves out restarts for another host's
 * failure. A launcher that sets RANK may work by ssh, and then only the first host has SLURM_JOB_ID or
 * PBS_JOBID. */
static const Launcher launchers[] = {
    { "jotun run", { "JOTUN_LAUNCHER", "RANK", "WORLD_SIZE" }, "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
      "LOCAL_RANK", false, JOIN_MASTER, NULL, { NULL } },
    { "torchrun", { "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE" }, "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
      "LOCAL_RANK", true, JOIN_NEXT_PORT, NULL, { "TORCHELASTIC_RUN_ID" } },
    { "Open MPI", { "OMPI_COMM_WORLD_SIZE" }, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
      "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", false, JOIN_MPI, &mpi_openmpi,
      { NULL } },
    { "MPICH", { "PMI_SIZE", "PMI_RANK" }, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID",
      false, JOIN_MPI, &mpi_mpich, { NULL } },
    { "srun (PMIx)", { "PMIX_NAMESPACE", "PMIX_RANK" }, "PMIX_RANK", "SLURM_STEP_NUM_TASKS",
      "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID", true, JOIN_MPI, NULL, { NULL } },
    { "the launcher (RANK)", { "RANK", "WORLD_SIZE", "MASTER_ADDR" }, "RANK", "WORLD_SIZE",
      "LOCAL_WORLD_SIZE", "LOCAL_RANK", true, JOIN_NEXT_PORT, NULL, { NULL } },
    { "srun", { "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID" }, "SLURM_PROCID",
      "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID", true, JOIN_SLURM, NULL,
      { "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT" } },
};

/* The number that a variable begins with: SLURM_STEP_TASKS_PER_NODE is "8(x4)". */
static int number_of(const char *name, int otherwise)
{
    const char *text = name ? getenv(name) : NULL;
    return text ? (int)strtol(text, NULL, 10) : otherwise;
}

static bool is_set(const Launcher *l)
{
    for (int i = 0; i < 3 && l->mark[i]; i++)
        if (!getenv(l->mark[i])) return false;
    return !l->one || !getenv(l->started) || number_of(l->started, 0) != 1;
}

/* Without its plug-in an MPI's launcher is as good as another that numbers the same processes, as srun does
 * where it serves MPI. */
static const Launcher *launcher_of_environment(void)
{
    const Launcher *without = NULL;
    for (const Launcher *l = launchers; l < launchers + COUNT(launchers); l++) {
        if (!is_set(l)) continue;
        if (!without && (l->join != JOIN_MPI || mpi_plugin_exists(l))) return l;
        if (!without) without = l;
        else if (l->join != JOIN_MPI && number_of(l->rank, -1) == number_of(without->rank, -2) &&
                 number_of(l->started, -1) == number_of(without->started, -2))
            return l;
    }
    return without;
}

const char *transport_launcher(void)
{
    const Launcher *l = launcher_of_environment();
    return l ? l->name : NULL;
}

int transport_launcher_size(void)
{
    const Launcher *l = launcher_of_environment();
    return l ? number_of(l->started, 0) : 0;
}

int transport_launcher_rank(void)
{
    const Launcher *l = launcher_of_environment();
    return l ? number_of(l->rank, 0) : 0;
}

int transport_launcher_local(void)
{
    const Launcher *l = launcher_of_environment();
    int count = l ? number_of(l->local, 1) : 1;
    return count > 0 ? count : 1;
}

int transport_launcher_place(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID",
                                         "SLURM_LOCALID", "LOCAL_RANK" };
    const Launcher *l = launcher_of_environment();
    if (l && getenv(l->place)) return number_of(l->place, -1);
    for (size_t i = 0; i < COUNT(names); i++)
        if (getenv(names[i])) return number_of(names[i], -1);
    return -1;
}

/* ---- TCP: where rank 0 is ---- */
/* A whole number from low to high. */
static Status number_read(int *out, const Launcher *l, const char *name, int low, int high)
{
    const char *text = getenv(name);
    char *end;
    long  value = text ? strtol(text, &end, 10) : -1;
    if (!text)
        return fail(BAD_OPTION, "%s does not set %s, a number from %d to %d", l->name, name, low, high);
    if (end == text || *end || value < low || value > high)
        return fail(BAD_OPTION, "%s is %s, which is no number from %d to %d (%s)", name, text, low, high,
                    l->name);
    *out = (int)value;
    return OK;
}

/* The first host of a list of Slurm's: "n[003-010,12]-ib,x4" begins with n003-ib. */
static void first_host(char host[256], const char *list)
{
    size_t at = 0;
    for (const char *p = list; *p && *p != ',' && at < 255; p++) {
        if (*p != '[') {
            host[at++] = *p;
            continue;
        }
        for (p++; *p && !strchr("-,]", *p) && at < 255; p++) host[at++] = *p;
        p += strcspn(p, "]");
        if (!*p) break;
    }
    host[at] = '\0';
}

/* JOIN_SLURM: rank 0 is on the step's first host. Steps of the same hosts get different ports, as a rule. */
enum { TORCH_PORT = 29500, SLURM_PORT = 20000, SLURM_PORTS = 10000 };
static Status rank0_of_slurm(char host[256], int *port, const Launcher *l)
{
    const char *list = getenv("SLURM_STEP_NODELIST"), *launched = getenv("SLURM_LAUNCH_NODE_IPADDR");
    if (!list && !launched)
        return fail(BAD_OPTION, "%s sets neither SLURM_STEP_NODELIST nor SLURM_LAUNCH_NODE_IPADDR: export "
                    "MASTER_ADDR, the host of rank 0", l->name);
    if (list) first_host(host, list);
    else      snprintf(host, 256, "%s", launched);
    long job = number_of("SLURM_JOB_ID", 0), step = number_of("SLURM_STEP_ID", 0);
    *port = SLURM_PORT + (int)((unsigned long)(job * 7 + step) % SLURM_PORTS);
    return OK;
}

static Status rank0_of(char host[256], int *port, const Launcher *l, int control_port)
{
    const char *address = getenv("MASTER_ADDR");
    if (!address && l->join != JOIN_SLURM)
        return fail(BAD_OPTION, "%s does not set MASTER_ADDR, the host of rank 0", l->name);
    if (address) snprintf(host, 256, "%s", address);
    else         TRY(rank0_of_slurm(host, port, l));
    bool known = getenv("MASTER_PORT") || address;
    if (control_port) *port = control_port;
    else if (known) {
        int master = TORCH_PORT, step = l->join != JOIN_MASTER;
        if (getenv("MASTER_PORT")) TRY(number_read(&master, l, "MASTER_PORT", 1, 65535 - step));
        *port = master + step;
    }
    return OK;
}

/* "SLURM_JOB_ID=7 SLURM_STEP_ID=0" */
static void job_of(char job[256], const Launcher *l)
{
    *job = '\0';
    for (int i = 0; i < 3 && l->job[i]; i++)
        if (getenv(l->job[i]))
            message_add(job, 256, "%s%s=%s", *job ? " " : "", l->job[i], getenv(l->job[i]));
}

static Status tcp_open(Transport **transport, const Launcher *l, double seconds, int control_port)
{
    char host[256], secret[SECRET_BYTES], job[256];
    TcpStart start = { .host = host, .launcher = l->name, .secret = secret, .job = job };
    job_of(job, l);
    TRY(number_read(&start.size, l, l->started, 1, 65536));
    TRY(number_read(&start.rank, l, l->rank, 0, start.size - 1));
    TRY(rank0_of(host, &start.port, l, control_port));
    TRY(tcp_secret(secret));
    return transport_tcp_open(transport, &start, seconds);
}

/* ---- opening ---- */
/* For stop_world, whose hook takes no context. Process-wide, since a process is one rank. */
static Transport *job_transport;

static void abort_job(int exit_code)
{
    watchdog_stopping();
    job_transport->abort(job_transport, exit_code);
}

Status transport_open(Transport **transport, double seconds, int control_port, int *argc, char ***argv)
{
    const Launcher *l = launcher_of_environment();
    *transport = NULL;
    if (!l) return OK;
    start_limit(seconds, transport_launcher_rank());
    TRY(l->join == JOIN_MPI ? mpi_open(transport, l, argc, argv)
                            : tcp_open(transport, l, seconds, control_port));
    job_transport = *transport;
    stop_world_hook(abort_job);
    return OK;
}
