#ifndef SHIM_ORDER_H
#define SHIM_ORDER_H
/* The settings that a test changes. The shim is one OS thread, so these variables need no atomics. */
#ifdef __cplusplus
extern "C" {
#endif
void gpu_cpu_order(unsigned seed);           /* 0: blocks, warps and lanes run as numbered; else as drawn */
void gpu_cpu_patience(unsigned seconds);     /* a launch that takes longer is a deadlock; 60 unless set */
extern int gpu_cpu_proposals;                /* algorithms of a product (cublaslt.cpp): 3 unless set, or 4 */
#ifdef __cplusplus
}
#endif
#endif
