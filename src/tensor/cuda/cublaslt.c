/* cuBLASLt, opened at run time. */
#include "tensor/cuda/cublaslt.h"

#include <dlfcn.h>
#include "base/array.h"

Status lt_open(Lt *lt)
{
    static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so" };
    for (size_t i = 0; !lt->library && i < COUNT(names); i++)
        lt->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lt->library)
        return fail(BAD_OPTION, "--device cuda needs the library cuBLASLt, which cannot be opened: %s; "
                    "install the CUDA toolkit, or name the folder of libcublasLt.so in LD_LIBRARY_PATH",
                    dlerror());
#define LT_FIND(name, arguments) *(void **)&lt->name = dlsym(lt->library, "cublasLt" #name);
    LT_FUNCTIONS(LT_FIND)
#undef LT_FIND
#define LT_TEST(name, arguments)                                                                       \
    if (!lt->name)                                                                                     \
        return fail(BAD_OPTION, "libcublasLt.so has no cublasLt" #name "; install CUDA 12 or 13, or "  \
                    "name the folder of its libcublasLt.so first in LD_LIBRARY_PATH");
    LT_FUNCTIONS(LT_TEST)
#undef LT_TEST
    return OK;
}

void lt_close(Lt *lt)
{
    if (lt->library) dlclose(lt->library);
    lt->library = NULL;
}
