/* Finds and opens the MPI plug-in. MPI libraries have incompatible binary interfaces, so jotun links
 * none of them: it recognizes the launcher by its environment variables and loads the plug-in that was
 * compiled for that library. */
#include "comm/comm_internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/array.h"
#include "comm/start.h"

/* package: the Debian package that jotun must be built with to have the plug-in. */
typedef struct { const char *name, *plugin, *package; } MpiLibrary;
static const MpiLibrary openmpi = { "Open MPI", "libjotun_openmpi.so", "libopenmpi-dev" };
static const MpiLibrary mpich   = { "MPICH",    "libjotun_mpich.so",   "libmpich-dev" };

/* The environment variables that a launcher sets. The first row whose variables `mark` are all set is
 * taken: Open MPI's mpirun also sets those of PMIx, so it comes first. `rank` and `size` name the
 * variables with this process's rank and the number of processes, and `size` only where one process may be
 * a start without MPI; `started` is the number of processes. PMIx does not show which MPI library
 * the program uses (mpi NULL). */
typedef struct { const char *name, *mark[2], *rank, *size, *started; const MpiLibrary *mpi; } Launcher;
static const Launcher launchers[] = {
    { "Open MPI", { "OMPI_COMM_WORLD_SIZE" }, "OMPI_COMM_WORLD_RANK", NULL, "OMPI_COMM_WORLD_SIZE", &openmpi },
    { "MPICH", { "PMI_SIZE", "PMI_RANK" }, "PMI_RANK", NULL, "PMI_SIZE", &mpich },
    { "srun (PMIx)", { "PMIX_NAMESPACE", "PMIX_RANK" }, "PMIX_RANK", "SLURM_STEP_NUM_TASKS",
      "SLURM_STEP_NUM_TASKS", NULL },
};

/* NULL: no launcher. srun also starts ordinary programs, as a job step of one task, so one task is not
 * taken as a start under MPI. */
static const Launcher *launcher_of_environment(void)
{
    for (size_t i = 0; i < COUNT(launchers); i++) {
        const Launcher *l = &launchers[i];
        const char *size = l->size ? getenv(l->size) : NULL;
        bool marked = getenv(l->mark[0]) && (!l->mark[1] || getenv(l->mark[1]));
        if (marked && !(size && strcmp(size, "1") == 0)) return l;
    }
    return NULL;
}

const char *transport_launcher(void)
{
    const Launcher *l = launcher_of_environment();
    return l ? l->name : NULL;
}

int transport_launcher_size(void)
{
    const Launcher *l = launcher_of_environment();
    const char *started = l ? getenv(l->started) : NULL;
    return started ? (int)strtol(started, NULL, 10) : 0;
}

int transport_launcher_rank(void)
{
    const Launcher *l = launcher_of_environment();
    const char *rank = l ? getenv(l->rank) : NULL;
    return rank ? (int)strtol(rank, NULL, 10) : 0;
}

int transport_launcher_local(void)
{
    const char *open_mpi = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *hydra = getenv("MPI_LOCALNRANKS");
    const char *ranks = open_mpi ? open_mpi : hydra;
    int count = launcher_of_environment() && ranks ? (int)strtol(ranks, NULL, 10) : 1;
    return count > 0 ? count : 1;
}

int transport_launcher_place(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID",
                                         "SLURM_LOCALID", "LOCAL_RANK" };
    for (size_t i = 0; i < COUNT(names); i++)
        if (getenv(names[i])) return (int)strtol(getenv(names[i]), NULL, 10);
    return -1;
}

/* Installed plug-ins are in ../lib/jotun of the binary's directory, built ones beside the binary. False
 * where the file does not exist; path is then the place beside the binary, for the message. */
static bool plugin_path(char path[PATH_MAX + 64], const MpiLibrary *mpi)
{
    char    folder[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[n < 0 ? 0 : n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    snprintf(path, PATH_MAX + 64, "%s/../lib/jotun/%s", folder, mpi->plugin);
    if (access(path, F_OK) == 0) return true;
    snprintf(path, PATH_MAX + 64, "%s/%s", folder, mpi->plugin);
    return access(path, F_OK) == 0;
}

/* Where the launcher does not show the MPI library, Open MPI's plug-in is taken if it exists, else
 * MPICH's. */
static Status plugin_open(void **library, const Launcher *launcher)
{
    char path[PATH_MAX + 64], reason[512];
    const MpiLibrary *mpi = launcher->mpi;
    if (!mpi) mpi = !plugin_path(path, &openmpi) && plugin_path(path, &mpich) ? &mpich : &openmpi;
    plugin_path(path, mpi);
    /* RTLD_GLOBAL, because Open MPI loads components that resolve their symbols against libmpi. */
    *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (*library) return OK;
    snprintf(reason, sizeof reason, "%s", dlerror());
    return fail(BAD_OPTION,
                "%s started this process, but %s cannot be opened (%s); install %s and build jotun again",
                launcher->name, path, reason, mpi->package);
}

/* For stop_world, whose hook takes no context. Process-wide, since under MPI a process is one rank. */
static Transport *job_transport;

static void abort_job(int exit_code)
{
    watchdog_stopping();
    job_transport->abort(job_transport, exit_code);
}

/* A launcher of another MPI library than the plug-in's starts processes that each see one rank: all of them
 * would train the whole run, and write to the same files. */
static Status started_check(const Launcher *launcher, const Transport *transport)
{
    const char *started = getenv(launcher->started);
    if (!started || strtol(started, NULL, 10) == transport->size) return OK;
    return fail(BAD_OPTION, "%s started %s processes, but MPI counts %d rank%s: start jotun with the mpirun "
                "or srun of the MPI library that it was built with", launcher->name, started, transport->size,
                transport->size == 1 ? "" : "s");
}

Status transport_mpi_open(Transport **transport, double seconds, int *argc, char ***argv)
{
    *transport = NULL;
    const Launcher *launcher = launcher_of_environment();
    if (!launcher) return OK;
    void *library;
    char  error[512] = "";
    TRY(plugin_open(&library, launcher));
    void *symbol = dlsym(library, TRANSPORT_PLUGIN_SYMBOL);
    if (!symbol)
        return fail(BAD_OPTION,
                    "the plug-in for %s is not a transport of jotun: it has no symbol %s; build jotun again",
                    launcher->name, TRANSPORT_PLUGIN_SYMBOL);
    TransportPlugin *open_transport;
    memcpy(&open_transport, &symbol, sizeof symbol);          /* C has no cast from void * to a function */
    start_limit(seconds, transport_launcher_rank());
    start_begin("MPI_Init");
    *transport = open_transport(argc, argv, error, sizeof error);
    start_end();
    if (!*transport) return fail(BAD_OPTION, "%s: %s", launcher->name, error);
    if ((*transport)->abi != TRANSPORT_ABI)
        return fail(BAD_OPTION,
                    "the plug-in for %s is for another version of jotun (%d, not %d); build jotun again",
                    launcher->name, (*transport)->abi, TRANSPORT_ABI);
    Status started = started_check(launcher, *transport);
    if (started != OK) {
        (*transport)->close(*transport);
        *transport = NULL;
        return started;
    }
    job_transport = *transport;
    stop_world_hook(abort_job);
    return OK;
}
