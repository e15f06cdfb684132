#ifndef TESTS_COMM_TCP_RANKS_H
#define TESTS_COMM_TCP_RANKS_H
/* Ranks over TCP that are threads of this process. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "comm/socket.h"
#include "comm/tcp/tcp.h"

typedef struct { TcpStart start; RankBody *body; void *context; Status status; char text[FAIL_BYTES]; pthread_t thread; } TcpRank;

static void *tcp_rank_thread(void *context)
{
    TcpRank   *rank = context;
    Transport *transport;
    thread_context()->rank = rank->start.rank;
    rank->status = transport_tcp_open(&transport, &rank->start, 60);
    if (rank->status == OK) {
        rank->status = rank->body(transport, rank->context);
        transport->close(transport);
    }
    if (rank->status != OK) snprintf(rank->text, sizeof rank->text, "%s", fail_text());
    return NULL;
}

/* As transport_threads_run. */
static Status tcp_ranks_run(int ranks, RankBody *body, void *context)
{
    const SocketAddress here = { .ip = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
    uint16_t port = 0;
    int      kept = socket_reserve(&here, &port);
    TcpRank *rank = calloc((size_t)ranks, sizeof *rank);
    Status   status = OK;
    CHECK(rank && kept >= 0, "no memory or port for %d ranks", ranks);
    for (int r = 0; r < ranks; r++) {
        rank[r] = (TcpRank){ .start = { r, ranks, "127.0.0.1", port, "the test", "a secret of the test", "" }, .body = body, .context = context };
        CHECK(pthread_create(&rank[r].thread, NULL, tcp_rank_thread, &rank[r]) == 0, "no thread for rank %d", r);
    }
    for (int r = 0; r < ranks; r++) {
        pthread_join(rank[r].thread, NULL);
        if (rank[r].status != OK && status == OK) status = fail(rank[r].status, "rank %d: %s", r, rank[r].text);
    }
    close(kept);
    free(rank);
    return status;
}
#endif
