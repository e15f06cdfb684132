#ifndef COMM_TRANSPORT_H
#define COMM_TRANSPORT_H
/* What moves bytes between ranks. Plain C and bytes only, so that an MPI plug-in needs none of our types. Each call is by the
 * rank's own thread (MPI_THREAD_FUNNELED). Requests are small integers from a fixed pool: nothing allocates after start. */
#include <stddef.h>
#include "base/status.h"

enum { TRANSPORT_ABI = 1, TRANSPORT_REQUESTS = 4096 };
typedef struct Transport Transport;
typedef struct Group Group;

struct Transport {
    int   abi;                 /* TRANSPORT_ABI */
    const char *name;          /* "threads", "openmpi", "mpich", "dry" */
    int   rank, size;
    void *self;
    /* collective over the ranks in the list (world ranks, ascending, this one among them) */
    Group *(*group_open) (Transport *t, const int *ranks, int count);
    void   (*group_close)(Transport *t, Group *g);
    /* out gets count blocks in group order; each member gives `bytes`; `in` may be its own block of `out` */
    int  (*all_gather)(Transport *t, Group *g, void *out, const void *in, size_t bytes);
    /* block r of `in` (in_at[r] .. in_at[r+1] bytes) goes to member r; from member r come out_at[r] .. out_at[r+1].
     * One at a time in a group; the offsets stay until its wait. */
    int  (*all_to_all)(Transport *t, Group *g, void *out, const size_t *out_at, const void *in, const size_t *in_at);
    int  (*send)(Transport *t, Group *g, const void *data, size_t bytes, int to);
    int  (*recv)(Transport *t, Group *g, void *data, size_t bytes, int from);
    void (*wait)(Transport *t, int request);
    void (*poll)(Transport *t);
    void (*abort)(Transport *t, int exit_code);      /* ends the whole job at once */
    void (*close)(Transport *t);
};

/* Ranks as threads of this process: opens `ranks` transports; body runs once in each thread with its own. Returns the first failing
 * rank's status (lowest rank), its message moved to the calling thread. Threads may not share anything a rank could differ in. */
typedef Status RankBody(Transport *transport, void *context);
Status transport_threads_run(int ranks, RankBody *body, void *context);
Transport *transport_dry_open(int rank, int size);    /* moves nothing */
/* The plug-in of the MPI that started us (told from its environment), dlopened; *transport NULL where no MPI started us.
 * BAD_OPTION where one did and its plug-in is missing, with the package to install. seconds: how long MPI_Init
 * may take, and the meeting of all ranks after it (comm/start.h); 0: for ever. */
Status transport_mpi_open(Transport **transport, double seconds, int *argc, char ***argv);
const char *transport_launcher(void);                 /* what started us, "Open MPI", told the same way; NULL: no MPI */
int transport_launcher_rank(void);                    /* this process's, known before MPI is up; 0: no MPI */
/* a plug-in exports this one symbol */
typedef Transport *TransportPlugin(int *argc, char ***argv, char *error, size_t error_bytes);
#define TRANSPORT_PLUGIN_SYMBOL "jotun_transport_open"
#endif
