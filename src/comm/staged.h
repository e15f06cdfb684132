#ifndef COMM_STAGED_H
#define COMM_STAGED_H
/* Tensors of devices over a transport that moves bytes of the host: what a call reads is copied to pinned
 * memory before it, and what it writes is copied back behind it, in the order of the call's queue. Sums are
 * computed on the host, so they have the bits of the CPU's runs. Any number of ranks may share a device.
 *
 * A call whose queue is on no device is given to the host's transport unchanged. */
#include "comm/data_transport.h"

/* threads: of sums on the host. NULL: no memory. The transport and the queues of calls
 * must outlive it. */
DataTransport *staged_data_open(Transport *control, int threads);
#endif
