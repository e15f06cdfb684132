/* The choice of a transport for devices: every rank tells what it has, and all decide alike. */
#include "comm/device_data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/message.h"
#include "base/random.h"
#include "comm/comm_internal.h"
#include "comm/nccl.h"
#include "comm/nccl_library.h"
#include "comm/staged.h"
#include "comm/start.h"

/* What a rank tells of its device to all. device: a hash of the machine's boot and the device's address; 0:
 * it has none. version: of the library; 0: it cannot be used. */
typedef struct { uint64_t device; int32_t version; char library[8]; } RankDevice;
/* What it keeps, for a message. */
typedef struct { char address[32], why[DEVICE_WHY]; } OwnDevice;

/* Hosts may have one name, but the boot of each has an identity of its own. */
static uint64_t device_hash(const char *address)
{
    char text[128] = "";
    int  fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, 64) <= 0) gethostname(text, 64);
    if (fd >= 0) close(fd);
    text[64] = '\0';
    message_add(text, sizeof text, " %s", address);
    return random_key(0, text);
}

static void rank_device(RankDevice *mine, OwnDevice *own, int device)
{
    Nccl nccl;
    *mine = (RankDevice){ 0 };
    *own  = (OwnDevice){ 0 };
    Status status = nccl_open(&nccl);
    if (status == OK && nccl.GetVersion(&mine->version) != NCCL_OK)
        status = fail(BAD_OPTION, "%s does not work", nccl.name);
    if (status == OK) status = queue_device_address(own->address, sizeof own->address, device);
    if (status == OK) {
        mine->device = device_hash(own->address);
        snprintf(mine->library, sizeof mine->library, "%s", nccl.name);
    } else {
        mine->version = 0;
        snprintf(own->why, sizeof own->why, "%s", fail_text());
    }
    nccl_close(&nccl);
}

/* A rank and its device, in the order of devices and of ranks among those of one. */
typedef struct { uint64_t device; int rank; } Place;
static int place_compare(const void *a, const void *b)
{
    const Place *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    return x->rank - y->rank;
}

static Place *places_sorted(const RankDevice *of, int ranks)
{
    Place *place = malloc((size_t)ranks * sizeof *place);
    CHECK(place, "no memory for the devices of %d ranks", ranks);
    for (int r = 0; r < ranks; r++) place[r] = (Place){ of[r].device, r };
    qsort(place, (size_t)ranks, sizeof *place, place_compare);
    return place;
}

static RankDevice *devices_gather(Comm *world, const RankDevice *mine)
{
    RankDevice *all = malloc((size_t)comm_size(world) * sizeof *all);
    CHECK(all, "no memory for the devices of %d ranks", comm_size(world));
    comm_gather_bytes(world, "devices", all, mine, sizeof *mine);                     /* <-> world */
    return all;
}

int devices_of_ranks(Comm *world, int device)
{
    int  ranks = comm_size(world), count = 1;
    char address[32];
    if (ranks == 1) return 1;
    if (queue_device_address(address, sizeof address, device) != OK)
        snprintf(address, sizeof address, "rank %d", comm_rank(world));
    RankDevice *all = devices_gather(world, &(RankDevice){ .device = device_hash(address) });
    Place *place = places_sorted(all, ranks);
    for (int i = 1; i < ranks; i++) count += place[i].device != place[i - 1].device;
    free(place);
    free(all);
    return count;
}

/* What a rank says before the run, one byte of it: NONE is the lack of a GPU. */
enum { CAN = 0, NONE = 1, REASON = 2 };
void device_agree(char why[DEVICE_WHY], Transport *control, const char *mine)
{
    int ranks = control->size, found = -1, without = 0;
    memset(why, 0, DEVICE_WHY);
    snprintf(why, DEVICE_WHY, "%s", mine);
    if (ranks == 1) return;
    Comm *world = comm_world(control);
    char *all = malloc((size_t)ranks), own = !*mine ? CAN : strcmp(mine, DEVICE_NONE) == 0 ? NONE : REASON;
    CHECK(all, "no memory for the answers of %d ranks", ranks);
    comm_gather_bytes(world, "devices", all, &own, 1);                                /* <-> world */
    for (int r = 0; r < ranks; r++) {                 /* a reason goes before the lack of a GPU */
        without += all[r] == NONE;
        if (all[r] > (found < 0 ? CAN : all[found])) found = r;
    }
    if (found < 0) *why = '\0';
    else if (without < ranks) {
        snprintf(why, DEVICE_WHY, "rank %d: %.300s", comm_rank(world), mine);
        comm_broadcast_bytes(world, why, DEVICE_WHY, found);
    }
    start_end();
    comm_close(world);
    free(all);
}

/* The first rank that cannot use NCCL as the others do, -1: none. *with: a lower one with the same device,
 * -1: that is not the reason. */
static int first_unfit(const RankDevice *of, int ranks, int *with)
{
    int first = -1;
    *with = -1;
    for (int r = 0; r < ranks && first < 0; r++)
        if (of[r].version < NCCL_OLDEST || of[r].version != of[0].version ||
            strcmp(of[r].library, of[0].library) != 0) first = r;
    Place *place = places_sorted(of, ranks);
    for (int i = 1; i < ranks; i++) {
        const Place *a = &place[i - 1], *b = &place[i];
        if (b->device == 0 || a->device != b->device || (first >= 0 && b->rank >= first)) continue;
        first = b->rank;
        *with = a->rank;
    }
    free(place);
    return first;
}

/* Written by the unfit rank: only it knows its address, host and reason. */
static void unfit_text(char why[DEVICE_WHY], const RankDevice *of, int rank, int with, const OwnDevice *own)
{
    char text[2][24], host[64] = "?";
    const RankDevice *mine = &of[rank];
    gethostname(host, sizeof host - 1);
    if (with >= 0)
        snprintf(why, DEVICE_WHY, "ranks %d and %d share GPU %s of %s", with, rank, own->address, host);
    else if (*own->why)
        snprintf(why, DEVICE_WHY, "rank %d: %.300s", rank, own->why);
    else if (mine->version < NCCL_OLDEST)
        snprintf(why, DEVICE_WHY, "rank %d has %s %s, which is older than 2.18", rank, mine->library,
                 nccl_version_text(text[0], mine->version));
    else
        snprintf(why, DEVICE_WHY, "rank 0 has %s %s and rank %d %s %s", of->library,
                 nccl_version_text(text[0], of->version), rank, mine->library,
                 nccl_version_text(text[1], mine->version));
}

/* *why: why the ranks cannot use NCCL, the same on all; "": they can. */
static void nccl_agree(char why[DEVICE_WHY], RankDevice *mine, Transport *control, int device)
{
    OwnDevice own;
    int with;
    memset(why, 0, DEVICE_WHY);
    rank_device(mine, &own, device);
    Comm *world = comm_world(control);
    RankDevice *all = devices_gather(world, mine);
    int unfit = first_unfit(all, control->size, &with);
    if (unfit == control->rank) unfit_text(why, all, unfit, with, &own);
    if (unfit >= 0) comm_broadcast_bytes(world, why, DEVICE_WHY, unfit);
    start_end();
    comm_close(world);
    free(all);
}

Status device_transport_choose(DeviceTransport *chosen, DeviceTransport wanted, Transport *control,
                               int device)
{
    RankDevice mine;
    char why[DEVICE_WHY], text[24];
    *chosen = wanted == DEVICE_AUTO ? DEVICE_NCCL : wanted;
    if (wanted == DEVICE_STAGED || control->kind == TRANSPORT_DRY || control->size == 1) return OK;
    nccl_agree(why, &mine, control, device);
    if (*why && wanted == DEVICE_NCCL)
        return fail(BAD_OPTION, "--device-transport nccl: %s; give each rank a GPU of its own and the same "
                    "library, or --device-transport staged", why);
    if (*why) *chosen = DEVICE_STAGED;
    if (control->rank != 0) return OK;
    if (*why) log_line("messages between GPUs go through the host: %s", why);
    else      log_line("messages between GPUs go by %s %s", mine.library,
                       nccl_version_text(text, mine.version));
    return OK;
}

Status device_data_open(DataTransport **data, DeviceTransport chosen, Transport *control, int device,
                        int threads)
{
    bool dry = control->kind == TRANSPORT_DRY;
    if (chosen == DEVICE_NCCL && !dry) return nccl_data_open(data, control, device);
    *data = chosen == DEVICE_NCCL ? nccl_dry_open(control) : staged_data_open(control, threads);
    return *data ? OK : fail(NO_MEMORY, "no memory for messages between devices");
}
