#ifndef TRAIN_RANK_PEAK_H
#define TRAIN_RANK_PEAK_H
/* The peak of one rank of a run: what its threads' multiply-adds and their share of the host's memory can do.
 * */
#include "train/peak_file.h"
#include "train/trainer.h"

/* Where it is from: --peak-tflops, `jotun bench peak`, a measurement now, the data sheet of the GPU. */
typedef enum { PEAK_UNKNOWN, PEAK_GIVEN, PEAK_KEPT, PEAK_MEASURED, PEAK_SHEET } PeakSource;

/* host: of all threads of the run on this host; ranks: so many share it. flops: of host, or of one GPU, that
 * of the type whose products the run computes; 0: not known. gpu: its name as the runtime has it; "" on a CPU
 * and in a dry run */
typedef struct {
    Peak host;
    double flops;
    Dtype type;
    int threads, ranks;
    PeakSource from;
    char gpu[256];
} RankPeak;

/* What was given or kept, else on a CPU a measurement of 40 ms; with `copy` also of memory, where else copy
 * is 0. Of a GPU what the table has (tensor/gpu_model.c), with ranks 1. No communication. */
RankPeak rank_peak(const Trainer *trainer, bool copy);
/* "by the data sheet of NVIDIA H100 80GB HBM3", ...; returns out. */
const char *rank_peak_source(char out[320], const RankPeak *peak);
const char *peak_type_name(Dtype type);                       /* "bf16" */
/* FLOP/s of all ranks: those on other hosts count as this one's, and ranks that share a GPU have one
 * together. 0: not known. A line in rank 0's log says of what. <-> world, where ranks compute on GPUs:
 * all-gather of a few bytes */
double run_peak(const Trainer *trainer);
enum { RANK_PEAK_MS = 40 };
#endif
