#ifndef TENSOR_CUDA_DEVICE_H
#define TENSOR_CUDA_DEVICE_H
/* What tensor/queue.c needs of the back end `cuda`. A program links one of three: the kernels, which nvcc or
 * hipcc compiled (library cuda_kernels); the same on the CPU, for tests (tests/tensor/shim); or absent.c,
 * which refuses the device. */
#include "tensor/queue.h"

#ifdef __cplusplus
extern "C" {
#endif
/* Sets backend, device, memory and step_state of a queue; dry: its twin that computes nothing and needs no
 * GPU; number: of the device, modulo how many there are. host_state must be set; NULL: no state. BAD_OPTION:
 * no kernels, or no GPU; NO_MEMORY. */
Status cuda_queue_open (Queue *q, bool dry, int number);
/* A queue without ops, products and state (queue_lane_open). */
Status cuda_lane_open  (Queue *lane, int number);
void   cuda_queue_close(Queue *q);
void   cuda_queue_wait (Queue *q);
void   cuda_queue_read (Queue *q, void *host, const void *device, size_t bytes);
void   cuda_queue_write(Queue *q, void *device, const void *host, size_t bytes);
/* Without waiting, in the order of the queue. */
void   cuda_queue_copy (Queue *q, void *to, const void *from, size_t bytes);
bool   cuda_queue_passed(Queue *q);
void  *cuda_event_open  (void);
void   cuda_event_close (void *event);
void   cuda_event_record(void *event, Queue *q);
bool   cuda_event_passed(void *event);
void   cuda_event_wait  (void *event);
void   cuda_queue_follow(Queue *q, void *event);
void  *cuda_queue_stream(const Queue *q);
Status cuda_address     (char *address, int bytes, int number);
Status cuda_facts       (DeviceFacts *facts, int number);
void  *cuda_host_alloc (size_t bytes);                    /* pinned; NULL: there is not so much */
void   cuda_host_free  (void *memory);
#ifdef __cplusplus
}
#endif
#endif
