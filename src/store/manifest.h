#ifndef STORE_MANIFEST_H
#define STORE_MANIFEST_H
/* manifest.json, which makes a directory of safetensors files a checkpoint: the position of training, the
 * resolved options and, for each file, its size and its tensors with their checksums (XXH3, 64 bits). It
 * holds a checksum of itself, so a flipped bit in a learning rate is found like one in a weight. The same
 * struct plans a checkpoint before it is written. */
#include "store/checkpoint_contents.h"
#include "base/status.h"

typedef struct {
    CheckpointFile contents;
    int64_t   bytes;                       /* of the whole file */
    uint64_t *checksum;                    /* [contents.tensors] XXH3 of each tensor's bytes; owned */
    int       first;                       /* index of its first tensor over all files */
} ManifestFile;
typedef struct { const char *name; int file, tensor; } ManifestEntry;   /* tensor: its index in the file */

typedef struct {
    CheckpointState state;
    int             files, tensors;        /* tensors: of all files */
    ManifestFile   *file;                  /* [files] owned */
    ManifestEntry  *sorted;                /* [tensors] by name, for bsearch; owned */
    /* After reading: the texts of the state, owned. options is never NULL; data_fingerprint is, where
     * none was saved; kernels and given too; tokenizer and fingerprint are both NULL or both not. */
    char           *options, *data_fingerprint, *tokenizer, *fingerprint, *kernels, *given;
    /* Made by manifest_plan: the tensor arrays of the files belong to the caller. */
    bool            planned;
    char            folder[1024];          /* the directory it was read from, for messages */
} Manifest;

/* Describes a checkpoint to be written; the caller fills in sizes and checksums. BAD_SHAPE if two tensors
 * have one name. */
Status manifest_plan (Manifest *manifest, const CheckpointState *state, const CheckpointFile *files,
                      int nfiles);
/* Atomic replace; the directory is synced. */
Status manifest_write(const Manifest *manifest, const char *folder);
/* BAD_FILE if it is missing, damaged or of a newer version. The file may have at most 256 MiB and 2^20
 * tensors. Memory is at most 32 times the file's bytes (24 of them for the JSON tree); the time is O(n log
 * n) in the tensors. */
Status manifest_read (Manifest *manifest, const char *folder);
void   manifest_free (Manifest *manifest);
/* NULL: there is no such tensor. */
const ManifestEntry *manifest_find  (const Manifest *manifest, const char *name);
const LogicalTensor *manifest_tensor(const Manifest *manifest, const ManifestEntry *entry);
#endif
