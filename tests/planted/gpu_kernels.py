"""Rows of bugs.py in the optimizers' kernels for GPUs, which the shim runs on the CPU."""
GPU_KERNELS = [
    ("a GPU's AdamW of 8 bits that reads its second moment by the codes of the first", "src/tensor/cuda/optimizers/adam8bit.cu",
     "value[CODE_VALUES + v_code[i]]", "value[v_code[i]]", "tensor.cuda_ops32"),
    ("a part of rows left out of a GPU's sums of columns", "src/tensor/cuda/optimizers/factored.cu",
     "for (int64_t p = 0; p < parts; p++)", "for (int64_t p = 1; p < parts; p++)", "tensor.cuda_ops32"),
    ("a GPU's trust ratio without its bounds", "src/tensor/cuda/optimizers/lamb.cu",
     "fmin(fmax(w / u, a.low), a.high)", "w / u", "tensor.cuda_ops32"),
    ("a GPU's threads that update elements of others", "src/tensor/cuda/update.h",
     "(int64_t)gridDim.x * GPU_THREADS * N;", "(int64_t)gridDim.x * GPU_THREADS;", "tensor.cuda_ops32"),
    ("a GPU's drawn target from the first tile alone", "src/tensor/cuda/xent.cu",
     "        sum += more;\n", "", "tensor.cuda_ops32"),
]
