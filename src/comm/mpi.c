/* Finds the plug-in of the MPI that started us, so that the binary links none. */
#include "comm/comm_internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/start.h"

typedef struct { const char *name, *plugin, *package; } Mpi;
static const Mpi openmpi = { "Open MPI", "libjotun_openmpi.so", "libopenmpi-dev" };
static const Mpi mpich   = { "MPICH",    "libjotun_mpich.so",   "libmpich-dev" };

/* What a launcher leaves in the environment of what it starts. The first row whose marks are all there counts:
 * Open MPI's mpirun leaves PMIx's marks too. PMIx says the rank and not whose MPI it is (NULL); srun says how
 * many there are. */
typedef struct { const char *name, *mark[2], *rank, *size; const Mpi *mpi; } Launcher;
static const Launcher launchers[] = {
    { "Open MPI",    { "OMPI_COMM_WORLD_SIZE" },       "OMPI_COMM_WORLD_RANK", NULL,                   &openmpi },
    { "MPICH",       { "PMI_SIZE", "PMI_RANK" },       "PMI_RANK",             NULL,                   &mpich },
    { "srun (PMIx)", { "PMIX_NAMESPACE", "PMIX_RANK" }, "PMIX_RANK",            "SLURM_STEP_NUM_TASKS", NULL },
};

/* NULL: none. A job step of one task is srun's way to start a program that knows nothing of ranks. */
static const Launcher *launcher_of_environment(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
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

int transport_launcher_rank(void)
{
    const Launcher *l = launcher_of_environment();
    const char *rank = l ? getenv(l->rank) : NULL;
    return rank ? (int)strtol(rank, NULL, 10) : 0;
}

/* Beside the binary as built, or ../lib/jotun as installed. */
static bool plugin_path(char path[PATH_MAX + 64], const Mpi *mpi)
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

/* Where the launcher does not say whose MPI it is, Open MPI's plug-in is taken if it was built, else MPICH's. */
static Status plugin_open(void **library, const Launcher *launcher)
{
    char path[PATH_MAX + 64], reason[512];
    const Mpi *mpi = launcher->mpi;
    if (!mpi) mpi = !plugin_path(path, &openmpi) && plugin_path(path, &mpich) ? &mpich : &openmpi;
    plugin_path(path, mpi);
    *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);   /* global: Open MPI's own parts look for its symbols */
    if (*library) return OK;
    snprintf(reason, sizeof reason, "%s", dlerror());
    return fail(BAD_OPTION,
                "%s started this process, but %s cannot be opened (%s); install %s and build jotun again",
                launcher->name, path, reason, mpi->package);
}

static Transport *job_transport;                                  /* a process is one rank of one MPI job */

static void abort_job(int exit_code)
{
    watchdog_stopping();
    job_transport->abort(job_transport, exit_code);
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
        return fail(BAD_OPTION, "the plug-in for %s is no transport of jotun: it lacks %s; build jotun again",
                    launcher->name, TRANSPORT_PLUGIN_SYMBOL);
    TransportPlugin *open_transport;
    memcpy(&open_transport, &symbol, sizeof symbol);          /* C has no cast from an object to a function */
    start_limit(seconds, transport_launcher_rank());
    start_begin("MPI_Init");
    *transport = open_transport(argc, argv, error, sizeof error);
    start_end();
    if (!*transport) return fail(BAD_OPTION, "%s: %s", launcher->name, error);
    if ((*transport)->abi != TRANSPORT_ABI)
        return fail(BAD_OPTION, "the plug-in for %s is of another version of jotun (%d, not %d); build it again",
                    launcher->name, (*transport)->abi, TRANSPORT_ABI);
    job_transport = *transport;
    stop_world_hook(abort_job);
    return OK;
}
