#ifndef CONVERT_TORCH_FILE_H
#define CONVERT_TORCH_FILE_H
/* Files of torch.save: zip archives (PyTorch 1.6 and later) and the older format of five pickles and raw
 * storages. A file becomes a value (convert/torch/pickle.h) whose tensors are views of the file's bytes:
 * nothing is copied and nothing of the file is executed. The file must be little-endian. What a pickle and an
 * archive cost in memory is in pickle.h and zip.h; the storages cost nothing. */
#include "convert/foreign.h"
#include "convert/torch/pickle.h"
#include "convert/torch/zip.h"

typedef struct { Pickle pickle; ZipArchive zip; } TorchFile;

/* Reads a file, or a range of one, that torch.save wrote; `data` must outlive *file. On success every storage
 * has its data, of as many bytes as its tensors reach. sums: gets the checksums of the archive's entries,
 * where `data` is in a mapped file of it; NULL. BAD_FILE, NO_MEMORY; then *file is zeros. */
Status torch_file_read (TorchFile *file, ForeignFile *sums, const uint8_t *data, size_t size,
                        const char *label);
/* The same with the whole file at `path`, which *file maps. */
Status torch_open(TorchFile *torch, ForeignFile *file, const char *path);
void   torch_file_close(TorchFile *file);

bool   torch_shapes_equal(const PickleTensor *a, const PickleTensor *b);
/* BAD_FILE, naming `name`: a type that no weight has (int64, bool). */
Status torch_weight_type(Dtype *dtype, const PickleTensor *tensor, const char *label, const char *name);
/* A tensor as a piece of a ForeignTensor that starts at offset 0. BAD_FILE, naming `name`, where it has more
 * than FOREIGN_DIMS dimensions. */
Status torch_piece(ForeignPiece *piece, const PickleTensor *tensor, const char *label, const char *name);
/* Appends a tensor that is whole. */
Status torch_add  (ForeignFile *file, ForeignKind kind, const PickleTensor *tensor, const char *label,
                   const char *name);
#endif
