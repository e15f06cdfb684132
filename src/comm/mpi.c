/* Finds the plug-in of the MPI that started us, so that the binary links none. */
#include "comm/comm_internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { const char *plugin, *name, *package; } Mpi;

/* Open MPI's mpirun and MPICH's hydra each leave their own marks in the environment. */
static const Mpi *mpi_of_environment(void)
{
    static const Mpi openmpi = { "libjotun_openmpi.so", "Open MPI", "libopenmpi-dev" };
    static const Mpi mpich   = { "libjotun_mpich.so",   "MPICH",    "libmpich-dev" };
    if (getenv("OMPI_COMM_WORLD_SIZE")) return &openmpi;
    if (getenv("PMI_RANK") && getenv("PMI_SIZE")) return &mpich;
    return NULL;
}

const char *transport_launcher(void)
{
    const Mpi *mpi = mpi_of_environment();
    return mpi ? mpi->name : NULL;
}

/* Beside the binary as built, or ../lib/jotun as installed. */
static Status plugin_open(void **library, const Mpi *mpi)
{
    char    folder[PATH_MAX], path[PATH_MAX + 64], reason[512];
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[n < 0 ? 0 : n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    snprintf(path, sizeof path, "%s/../lib/jotun/%s", folder, mpi->plugin);
    if (access(path, F_OK) != 0) snprintf(path, sizeof path, "%s/%s", folder, mpi->plugin);
    *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);   /* global: Open MPI's own parts look for its symbols */
    if (*library) return OK;
    snprintf(reason, sizeof reason, "%s", dlerror());
    return fail(BAD_OPTION,
                "%s started this process, but %s cannot be opened (%s); install %s and build jotun again",
                mpi->name, path, reason, mpi->package);
}

static Transport *job_transport;                                  /* a process is one rank of one MPI job */

static void abort_job(int exit_code)
{
    watchdog_stopping();
    job_transport->abort(job_transport, exit_code);
}

Status transport_mpi_open(Transport **transport, int *argc, char ***argv)
{
    *transport = NULL;
    const Mpi *mpi = mpi_of_environment();
    if (!mpi) return OK;
    void *library;
    char  error[512] = "";
    TRY(plugin_open(&library, mpi));
    void *symbol = dlsym(library, TRANSPORT_PLUGIN_SYMBOL);
    if (!symbol)
        return fail(BAD_OPTION, "%s is no transport of jotun: it lacks %s; build jotun again", mpi->plugin,
                    TRANSPORT_PLUGIN_SYMBOL);
    TransportPlugin *open_transport;
    memcpy(&open_transport, &symbol, sizeof symbol);          /* C has no cast from an object to a function */
    *transport = open_transport(argc, argv, error, sizeof error);
    if (!*transport) return fail(BAD_OPTION, "%s: %s", mpi->name, error);
    if ((*transport)->abi != TRANSPORT_ABI)
        return fail(BAD_OPTION, "%s is of another version of jotun (%d, not %d); build it again", mpi->plugin,
                    (*transport)->abi, TRANSPORT_ABI);
    job_transport = *transport;
    stop_world_hook(abort_job);
    return OK;
}
