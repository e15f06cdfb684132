/* Agreement by all-gather. Every rank sees all codes and picks the lowest failing rank, so that all
 * return the same status and message without a second vote. */
#include "comm/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/comm_internal.h"
#include "comm/start.h"

/* Sent as bytes. `text` holds a whole message of fail(). */
typedef struct { int32_t code, rank; char text[512], host[64]; } Failure;

/* The messages are sent only after a failure, so that an agreement during a run costs 4 bytes and
 * allocates nothing. */
static Status agree_on_failure(Comm *world, Status mine, int lowest)
{
    Failure failure = { .code = (int32_t)mine, .rank = world->ranks[world->rank] };
    snprintf(failure.text, sizeof failure.text, "%s", mine == OK ? "" : fail_text());
    if (gethostname(failure.host, sizeof failure.host - 1) != 0)
        snprintf(failure.host, sizeof failure.host, "?");
    Failure *all = malloc((size_t)world->size * sizeof *all);
    CHECK(all, "no memory for the messages of %d ranks", world->size);
    comm_gather_bytes(world, "agree", all, &failure, sizeof failure);
    failure = all[lowest];
    bool alike = true;                                /* a wrong word in the command line, for example */
    for (int r = 0; r < world->size; r++)
        alike &= all[r].code == failure.code && strcmp(all[r].text, failure.text) == 0;
    free(all);
    if (alike) return fail((Status)failure.code, "%s", failure.text);
    return fail((Status)failure.code, "rank %d on %s: %s", failure.rank, failure.host, failure.text);
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
    int other = 0;                                    /* the first rank whose value is not rank 0's */
    while (other < world->size && all[other] == all[0]) other++;
    long long first = all[0], second = other < world->size ? all[other] : 0;
    free(all);
    if (other == world->size) return OK;
    return fail(BAD_FILE, "%s: %lld on rank 0 but %lld on rank %d; all hosts must see the same directory",
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
