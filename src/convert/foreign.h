#ifndef CONVERT_FOREIGN_H
#define CONVERT_FOREIGN_H
/* A checkpoint of another program as a list of named tensors whose elements lie in mapped files. A reader of
 * a format fills a ForeignFile: it maps files, adds tensors and their pieces, and calls foreign_finish, which
 * checks what the rest of this module relies on. A tensor that tensor-parallel ranks saved in parts is one
 * tensor with several pieces.
 *
 * An optimizer's states and its copies of weights are tensors beside the weight of the same name, of another
 * kind.
 *
 * Sizes, offsets and strides are in elements throughout. Nothing is read before foreign_read, which copies
 * one range, so memory does not grow with the checkpoint. None of these functions communicates. */
#include "base/file.h"
#include "store/safetensors.h"
#include "tensor/dtype.h"

enum { FOREIGN_DIMS = 4, FOREIGN_TENSORS_MAX = 1 << 20, FOREIGN_PIECES_MAX = 4096 };

/* The box [offset, offset + shape) of its tensor. Its element with the indices i, counted from offset, lies
 * at data + (i[0] stride[0] + ...) * dtype_width, which need not be aligned. Unused dims: offset 0, shape 1.
 */
typedef struct {
    int64_t     offset[FOREIGN_DIMS], shape[FOREIGN_DIMS], stride[FOREIGN_DIMS];
    const char *data;                      /* in a mapped file of the ForeignFile; not owned */
} ForeignPiece;

/* Of Adam: first and second moment; the weights from which the optimizer rounds those of the model. */
typedef enum { FOREIGN_WEIGHT, FOREIGN_MOMENT, FOREIGN_SQUARE, FOREIGN_MASTER, FOREIGN_KINDS } ForeignKind;

typedef struct {
    char         *name;                    /* owned */
    ForeignKind   kind;
    Dtype         dtype;
    int           dims;                    /* 0 to FOREIGN_DIMS */
    int64_t       shape[FOREIGN_DIMS];     /* unused dims are 1 and come last */
    int           pieces, piece_room;
    ForeignPiece *piece;                   /* owned */
    bool          opened;                  /* by foreign_need: its files are mapped */
} ForeignTensor;

/* A range of bytes in a mapped file that came with a checksum: an entry of an archive with its CRC-32, or a
 * tensor of one of our checkpoints with its XXH3. */
typedef struct {
    const char *data, *name;               /* name: of name_bytes, for messages; not owned */
    int64_t     bytes;
    size_t      name_bytes;
    uint64_t    sum;
    bool        xxh3, compared;
    int64_t     number;                    /* by foreign_sum: of the calls, the same on every rank */
} ForeignSum;

/* Where the training that the checkpoint comes from stood: steps done, samples consumed, updates of the
 * optimizer done; -1: not known. */
typedef struct { int64_t step, samples, updates; } ForeignPosition;

typedef struct {
    char            path[1024];            /* what the user named, for messages */
    int             tensors, tensor_room, maps, map_room;
    ForeignTensor  *tensor;                /* by kind and name after foreign_finish; owned */
    FileMap        *map;                   /* owned */
    int            *by_place;              /* [maps] places in `map`, by address; by foreign_finish; owned */
    ForeignSum     *sum;                   /* by place after foreign_finish; owned */
    size_t          sums, sum_room;
    ForeignPosition position;
    bool            states;                /* it has moments, and updates is known; by foreign_finish */
    char            states_unread[400];    /* "", or why states that it has are not read */
    char            unknown[400];          /* "", or names of settings whose meaning is not known */
    char            note[400];             /* "", or a line about what was read */
} ForeignFile;

/* An empty list; `path` is what messages name. */
void   foreign_begin (ForeignFile *file, const char *path);
/* Unmaps and frees everything; a ForeignFile of zeros is allowed. */
void   foreign_close (ForeignFile *file);

/* Maps a whole file; *index is its place in file->map. FileMap.data stays valid until foreign_close, a
 * pointer to the FileMap only until the next call. */
Status foreign_map   (ForeignFile *file, int *index, const char *path);
/* The same with a mapping that is made already; the ForeignFile owns it and *map is zeros, on failure too. Of
 * file_map_reserve it is opened when a tensor in it is needed (foreign_need). */
Status foreign_adopt (ForeignFile *file, int *index, FileMap *map);
/* Appends a tensor without pieces; *index is its place in file->tensor until foreign_finish sorts them.
 * Copies the name. BAD_FILE: more than FOREIGN_DIMS dims, a negative size, 2^62 bytes or more. */
Status foreign_tensor(ForeignFile *file, int *index, ForeignKind kind, const char *name, Dtype dtype,
                      int dims, const int64_t *shape);
/* Appends a piece, copied. BAD_FILE: more than FOREIGN_PIECES_MAX of one tensor. */
Status foreign_piece (ForeignFile *file, int tensor, const ForeignPiece *piece);
/* The same without the rows beyond the tensor, which pad it. */
Status foreign_kept_piece(ForeignFile *file, int tensor, ForeignPiece piece);
/* The piece that is the whole tensor, row-major from data on. */
Status foreign_whole (ForeignFile *file, int tensor, const char *data);
/* The tensors of a safetensors file, whose mapping the ForeignFile takes over. checksum: [file->tensors], or
 * NULL */
Status foreign_safetensors(ForeignFile *file, SafeFile *safe, const uint64_t *checksum);
/* The elements [first, first + count) of the tensor in row-major order, which lie one behind the other from
 * data on, as pieces. BAD_FILE: the tensor has fewer. */
Status foreign_range (ForeignFile *file, int tensor, int64_t first, int64_t count, const char *data);
/* Takes all tensors but weights away, before foreign_finish; the text is for ForeignFile.states_unread. */
void   foreign_leave_states(ForeignFile *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a checksum. Ranges must not overlap, nor be empty. */
Status foreign_sum   (ForeignFile *file, const ForeignSum *sum);
/* Sorts the tensors by kind and name. BAD_FILE, naming the tensor: two of a kind have one name; pieces
 * overlap, leave a gap or reach beyond their tensor; elements lie outside of the mapped files. */
Status foreign_finish(ForeignFile *file);

/* NULL: there is none. After foreign_finish only. */
const ForeignTensor *foreign_find(const ForeignFile *file, ForeignKind kind, const char *name);
/* "exp_avg" of FOREIGN_MOMENT, as our checkpoints call a state; "" of weights. */
const char *foreign_kind_name(ForeignKind kind);
int64_t foreign_count(const ForeignTensor *tensor);                            /* elements */

/* The place in file->map of the file that has the byte at `data`, in time logarithmic in the files; -1: none
 * has it. After foreign_finish only. */
int    foreign_map_of(const ForeignFile *file, const char *data);
/* Opens the files with the tensor's pieces that are reserved and that nothing has opened. BAD_FILE: one is
 * missing or has another size. */
Status foreign_need  (ForeignFile *file, const ForeignTensor *tensor);
/* `count` elements of the tensor into `to`, in the type to_dtype: the k-th one is the element
 * first + k step of the tensor in row-major order. Converts floating-point types; another type is a CHECK
 * unless it is the same. All of these elements must exist. */
void   foreign_read  (const ForeignTensor *tensor, int64_t first, int64_t step, int64_t count, void *to,
                      Dtype to_dtype);
/* Reads the ranges with a checksum in which pieces of the tensor begin, by windows that are given back, and
 * compares it; those that were compared before are left out. Of `parts` callers each reads the ranges of its
 * part. BAD_FILE, naming file and range: another checksum. */
Status foreign_verify(const ForeignFile *file, const ForeignTensor *tensor, int64_t part, int64_t parts);
/* The XXH3 of the bytes from `data` on, which is not compared yet, for a caller that reads them all; NULL:
 * there is none. */
ForeignSum *foreign_sum_of(const ForeignFile *file, const char *data);
/* BAD_FILE, naming file and range: `sum` is another one. It counts as compared. */
Status foreign_compare(const ForeignFile *file, ForeignSum *of, uint64_t sum);
/* The elements from `first` on as they lie in the file, of a tensor that is stored row-major as a whole; NULL
 * of another one. */
const char *foreign_elements(const ForeignTensor *tensor, int64_t first);
/* Reads a range of a mapped file, all at once where the system can, and gives it back. */
void   foreign_fetch (const char *data, int64_t bytes);
void   foreign_forget(const char *data, int64_t bytes);
/* Has the system begin to read the first `bytes` of a tensor that is stored row-major as a whole, so that
 * they are in the page cache when they are needed. They do not count as memory of this process. */
void   foreign_expect(const ForeignTensor *tensor, int64_t bytes);
/* Gives the pages of all mapped files that were read back to the system, where they count as memory of this
 * process. They are read again from the page cache or the disk where they are needed again. */
void   foreign_release(const ForeignFile *file);
#endif
