/* Finds and opens the MPI plug-in. MPI libraries have incompatible binary interfaces, so jotun links
 * none of them: it loads the plug-in that was compiled for the library of the launcher. */
#include "comm/launcher.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/start.h"

const MpiLibrary mpi_openmpi = { "libjotun_openmpi.so", "libopenmpi-dev" };
const MpiLibrary mpi_mpich   = { "libjotun_mpich.so",   "libmpich-dev" };

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
static const MpiLibrary *library_of(const Launcher *launcher)
{
    char path[PATH_MAX + 64];
    if (launcher->mpi) return launcher->mpi;
    return !plugin_path(path, &mpi_openmpi) && plugin_path(path, &mpi_mpich) ? &mpi_mpich : &mpi_openmpi;
}

bool mpi_plugin_exists(const Launcher *launcher)
{
    char path[PATH_MAX + 64];
    return plugin_path(path, library_of(launcher));
}

static Status plugin_open(void **library, const Launcher *launcher)
{
    char path[PATH_MAX + 64], reason[512];
    const MpiLibrary *mpi = library_of(launcher);
    plugin_path(path, mpi);
    /* RTLD_GLOBAL, because Open MPI loads components that resolve their symbols against libmpi. */
    *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (*library) return OK;
    snprintf(reason, sizeof reason, "%s", dlerror());
    return fail(BAD_OPTION,
                "%s started this process, but %s cannot be opened (%s); install %s and build jotun again, "
                "or start it without MPI: jotun run, torchrun, srun",
                launcher->name, path, reason, mpi->package);
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

Status mpi_open(Transport **transport, const Launcher *launcher, int *argc, char ***argv)
{
    *transport = NULL;
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
    return OK;
}
