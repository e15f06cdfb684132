#ifndef COMM_NCCL_LIBRARY_H
#define COMM_NCCL_LIBRARY_H
/* The part of NCCL's binary interface that comm/nccl.c needs, declared here since the library is opened at
 * run time: a build needs no headers of it, and a machine without it still runs. Version 2.18 and later; RCCL
 * has the same functions under the same names. tests/comm/nccl_library_test.c compares all of it with nccl.h
 * where that is installed. */
#include <limits.h>
#include <stddef.h>
#include "base/status.h"

typedef struct { char bytes[128]; } NcclId;                        /* ncclUniqueId */
typedef struct NcclComm NcclComm;                                  /* ncclComm_t points to it */

/* ncclConfig_t as version 2.18 has it; a later library sets what it has beyond `size` to its defaults. */
typedef struct {
    size_t      size;
    unsigned    magic, version;
    int         blocking, cluster, least_blocks, most_blocks;      /* cgaClusterSize, minCTAs, maxCTAs */
    const char *net;
    int         split_share;
} NcclConfig;
enum { NCCL_UNSET = INT_MIN, NCCL_CONFIG_VERSION = 21800, NCCL_OLDEST = 21800 };
#define NCCL_CONFIG_MAGIC 0xcafebeefu

/* ncclResult_t */
enum { NCCL_OK, NCCL_DEVICE_ERROR, NCCL_SYSTEM_ERROR, NCCL_INTERNAL_ERROR, NCCL_BAD_ARGUMENT, NCCL_BAD_USAGE,
       NCCL_REMOTE_ERROR, NCCL_IN_PROGRESS };
/* ncclRedOp_t, ncclDataType_t */
enum { NCCL_SUM = 0, NCCL_MAX = 2 };
enum { NCCL_U8 = 1, NCCL_F16 = 6, NCCL_F32 = 7, NCCL_F64 = 8, NCCL_BF16 = 9 };

/* ROW(result, name, arguments): the function nccl<name>; its result is an ncclResult_t where that is an int,
 * and a stream is a cudaStream_t. */
#define NCCL_FUNCTIONS(ROW)                                                                                  \
    ROW(int, GetVersion,         (int *version))                                                             \
    ROW(int, GetUniqueId,        (NcclId *id))                                                               \
    ROW(int, CommInitRankConfig, (NcclComm **comm, int ranks, NcclId id, int rank, NcclConfig *config))      \
    ROW(int, CommFinalize,       (NcclComm *comm))                                                           \
    ROW(int, CommDestroy,        (NcclComm *comm))                                                           \
    ROW(int, CommAbort,          (NcclComm *comm))                                                           \
    ROW(int, CommGetAsyncError,  (NcclComm *comm, int *error))                                               \
    ROW(const char *, GetErrorString, (int result))                                                          \
    ROW(const char *, GetLastError,   (NcclComm *comm))                                                      \
    ROW(int, GroupStart,         (void))                                                                     \
    ROW(int, GroupEnd,           (void))                                                                     \
    ROW(int, AllReduce,          (const void *in, void *out, size_t count, int type, int op,                 \
                                  NcclComm *comm, void *stream))                                             \
    ROW(int, ReduceScatter,      (const void *in, void *out, size_t count, int type, int op,                 \
                                  NcclComm *comm, void *stream))                                             \
    ROW(int, Reduce,             (const void *in, void *out, size_t count, int type, int op, int root,       \
                                  NcclComm *comm, void *stream))                                             \
    ROW(int, AllGather,          (const void *in, void *out, size_t count, int type,                         \
                                  NcclComm *comm, void *stream))                                             \
    ROW(int, Broadcast,          (const void *in, void *out, size_t count, int type, int root,               \
                                  NcclComm *comm, void *stream))                                             \
    ROW(int, Send,               (const void *in, size_t count, int type, int peer,                          \
                                  NcclComm *comm, void *stream))                                             \
    ROW(int, Recv,               (void *out, size_t count, int type, int peer,                               \
                                  NcclComm *comm, void *stream))

typedef struct {
    void       *library;
    const char *name;                                              /* "NCCL" or "RCCL" */
#define NCCL_MEMBER(result, name, arguments) result (*name) arguments;
    NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
} Nccl;

#ifdef __cplusplus
extern "C" {
#endif
/* Opens the library; in tests on the CPU its functions are those of tests/tensor/shim/nccl.cpp. BAD_OPTION
 * where it cannot be opened. nccl_close also after a failure. */
Status nccl_open (Nccl *nccl);
void   nccl_close(Nccl *nccl);
#ifdef __cplusplus
}
#endif
#endif
