#ifndef COMM_DEVICE_DATA_H
#define COMM_DEVICE_DATA_H
/* What carries tensors between ranks that compute on devices: NCCL (comm/nccl.h) or the host
 * (comm/staged.h). */
#include "comm/comm.h"
#include "comm/data_transport.h"

typedef enum { DEVICE_AUTO, DEVICE_NCCL, DEVICE_STAGED } DeviceTransport;

/* Collective over all ranks, before comm_world; resolves DEVICE_AUTO: NCCL where all ranks can open it, in
 * one version, and have devices of their own, else staged, with a line in rank 0's log that says why.
 * BAD_OPTION, the same on every rank, where NCCL is wanted and cannot be had. device: this rank's number. On
 * the transport of the dry run DEVICE_AUTO is NCCL. */
Status device_transport_choose(DeviceTransport *chosen, DeviceTransport wanted, Transport *control,
                               int device);
/* How many devices all ranks together have, where each has the one of its number. <-> world: all-gather of a
 * few bytes */
int devices_of_ranks(Comm *world, int device);
/* Why a rank cannot compute on a device: "" where it can, DEVICE_NONE where it has none. Collective, before
 * comm_world: *why is "" where all can; else the first reason of a rank, "rank 3: ...", which is DEVICE_NONE
 * alone where no rank has a device. */
enum { DEVICE_WHY = 320 };
#define DEVICE_NONE "it has no GPU"
void device_agree(char why[DEVICE_WHY], Transport *control, const char *mine);
/* Opens it; the caller closes it after the comms. threads: of sums on the host. */
Status device_data_open(DataTransport **data, DeviceTransport chosen, Transport *control, int device,
                        int threads);
#endif
