#include "comm/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/comm_internal.h"
#include "comm/start.h"

typedef struct { int32_t code, rank; char text[512], host[64]; } Report;

/* Failing is rare: only then are the messages themselves sent, and memory asked for. */
static Status agree_on_failure(Comm *world, Status mine, int lowest)
{
    Report report = { .code = (int32_t)mine, .rank = world->ranks[world->rank] };
    snprintf(report.text, sizeof report.text, "%s", mine == OK ? "" : fail_text());
    if (gethostname(report.host, sizeof report.host - 1) != 0) snprintf(report.host, sizeof report.host, "?");
    Report *all = malloc((size_t)world->size * sizeof *all);
    CHECK(all, "no memory for the messages of %d ranks", world->size);
    comm_gather_bytes(world, "agree", all, &report, sizeof report);
    report = all[lowest];
    free(all);
    return fail((Status)report.code, "rank %d on %s: %s", report.rank, report.host, report.text);
}

Status agree(Comm *world, Status mine)
{
    if (world->size == 1 || world->dry) return mine;
    int32_t code = (int32_t)mine;
    comm_gather_bytes(world, "agree", world->word, &code, sizeof code);
    for (int r = 0; r < world->size; r++)
        if (world->word[r] != OK) return agree_on_failure(world, mine, r);
    return OK;
}

Status agree_on(Comm *world, int64_t mine, const char *what)
{
    if (world->size == 1 || world->dry) return OK;
    int64_t *all = malloc((size_t)world->size * sizeof *all);
    CHECK(all, "no memory for the values of %d ranks", world->size);
    comm_gather_bytes(world, "agree", all, &mine, sizeof mine);
    int other = 0;
    while (other < world->size && all[other] == all[0]) other++;
    long long first = all[0], second = other < world->size ? all[other] : 0;
    free(all);
    return other == world->size ? OK : fail(BAD_FILE, "%s: %lld on rank 0 and %lld on rank %d; do all hosts see the same folder?",
                                            what, first, second, other);
}

Status agree_at_start(Transport *transport, Status mine)
{
    Comm *world = NULL;
    Status status = comm_world(&world, transport);
    if (status == OK) status = agree(world, mine);
    start_end();
    comm_close(world);
    return status;
}
