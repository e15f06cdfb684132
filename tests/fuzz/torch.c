/* Any bytes as a file of torch.save, or as a pickle alone: what is opened can be walked and read everywhere. */
#include <stdint.h>
#include <stdlib.h>
#include "convert/torch/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static double sum;                              /* so that nothing is optimised away */

static void tensor_read(const PickleTensor *t)
{
    ForeignPiece piece;
    Dtype        dtype;
    int64_t      count = 1;
    if (!t->storage->data || !torch_type_dtype(t->type, &dtype) || !dtype_is_float(dtype)) return;
    if (torch_piece(&piece, t, "fuzz", "t") != OK) return;
    ForeignTensor whole = { .dtype = dtype, .dims = t->dims, .pieces = 1, .piece = &piece };
    for (int d = 0; d < FOREIGN_DIMS; d++) count *= whole.shape[d] = piece.shape[d];
    double first[8], last;
    if (count > 0) foreign_read(&whole, 0, 1, count < 8 ? count : 8, first, F64);
    if (count > 0) foreign_read(&whole, count - 1, 1, 1, &last, F64), sum += last + first[0];
}

/* Every path of the value: the reader promises that they are few and short. */
static void walk(const PickleValue *v, int depth)
{
    if (!v) return;
    if (depth > PICKLE_DEPTH) abort();
    if (v->kind == PICKLE_TENSOR) tensor_read(v->tensor);
    if (v->kind == PICKLE_TEXT || v->kind == PICKLE_BYTES || v->kind == PICKLE_BIG)
        for (size_t i = 0; i < v->bytes; i++) sum += v->text[i];
    if (v->kind >= PICKLE_LIST && v->kind <= PICKLE_DICT)
        for (uint32_t i = 0; i < v->items; i++) walk(v->item[i], depth + 1);
    if (v->kind != PICKLE_RECORD) return;
    const PickleRecord *r = v->record;
    walk(r->name, depth + 1), walk(r->arguments, depth + 1), walk(r->state, depth + 1);
    walk(r->list, depth + 1), walk(r->dict, depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
#ifdef FUZZ_PICKLE
    Pickle p;
    if (pickle_open(&p, data, bytes, "fuzz") != OK) return 0;
    if (p.bytes > bytes) abort();
    walk(p.root, 1);
    pickle_close(&p);
#else
    TorchFile f;
    if (torch_file_read(&f, NULL, data, bytes, "fuzz") != OK) return 0;
    walk(f.pickle.root, 1);
    torch_file_close(&f);
#endif
    return 0;
}
