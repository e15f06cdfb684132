/* Agreement by all-gather. Every rank sees all codes and picks the lowest failing rank, so that all
 * return the same status without a second vote. Its message is broadcast. */
#include "comm/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/comm_internal.h"
#include "comm/start.h"

typedef struct { char host[64], text[FAIL_BYTES]; } Message;

/* Whether all failed alike, as by a wrong word in the command line: each rank compares the failing rank's
 * message with its own. world->word has all codes, and then who has the same. */
static bool all_alike(Comm *world, Status mine, int lowest, const char *why)
{
    for (int r = 0; r < world->size; r++)
        if (world->word[r] != world->word[lowest]) return false;
    int32_t other = mine == OK || strcmp(fail_text(), why) != 0;
    comm_gather_bytes(world, "agree", world->word, &other, sizeof other);
    for (int r = 0; r < world->size; r++)
        if (world->word[r]) return false;
    return true;
}

/* The lowest failing rank's message is sent only after a failure, so that an agreement during a run costs 4
 * bytes. Nothing is allocated. world->word has all codes. */
static Status agree_on_failure(Comm *world, Status mine, int lowest)
{
    Message message = { "?", "" };
    Status  code = (Status)world->word[lowest];
    if (world->rank == lowest) {
        gethostname(message.host, sizeof message.host - 1);
        snprintf(message.text, sizeof message.text, "%s", fail_text());
    }
    comm_broadcast_bytes(world, &message, sizeof message, lowest);
    if (all_alike(world, mine, lowest, message.text)) return fail(code, "%s", message.text);
    return fail(code, "rank %d on %s: %s", world->ranks[lowest], message.host, message.text);
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

uint64_t agree_bits(Comm *world, uint64_t mine)
{
    if (world->size == 1 || world->dry) return mine;
    uint64_t *all = malloc((size_t)world->size * sizeof *all);
    CHECK(all, "no memory for the bits of %d ranks", world->size);
    comm_gather_bytes(world, "agree", all, &mine, sizeof mine);
    for (int r = 0; r < world->size; r++) mine &= all[r];
    free(all);
    return mine;
}

/* ---- a text ---- */

/* FNV-1a of what is compared. */
static uint64_t text_hash(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325;
    bool shown = false;
    for (; *text; text++) {
        shown = *text == AGREE_SHOWN || (shown && *text != '\n');
        if (!shown) hash = (hash ^ (uint8_t)*text) * 0x100000001b3;
    }
    return hash;
}

/* Rank 0's text on every rank, which the caller frees. */
static char *first_text(Comm *world, const char *mine)
{
    uint64_t bytes = strlen(mine) + 1;
    comm_broadcast_bytes(world, &bytes, sizeof bytes, 0);
    char *text = malloc(bytes);
    CHECK(text, "no memory for a text of %llu bytes", (unsigned long long)bytes);
    if (world->rank == 0) memcpy(text, mine, bytes);
    comm_broadcast_bytes(world, text, bytes, 0);
    return text;
}

static size_t compared(const char *line) { return strcspn(line, (char[]){ AGREE_SHOWN, '\n', 0 }); }

/* The first line whose compared part differs, without AGREE_SHOWN. */
static Status text_difference(const char *mine, const char *first, const char *what_to_do)
{
    char line[2][180];
    const char *at[2] = { mine, first };
    while (compared(at[0]) == compared(at[1]) && !memcmp(at[0], at[1], compared(at[0]))) {
        if (!*at[0] && !*at[1]) return OK;
        for (int i = 0; i < 2; i++) at[i] += strcspn(at[i], "\n"), at[i] += *at[i] == '\n';
    }
    for (int i = 0; i < 2; i++) {
        size_t value = compared(at[i]), whole = strcspn(at[i], "\n"), shown = value + (whole > value);
        snprintf(line[i], sizeof line[i], "%.*s%.*s", (int)value, at[i], (int)(whole - shown), at[i] + shown);
    }
    return fail(BAD_OPTION, "%s, and rank 0 has %s; %s", line[0], line[1], what_to_do);
}

Status agree_on_text(Comm *world, const char *mine, const char *what_to_do)
{
    if (world->size == 1 || world->dry) return OK;
    uint64_t hash = text_hash(mine), *all = malloc((size_t)world->size * sizeof *all);
    CHECK(all, "no memory for the hashes of %d ranks", world->size);
    comm_gather_bytes(world, "agree", all, &hash, sizeof hash);
    bool same = true;
    for (int r = 0; r < world->size; r++) same &= all[r] == all[0];
    free(all);
    if (same) return OK;
    char *first = first_text(world, mine);
    Status status = agree(world, text_difference(mine, first, what_to_do));
    free(first);
    return status;
}

Status agree_at_start(Transport *transport, Status mine)
{
    Comm  *world  = comm_world(transport);
    Status status = agree(world, mine);
    start_end();
    comm_close(world);
    return status;
}

Status agree_on_text_at_start(Transport *transport, const char *mine, const char *what_to_do)
{
    Comm  *world  = comm_world(transport);
    Status status = agree_on_text(world, mine, what_to_do);
    start_end();
    comm_close(world);
    return status;
}
