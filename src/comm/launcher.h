#ifndef COMM_LAUNCHER_H
#define COMM_LAUNCHER_H
/* What comm/launcher.c and comm/mpi.c share: the launchers, and how the processes that one started are
 * joined. */
#include "comm/transport.h"

/* package: the Debian package that jotun must be built with to have the plug-in. */
typedef struct { const char *plugin, *package; } MpiLibrary;
extern const MpiLibrary mpi_openmpi, mpi_mpich;

/* JOIN_MPI: by the plug-in of `mpi`, or where that is NULL of any. The others: by TCP, with rank 0 at
 * MASTER_ADDR and MASTER_PORT; with the next port, since torchrun itself has that one; by what Slurm says of
 * the job. */
typedef enum { JOIN_MPI, JOIN_MASTER, JOIN_NEXT_PORT, JOIN_SLURM } Join;
/* Names of environment variables. mark: all of them are set. started: the number of processes; rank: of this
 * one; local, place: the same on this host. one: one process is a start without ranks. job: what is equal on
 * all ranks of a job, and differs between jobs. */
typedef struct {
    const char *name, *mark[3], *rank, *started, *local, *place;
    bool        one;
    Join        join;
    const MpiLibrary *mpi;
    const char *job[3];
} Launcher;

bool   mpi_plugin_exists(const Launcher *launcher);
Status mpi_open(Transport **transport, const Launcher *launcher, int *argc, char ***argv);
#endif
