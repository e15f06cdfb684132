/* Names of a rank's tensors, and the tensors of all ranks as pieces of one. */
#include "convert/torch/torch_parameters.h"
#include <stdio.h>
#include <string.h>
#include "base/array.h"

/* Dictionaries within dictionaries, their keys joined by dots. pickle.h bounds the depth. */
static Status collect(TorchParameters *list, const PickleValue *dict, const char *prefix, int chunk,
                      bool nested, const char *label)
{
    char           key[TORCH_NAME_BYTES];
    TorchParameter p = { .chunk = chunk, .trained = true };
    for (uint32_t i = 0; dict->kind == PICKLE_DICT && i < dict->items; i += 2) {
        const PickleValue *name = dict->item[i], *value = dict->item[i + 1];
        bool tensor = name->kind == PICKLE_TEXT && value->kind == PICKLE_TENSOR;
        bool inner  = name->kind == PICKLE_TEXT && value->kind == PICKLE_DICT && nested;
        pickle_text(key, sizeof key, name);
        if (!tensor && !inner && !nested) return fail(BAD_FILE, "%s: '%s' is no tensor", label, key);
        if (!tensor && !inner) continue;
        if (snprintf(p.name, sizeof p.name, "%s%s%s", prefix, *prefix ? "." : "", key) >= TORCH_NAME_BYTES ||
            name->bytes >= sizeof key)
            return fail(BAD_FILE, "%s: a tensor's name is longer than %d bytes", label, TORCH_NAME_BYTES - 1);
        if (inner) {
            TRY(collect(list, value, p.name, chunk, nested, label));
            continue;
        }
        TRY(ARRAY_RESERVE(list->item, list->room, list->items + 1));
        list->item[list->items] = p;
        list->item[list->items++].tensor[FOREIGN_WEIGHT] = value->tensor;
    }
    return OK;
}

Status torch_weights(TorchParameters *list, const PickleValue *dict, int chunk, bool nested,
                     const char *label)
{
    return collect(list, dict, "", chunk, nested, label);
}

/* A rank's piece, whose offset is that of the rank's first run. */
static Status part_add(ForeignFile *file, int index, const ForeignPiece *piece, TorchSplit split, int rank,
                       int ranks, size_t width)
{
    int     dim = split.dim < 0 ? 0 : split.dim;
    int64_t run = piece->shape[dim] / split.runs;
    for (int i = 0; i < split.runs; i++) {
        ForeignPiece part = *piece;
        part.data       += i * run * piece->stride[dim] * (int64_t)width;
        part.shape[dim]  = run;
        part.offset[dim] = (i * ranks + rank) * run;
        TRY(foreign_kept_piece(file, index, part));
    }
    return OK;
}

/* A rank's tensor without the rows before split.first. */
static Status piece_of(ForeignPiece *piece, const PickleTensor *t, TorchSplit split, const char *label,
                       const char *name)
{
    TRY(torch_piece(piece, t, label, name));
    if (piece->shape[0] < split.first)
        return fail(BAD_FILE, "%s: '%s' has no rows but those that pad it", label, name);
    piece->data += split.first * piece->stride[0] * (int64_t)torch_type_width(t->type);
    piece->shape[0] -= split.first;
    return OK;
}

Status torch_join(ForeignFile *file, const char *name, const TorchParameters *lists, int ranks, size_t at,
                  ForeignKind kind, TorchSplit split, const char *label)
{
    const TorchParameter *first = &lists[0].item[at];
    const PickleTensor   *t     = first->tensor[kind];
    int          index, dim = split.dim < 0 ? 0 : split.dim;
    Dtype        dtype;
    ForeignPiece piece;
    if (split.dim < 0) ranks = 1;
    TRY(torch_weight_type(&dtype, t, label, first->name));
    if (split.dim >= 0 && (t->dims <= dim || t->size[dim] % split.runs))
        return fail(BAD_FILE, "%s: tensor '%s' has a shape that tensor parallelism cannot have sharded",
                    label, first->name);
    TRY(piece_of(&piece, t, split, label, first->name));
    piece.shape[dim] *= ranks;
    if (split.end > 0 && t->dims > 0 && piece.shape[0] > split.end) piece.shape[0] = split.end;
    TRY(foreign_tensor(file, &index, kind, name, dtype, t->dims, piece.shape));
    for (int r = 0; r < ranks; r++) {
        const TorchParameter *p = &lists[r].item[at];
        const PickleTensor   *part = p->tensor[kind];
        if (strcmp(p->name, first->name) || !part || part->type != t->type || !torch_shapes_equal(part, t))
            return fail(BAD_FILE, "%s: tensor '%s' is another one on tensor-parallel rank %d; copy the files "
                        "of all ranks of one save", label, first->name, r);
        TRY(piece_of(&piece, part, split, label, p->name));
        TRY(part_add(file, index, &piece, split, r, ranks, dtype_width(dtype)));
    }
    return OK;
}
