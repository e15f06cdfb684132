/* Run by mpi.py:   program hash [threads N]      prints the hash of all collectives' results, on MPI or on threads
 *                  program loop SECONDS FILE     all-gathers until it is killed, under a watchdog; stderr goes to FILE
 *                  program start                 waits for all ranks, and prints the seconds that this took
 *                  program unread                is stopped by the transport, while nobody reads its stderr */
#include "comm/program.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/seam.h"
#include "comm/watchdog.h"

static Status loop_body(Transport *transport, void *context)
{
    Comm     *world;
    Watchdog *watchdog;
    Program   p = { 0 };
    world = comm_world(transport);
    TRY(watchdog_open(&watchdog, world, atof(context)));
    TRY(queue_open(&p.q, "ref", 1, NULL));
    TRY(arena_open(&p.arena, "test", 1 << 20));
    p.comm = world;
    Tensor in = filled(&p, transport->rank, 100), out = tensor_new(&p.arena, "out", F64, transport->size, 100);
    for (long step = 0;; step++) {
        thread_context()->step = step;
        comm_all_gather(world, &p.q, out, in);
        usleep(1000);
        CHECK(step < 600 || transport->rank != 1 || !getenv("STOP"), "rank 1 has had enough");
        if (step == 20) {
            printf("rank %d pid %d\n", transport->rank, getpid());
            fflush(stdout);
        }
    }
}

/* since: seam.clock when this process began. Rank 0 prints the seconds until it has all addresses, and until all ranks have met. */
static Status start_body(Transport *transport, int64_t since)
{
    Comm  *world;
    double joined = seam_seconds_since(since);
    world = comm_world(transport);
    comm_barrier(world);
    if (transport->rank == 0) {
        printf("%d ranks: %.3f s, %.3f s\n", transport->size, joined, seam_seconds_since(since));
        fflush(stdout);
    }
    comm_barrier(world);
    comm_close(world);
    return OK;
}

/* stderr becomes a full pipe, and then more requests are begun than a transport has. */
static Status unread_body(Transport *transport)
{
    int  pipes[2], none[TRANSPORT_REQUESTS + 1];
    char text[4096] = "";
    CHECK(pipe(pipes) == 0 && fcntl(pipes[1], F_SETFL, O_NONBLOCK) == 0, "no pipe");
    while (write(pipes[1], text, sizeof text) > 0) { }
    CHECK(fcntl(pipes[1], F_SETFL, 0) == 0 && dup2(pipes[1], STDERR_FILENO) == STDERR_FILENO, "no stderr");
    Group *group = transport->group_open(transport, &transport->rank, 1);
    for (int i = 0; i <= TRANSPORT_REQUESTS; i++) transport->recv(transport, group, &none[i], sizeof none[i], 0, TAG_CONTROL);
    return OK;
}

static int ended(Status status)
{
    if (status != OK) fprintf(stderr, "jotun: %s\n", fail_text());
    return status_exit_code(status);
}

int main(int argc, char **argv)
{
    Transport *transport;
    uint64_t   hash = 0;
    int64_t    begun = seam.clock();
    bool       start = argc > 1 && strcmp(argv[1], "start") == 0;
    bool       loop = argc > 3 && strcmp(argv[1], "loop") == 0;
    if (loop && !freopen(argv[3], "a", stderr)) return 2;
    if (argc > 3 && strcmp(argv[2], "threads") == 0) {
        Status status = transport_threads_run(atoi(argv[3]), program_body, &hash);
        printf("%016" PRIx64 "\n", hash);
        return ended(status);
    }
    Status status = transport_open(&transport, 120, 0, &argc, &argv);        /* a rank that never comes is a failure */
    if (status != OK) return ended(status);
    if (!transport) return fprintf(stderr, "no launcher started this\n"), 2;
    int rank = transport->rank;
    if (argc > 1 && strcmp(argv[1], "unread") == 0) return ended(unread_body(transport));
    status   = start ? start_body(transport, begun) : loop ? loop_body(transport, argv[2]) : program_body(transport, &hash);
    transport->close(transport);
    if (status == OK && rank == 0 && !start) printf("%016" PRIx64 "\n", hash);
    return ended(status);
}
