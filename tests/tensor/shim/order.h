#ifndef SHIM_ORDER_H
#define SHIM_ORDER_H
/* What a test turns. The shim is one OS thread, so these are plain. */
#ifdef __cplusplus
extern "C" {
#endif
void gpu_cpu_order(unsigned seed);           /* 0: blocks, warps and lanes run as numbered; else as drawn */
void gpu_cpu_patience(unsigned seconds);     /* a launch that takes longer is a deadlock; 60 unless told */
#ifdef __cplusplus
}
#endif
#endif
