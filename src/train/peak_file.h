#ifndef TRAIN_PEAK_FILE_H
#define TRAIN_PEAK_FILE_H
/* The peak of a machine, as `jotun bench peak` measured it, in a file of the user's cache: a line for each
 * kind of processor, family of kernels and number of threads. */
#include "base/status.h"
#include "tensor/kernel_family.h"

/* Of all threads together: FLOP/s in fp32 and of pairs of bf16 (0: no such instruction); bytes per second
 * read and written by a copy. 0: not measured. */
typedef struct { double fp32, bf16, copy; } Peak;

/* $XDG_CACHE_HOME/jotun/peak, else ~/.cache/jotun/peak. BAD_FILE where neither variable is set. */
Status peak_file_path(char path[1024]);
/* false: nothing is known of this machine with this family and number of threads. */
bool   peak_file_find(Peak *peak, KernelFamily family, int threads);
/* Replaces the line of this machine, family and number of threads. */
Status peak_file_keep(const Peak *peak, KernelFamily family, int threads);
/* The processor's name as the system tells it. */
const char *peak_file_processor(char name[128]);
#endif
