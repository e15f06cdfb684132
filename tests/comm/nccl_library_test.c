/* The declarations of comm/nccl_library.h are those of nccl.h, where that is installed; and the library, where there is one, opens with
 * all its functions. */
#include "comm/nccl_library.h"

#include <stdbool.h>
#include <stdio.h>
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <nccl.h>
#pragma GCC diagnostic pop
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(NCCL_OK, ncclSuccess);
SAME(NCCL_DEVICE_ERROR, ncclUnhandledCudaError);
SAME(NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(NCCL_INTERNAL_ERROR, ncclInternalError);
SAME(NCCL_BAD_ARGUMENT, ncclInvalidArgument);
SAME(NCCL_BAD_USAGE, ncclInvalidUsage);
SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(NCCL_SUM, ncclSum);
SAME(NCCL_MAX, ncclMax);
SAME(NCCL_U8, ncclUint8);
SAME(NCCL_F16, ncclFloat16);
SAME(NCCL_F32, ncclFloat32);
SAME(NCCL_F64, ncclFloat64);
SAME(NCCL_BF16, ncclBfloat16);
SAME(NCCL_UNSET, NCCL_CONFIG_UNDEF_INT);
SAME(NCCL_CONFIG_VERSION, NCCL_VERSION(2, 18, 0));
SAME(sizeof(NcclId), sizeof(ncclUniqueId));
SAME(_Alignof(NcclId), _Alignof(ncclUniqueId));
_Static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t), "a config of 2.18 is the begin of a later one");
#define FIELD(ours, theirs)                                                              \
    SAME(offsetof(NcclConfig, ours), offsetof(ncclConfig_t, theirs));                    \
    SAME(sizeof(((NcclConfig *)0)->ours), sizeof(((ncclConfig_t *)0)->theirs))
FIELD(size, size);
FIELD(magic, magic);
FIELD(version, version);
FIELD(blocking, blocking);
FIELD(cluster, cgaClusterSize);
FIELD(least_blocks, minCTAs);
FIELD(most_blocks, maxCTAs);
FIELD(net, netName);
FIELD(split_share, splitShare);

/* The type of each function, with enums and pointers to NCCL's own structs as ours have them: int, void pointers. */
#define TYPE(function, ...) _Static_assert(_Generic(&function, __VA_ARGS__: 1, default: 0), #function)
TYPE(ncclGetVersion,         ncclResult_t (*)(int *));
TYPE(ncclGetUniqueId,        ncclResult_t (*)(ncclUniqueId *));
TYPE(ncclCommInitRankConfig, ncclResult_t (*)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *));
TYPE(ncclCommFinalize,       ncclResult_t (*)(ncclComm_t));
TYPE(ncclCommDestroy,        ncclResult_t (*)(ncclComm_t));
TYPE(ncclCommAbort,          ncclResult_t (*)(ncclComm_t));
TYPE(ncclCommGetAsyncError,  ncclResult_t (*)(ncclComm_t, ncclResult_t *));
TYPE(ncclGetErrorString,     const char *(*)(ncclResult_t));
TYPE(ncclGetLastError,       const char *(*)(ncclComm_t));
TYPE(ncclGroupStart,         ncclResult_t (*)(void));
TYPE(ncclGroupEnd,           ncclResult_t (*)(void));
TYPE(ncclAllReduce,     ncclResult_t (*)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t));
TYPE(ncclReduceScatter, ncclResult_t (*)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t));
TYPE(ncclReduce,        ncclResult_t (*)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t));
TYPE(ncclAllGather,     ncclResult_t (*)(const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t));
TYPE(ncclBroadcast,     ncclResult_t (*)(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t));
TYPE(ncclSend,          ncclResult_t (*)(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t));
TYPE(ncclRecv,          ncclResult_t (*)(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t));

/* Ours, argument by argument: each is what the function above takes, where an enum is an int and a pointer a pointer. */
#define OURS(name, ...) _Static_assert(_Generic(((Nccl *)0)->name, __VA_ARGS__: 1, default: 0), #name)
OURS(GetVersion,         int (*)(int *));
OURS(GetUniqueId,        int (*)(NcclId *));
OURS(CommInitRankConfig, int (*)(NcclComm **, int, NcclId, int, NcclConfig *));
OURS(CommFinalize,       int (*)(NcclComm *));
OURS(CommDestroy,        int (*)(NcclComm *));
OURS(CommAbort,          int (*)(NcclComm *));
OURS(CommGetAsyncError,  int (*)(NcclComm *, int *));
OURS(GetErrorString,     const char *(*)(int));
OURS(GetLastError,       const char *(*)(NcclComm *));
OURS(AllReduce,     int (*)(const void *, void *, size_t, int, int, NcclComm *, void *));
OURS(ReduceScatter, int (*)(const void *, void *, size_t, int, int, NcclComm *, void *));
OURS(Reduce,        int (*)(const void *, void *, size_t, int, int, int, NcclComm *, void *));
OURS(AllGather,     int (*)(const void *, void *, size_t, int, NcclComm *, void *));
OURS(Broadcast,     int (*)(const void *, void *, size_t, int, int, NcclComm *, void *));
OURS(Send,          int (*)(const void *, size_t, int, int, NcclComm *, void *));
OURS(Recv,          int (*)(void *, size_t, int, int, NcclComm *, void *));
SAME(sizeof(ncclResult_t), sizeof(int));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));
SAME(sizeof(ncclComm_t), sizeof(NcclComm *));
SAME(sizeof(cudaStream_t), sizeof(void *));
static const bool compared = true;
#else
static const bool compared = false;
#endif

int main(void)
{
    Nccl nccl;
    int version = 0;
    bool opened = nccl_open(&nccl) == OK;
    if (!opened) printf("%s\n", fail_text());
    else if (nccl.GetVersion(&version) != NCCL_OK || version < NCCL_OLDEST) return printf("version %d\n", version), 1;
    else if (nccl.GetErrorString(NCCL_OK) == NULL) return 1;
    nccl_close(&nccl);
    printf("nccl.h: %s; %s: %d\n", compared ? "compared" : "not installed", opened ? nccl.name : "no library", version);
    return compared || opened ? 0 : 77;
}
