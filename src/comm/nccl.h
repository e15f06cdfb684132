#ifndef COMM_NCCL_H
#define COMM_NCCL_H
/* Tensors of devices by NCCL, or RCCL: a data transport whose calls run on the devices, in their order, while
 * the host continues. Each rank has a GPU of its own. It has never run on hardware: tests execute it on
 * emulated devices (tests/tensor/shim).
 *
 * A group has a communicator and a lane, a stream beside the rank's queue. A call makes the lane follow the
 * queue, is put on the lane, and records an event there, which the queue follows at the wait. So the host
 * waits for no call, and calls of one group run in the order of their begins.
 *
 * DEADLOCKS. NCCL runs the calls of a communicator strictly in order, and its kernels spin until all ranks
 * have come. Three things follow.
 * 1. Ranks must begin the calls of one communicator in one order, and may differ between communicators. That
 *    is what comm/comm.h asks of collectives, what channels (parallel/channels.h) have a communicator each
 *    for, and what schedule_check and tests/comm/in_order_test.c prove for pipelines.
 * 2. All communicators of a rank that may be in flight must fit its GPU at once: if kernels of some filled
 *    it, and their partners waited for the kernel of another, nothing would go on. So a communicator has at
 *    most NCCL_BLOCKS thread blocks, of which 16 communicators fit the 132 multiprocessors of an H100 (a rank
 *    has at most 8 channels and about 7 other communicators in flight), and CUDA gets 32 connections
 *    (CUDA_DEVICE_MAX_CONNECTIONS, unless the environment has one), so that no two lanes share one.
 *    NCCL_MAX_CTAS in the environment overrules the library's setting.
 * 3. What a rank does at the first use of something may wait for others on the host, within a step: NCCL
 *    connects two ranks at their first message, and the driver loads a kernel at its first launch, for which
 *    it may wait for the device. So pairs are connected when they are opened, those of collectives too
 *    (NCCL_RUNTIME_CONNECT=0), and kernels are loaded at the start (CUDA_MODULE_LOADING=EAGER), unless the
 *    environment says otherwise.
 *
 * MEMORY. Not in the dry run: NCCL's buffers, for each communicator at most NCCL_BLOCKS times NCCL_BUFFSIZE
 * (4 MiB unless the environment has another) for each neighbour that it has used.
 *
 * SUMS are NCCL's, in the type of the tensor, except those of few F64 numbers, by which ranks decide
 * together: they are gathered and added in the order of ranks by an operation of the queue, so that all
 * groups that add the same numbers get the same bits. For the others NCCL promises the same bits on all ranks
 * of a group, and again for the same ranks, GPUs and library; not the same in two groups on other GPUs.
 */
#include "comm/data_transport.h"

enum { NCCL_BLOCKS = 8 };

/* Of the device with that number, which no other rank of the job has. control and the queues of calls must
 * outlive it. BAD_OPTION: no library, or no GPU; NO_MEMORY. A call whose queue is on no device is given to
 * the host's transport. */
Status nccl_data_open(DataTransport **data, Transport *control, int device);
/* Its twin in a dry run: takes the same memory of arenas and counts the same bytes. NULL: no memory. */
DataTransport *nccl_dry_open(Transport *control);
/* "2.28.9" of ncclGetVersion's number. */
const char *nccl_version_text(char text[24], int version);
#endif
