/* The choice of a transport for devices: every rank tells what it has, and all decide alike. */
#include "comm/device_data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "comm/comm_internal.h"
#include "comm/nccl.h"
#include "comm/nccl_library.h"
#include "comm/staged.h"
#include "comm/start.h"

/* machine: what tells hosts of one name apart, since the boot of each has an identity. */
typedef struct { char host[64], machine[40], address[32], name[8], why[256]; int version; } RankDevice;

static void rank_machine(RankDevice *mine)
{
    *mine = (RankDevice){ .host = "?" };
    gethostname(mine->host, sizeof mine->host - 1);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, mine->machine, sizeof mine->machine - 1) <= 0)
        snprintf(mine->machine, sizeof mine->machine, "%.39s", mine->host);
    if (fd >= 0) close(fd);
}

static void rank_device(RankDevice *mine, int device)
{
    Nccl nccl;
    rank_machine(mine);
    Status status = nccl_open(&nccl);
    if (status == OK && nccl.GetVersion(&mine->version) != NCCL_OK)
        status = fail(BAD_OPTION, "%s does not work", nccl.name);
    if (status == OK && queue_device_address(mine->address, sizeof mine->address, device) != OK)
        status = BAD_OPTION;
    if (status == OK) snprintf(mine->name, sizeof mine->name, "%s", nccl.name);
    else snprintf(mine->why, sizeof mine->why, "%s", fail_text());
    nccl_close(&nccl);
}

static const char *version_of(const RankDevice *d, char text[24])
{
    return nccl_version_text(text, d->version);
}

static bool same_device(const RankDevice *a, const RankDevice *b)
{
    return strcmp(a->machine, b->machine) == 0 && strcmp(a->address, b->address) == 0;
}

int devices_of_ranks(Comm *world, int device)
{
    int ranks = comm_size(world), count = 0;
    if (ranks == 1) return 1;
    RankDevice mine, *all = malloc((size_t)ranks * sizeof *all);
    CHECK(all, "no memory for the devices of %d ranks", ranks);
    rank_machine(&mine);
    if (queue_device_address(mine.address, sizeof mine.address, device) != OK)
        snprintf(mine.address, sizeof mine.address, "rank %d", comm_rank(world));
    comm_gather_bytes(world, "devices", all, &mine, sizeof mine);                     /* <-> world */
    for (int r = 0; r < ranks; r++) {
        bool again = false;
        for (int s = 0; s < r && !again; s++) again = same_device(&all[s], &all[r]);
        count += !again;
    }
    free(all);
    return count;
}

/* A reason goes before the lack of a GPU, and that before none. */
static void first_reason(char why[DEVICE_WHY], char (*all)[DEVICE_WHY], int ranks)
{
    int found = -1, without = 0;
    for (int r = ranks - 1; r >= 0; r--) {
        bool none = strcmp(all[r], DEVICE_NONE) == 0;
        without += none;
        if (*all[r] && (!none || found < 0 || strcmp(all[found], DEVICE_NONE) == 0)) found = r;
    }
    *why = '\0';
    if (without == ranks)           snprintf(why, DEVICE_WHY, "%s", DEVICE_NONE);
    else if (found >= 0 && ranks > 1) snprintf(why, DEVICE_WHY, "rank %d: %.300s", found, all[found]);
    else if (found >= 0)            snprintf(why, DEVICE_WHY, "%s", all[found]);
}

Status device_agree(char why[DEVICE_WHY], Transport *control, const char *mine)
{
    Comm *world = NULL;
    char own[DEVICE_WHY];
    char (*all)[DEVICE_WHY] = calloc((size_t)control->size, sizeof *all);
    CHECK(all, "no memory for the devices of %d ranks", control->size);
    snprintf(own, sizeof own, "%s", mine);
    memset(own + strlen(own), 0, sizeof own - strlen(own));
    Status status = comm_world(&world, control);
    if (status == OK && control->size > 1) comm_gather_bytes(world, "devices", all, own, sizeof own);
    if (status == OK && control->size == 1) memcpy(all, own, sizeof own);
    if (status == OK) first_reason(why, all, control->size);
    start_end();
    comm_close(world);
    free(all);
    return status;
}

/* Why the ranks cannot use NCCL; "": they can. */
static void reason(char *why, size_t bytes, const RankDevice *of, int ranks)
{
    char text[2][24];
    *why = '\0';
    for (int r = 0; r < ranks && !*why; r++) {
        if (*of[r].why) snprintf(why, bytes, "rank %d: %s", r, of[r].why);
        else if (of[r].version < NCCL_OLDEST)
            snprintf(why, bytes, "rank %d has %s %s, which is older than 2.18", r, of[r].name,
                     version_of(&of[r], text[0]));
        else if (of[r].version != of[0].version || strcmp(of[r].name, of[0].name) != 0)
            snprintf(why, bytes, "rank 0 has %s %s and rank %d %s %s", of[0].name,
                     version_of(&of[0], text[0]), r, of[r].name, version_of(&of[r], text[1]));
        for (int s = 0; s < r && !*why; s++)
            if (same_device(&of[s], &of[r]))
                snprintf(why, bytes, "ranks %d and %d share GPU %s of %s", s, r, of[r].address, of[r].host);
    }
}

static Status ranks_tell(RankDevice **all, Transport *control, int device)
{
    RankDevice mine;
    Comm *world = NULL;
    rank_device(&mine, device);
    *all = malloc((size_t)control->size * sizeof **all);
    CHECK(*all, "no memory for the devices of %d ranks", control->size);
    Status status = comm_world(&world, control);
    if (status == OK) comm_gather_bytes(world, "devices", *all, &mine, sizeof mine);
    start_end();
    comm_close(world);
    if (status != OK) free(*all);
    return status;
}

Status device_transport_choose(DeviceTransport *chosen, DeviceTransport wanted, Transport *control,
                               int device)
{
    RankDevice *all = NULL;
    char why[512], text[24];
    *chosen = wanted == DEVICE_AUTO ? DEVICE_NCCL : wanted;
    if (wanted == DEVICE_STAGED || strcmp(control->name, "dry") == 0 || control->size == 1) return OK;
    TRY(ranks_tell(&all, control, device));
    reason(why, sizeof why, all, control->size);
    version_of(all, text);
    char name[8];
    snprintf(name, sizeof name, "%s", all[0].name);
    free(all);
    if (*why && wanted == DEVICE_NCCL)
        return fail(BAD_OPTION, "--device-transport nccl: %s; give each rank a GPU of its own and the same "
                    "library, or --device-transport staged", why);
    if (*why) *chosen = DEVICE_STAGED;
    if (control->rank != 0) return OK;
    if (*why) log_line("messages between GPUs go through the host: %s", why);
    else      log_line("messages between GPUs go by %s %s", name, text);
    return OK;
}

Status device_data_open(DataTransport **data, DeviceTransport chosen, Transport *control, int device,
                        int threads)
{
    bool dry = strcmp(control->name, "dry") == 0;
    if (chosen == DEVICE_NCCL && !dry) return nccl_data_open(data, control, device);
    *data = chosen == DEVICE_NCCL ? nccl_dry_open(control) : staged_data_open(control, threads);
    return *data ? OK : fail(NO_MEMORY, "no memory for messages between devices");
}
