# Kernels: by nvcc where there is one; always by the CPU shim for tests (tests/tensor).
