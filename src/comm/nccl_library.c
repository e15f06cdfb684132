/* NCCL, or RCCL, opened at run time. */
#include "comm/nccl_library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"

Status nccl_open(Nccl *nccl)
{
    static const struct { const char *file, *name; } row[] = { { "libnccl.so.2",  "NCCL" },
                                                               { "librccl.so.1",  "RCCL" } };
    *nccl = (Nccl){ .library = NULL };
    char why[256] = "";                               /* of the first row: most machines have neither */
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);           /* see nccl.h, DEADLOCKS */
    for (size_t i = 0; !nccl->library && i < COUNT(row); i++) {
        nccl->library = dlopen(row[i].file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);      /* it has threads */
        nccl->name    = row[i].name;
        if (!nccl->library && i == 0) strncat(why, dlerror(), sizeof why - 1);
    }
    if (!nccl->library)
        return fail(BAD_OPTION, "the library NCCL cannot be opened: %s (LD_LIBRARY_PATH names its folder)",
                    why);
#define NCCL_FIND(result, function, arguments) *(void **)&nccl->function = dlsym(nccl->library, "nccl" #function);
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
#define NCCL_TEST(result, function, arguments) \
    if (!nccl->function)                                        \
        return fail(BAD_OPTION, "%s has no function nccl" #function ", which it has from 2.18 on", \
                    nccl->name);
    NCCL_FUNCTIONS(NCCL_TEST)
#undef NCCL_TEST
    return OK;
}

void nccl_close(Nccl *nccl)
{
    if (nccl->library) dlclose(nccl->library);
    nccl->library = NULL;
}
