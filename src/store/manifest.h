#ifndef STORE_MANIFEST_H
#define STORE_MANIFEST_H
/* manifest.json, what makes a folder of safetensors files a checkpoint: where training stands, the
 * resolved options and, for each file, its bytes and its tensors with their checksums (XXH3, 64 bits). It
 * holds a checksum of itself, so a flipped bit in a learning rate is found like one in a weight. The same
 * struct is the plan of a checkpoint to be written. */
#include "store/checkpoint.h"

typedef struct {
    Bundle    bundle;
    int64_t   bytes;
    uint64_t *checksum;                    /* of each tensor */
    int       first;                       /* tensors in the files before it */
} ManifestFile;
typedef struct { const char *name; int file, tensor; } ManifestEntry;

typedef struct {
    CheckpointState state;
    int             files, tensors;
    ManifestFile   *file;
    ManifestEntry   *sorted;                /* all tensors by name */
    char           *options, *data;        /* of one that was read: as the state's, owned; data NULL: none */
    bool            planned;               /* the tensors of the bundles are the caller's */
    char            folder[1024];
} Manifest;

/* What is about to be written; bytes and checksums are the caller's to fill. BAD_SHAPE where two tensors
 * share a name. */
Status manifest_plan (Manifest *manifest, const CheckpointState *state, const Bundle *bundles, int nbundles);
Status manifest_write(const Manifest *manifest, const char *folder);      /* whole, and the folder synced */
/* At most 256 MiB, 2^20 tensors and 32 times the file's bytes of memory (24 of them the tree of its JSON); the time is n log n
 * in its tensors. */
Status manifest_read (Manifest *manifest, const char *folder);
void   manifest_free (Manifest *manifest);
const ManifestEntry  *manifest_find  (const Manifest *manifest, const char *name);
const LogicalTensor *manifest_tensor(const Manifest *manifest, const ManifestEntry *entry);
#endif
