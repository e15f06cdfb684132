#ifndef TENSOR_CPU_FEW_GEMM_FEW_H
#define TENSOR_CPU_FEW_GEMM_FEW_H
/* The product x wT of few rows, as in generation: gemm's bits, by another way. Each thread reads columns of
 * b, which are rows of the weights, once from memory and keeps no part of them, because so few rows do not
 * pay for a slab that all threads share. Private to gemm. */
#include "tensor/cpu/gemm.h"

enum { GEMM_FEW_ROWS = 96 };                    /* at most */
bool   gemm_few_takes(const Gemm *g);
size_t gemm_few_workspace_bytes(const Gemm *g, int threads);
void   gemm_few(Team *team, const Gemm *g, void *workspace, size_t workspace_bytes);
#endif
