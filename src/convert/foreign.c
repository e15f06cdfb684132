/* The list of tensors of a foreign checkpoint, the check of what a reader put into it, and the copying of
 * ranges of elements out of pieces. */
#include "convert/foreign.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>
#include "base/array.h"

void foreign_begin(ForeignFile *file, const char *path)
{
    *file = (ForeignFile){ .position = { -1, -1, -1 } };
    snprintf(file->path, sizeof file->path, "%s", path);
}

static void tensor_free(ForeignTensor *tensor)
{
    free(tensor->name);
    free(tensor->piece);
}

void foreign_close(ForeignFile *file)
{
    for (int i = 0; i < file->tensors; i++) tensor_free(&file->tensor[i]);
    for (int i = 0; i < file->maps; i++) file_unmap(&file->map[i]);
    free(file->tensor);
    free(file->map);
    free(file->by_place);
    free(file->sum);
    *file = (ForeignFile){ 0 };
}

/* ---- filling ---- */

Status foreign_adopt(ForeignFile *file, int *index, FileMap *map)
{
    Status status = ARRAY_RESERVE(file->map, file->map_room, file->maps + 1);
    if (status == OK) file->map[*index = file->maps++] = *map;
    else file_unmap(map);
    *map = (FileMap){ 0 };
    return status;
}

Status foreign_map(ForeignFile *file, int *index, const char *path)
{
    FileMap map;
    TRY(file_map(&map, path));
    return foreign_adopt(file, index, &map);
}

Status foreign_tensor(ForeignFile *file, int *index, ForeignKind kind, const char *name, Dtype dtype,
                      int dims, const int64_t *shape)
{
    if (dims < 0 || dims > FOREIGN_DIMS)
        return fail(BAD_FILE, "%s: tensor '%.200s' has %d dimensions; at most %d are read", file->path, name,
                    dims, FOREIGN_DIMS);
    if (file->tensors >= FOREIGN_TENSORS_MAX)
        return fail(BAD_FILE, "%s: more than %d tensors", file->path, FOREIGN_TENSORS_MAX);
    ForeignTensor tensor = { .kind = kind, .dtype = dtype, .dims = dims, .shape = { 1, 1, 1, 1 } };
    int64_t bytes = (int64_t)dtype_width(dtype);
    for (int d = 0; d < dims; d++) {
        tensor.shape[d] = shape[d];
        if (shape[d] < 0 || __builtin_mul_overflow(bytes, shape[d] ? shape[d] : 1, &bytes) || bytes >> 62)
            return fail(BAD_FILE, "%s: tensor '%.200s' has a shape with %lld elements in dimension %d, which "
                        "no file holds", file->path, name, (long long)shape[d], d);
    }
    TRY(ARRAY_RESERVE(file->tensor, file->tensor_room, file->tensors + 1));
    if (!(tensor.name = strdup(name)))
        return fail(NO_MEMORY, "%s: no memory for the names of its tensors", file->path);
    *index = file->tensors;
    file->tensor[file->tensors++] = tensor;
    return OK;
}

Status foreign_piece(ForeignFile *file, int tensor, const ForeignPiece *piece)
{
    ForeignTensor *t = &file->tensor[tensor];
    if (t->pieces >= FOREIGN_PIECES_MAX)
        return fail(BAD_FILE, "%s: tensor '%.200s' is in more than %d parts", file->path, t->name,
                    FOREIGN_PIECES_MAX);
    TRY(ARRAY_RESERVE(t->piece, t->piece_room, t->pieces + 1));
    t->piece[t->pieces++] = *piece;
    return OK;
}

Status foreign_kept_piece(ForeignFile *file, int tensor, ForeignPiece piece)
{
    const ForeignTensor *t    = &file->tensor[tensor];
    int64_t              room = t->shape[0] - piece.offset[0];
    if (room <= 0 && t->dims > 0) return OK;
    if (t->dims > 0 && piece.shape[0] > room) piece.shape[0] = room;
    return foreign_piece(file, tensor, &piece);
}

Status foreign_safetensors(ForeignFile *file, SafeFile *safe, const uint64_t *checksum)
{
    int    map, tensor;
    Status status = foreign_adopt(file, &map, &safe->map);
    for (int i = 0; i < safe->tensors && status == OK; i++) {
        const SafeTensor *t = &safe->tensor[i];
        status = foreign_tensor(file, &tensor, FOREIGN_WEIGHT, t->name, t->dtype, t->dims, t->dim);
        if (status == OK) status = foreign_whole(file, tensor, (const char *)file->map[map].data + t->at);
        const char *name = status == OK ? file->tensor[tensor].name : "";
        if (status == OK && checksum && t->bytes)
            status = foreign_sum(file, &(ForeignSum){ .data = file->tensor[tensor].piece->data,
                .bytes = (int64_t)t->bytes, .name = name, .name_bytes = strlen(name), .sum = checksum[i],
                .xxh3 = true });
    }
    safetensors_close(safe);
    return status;
}

/* From the first element on, the longest box of whole rows (of all dims inside one), again and again: what
 * ends within a row is at most a box for each dim on either side. */
Status foreign_range(ForeignFile *file, int tensor, int64_t first, int64_t count, const char *data)
{
    ForeignTensor t = file->tensor[tensor];
    int64_t       inside[FOREIGN_DIMS], width = (int64_t)dtype_width(t.dtype);
    inside[FOREIGN_DIMS - 1] = 1;
    for (int d = FOREIGN_DIMS - 1; d > 0; d--) inside[d - 1] = inside[d] * t.shape[d];
    if (first < 0 || count < 0 || count > foreign_count(&t) - first)
        return fail(BAD_FILE, "%s: a range of tensor '%.200s' reaches beyond it", file->path, t.name);
    for (int64_t boxed; count > 0; first += boxed, count -= boxed, data += boxed * width) {
        ForeignPiece piece = { .data = data };
        int          d = FOREIGN_DIMS - 1;
        int64_t      rest = first;
        while (d > 0 && first % inside[d - 1] == 0 && count >= inside[d - 1]) d--;
        for (int i = 0; i < FOREIGN_DIMS; rest %= inside[i++]) {
            piece.offset[i] = rest / inside[i];
            piece.shape[i]  = i < d ? 1 : t.shape[i];
            piece.stride[i] = inside[i];
        }
        int64_t room = t.shape[d] - piece.offset[d], whole = count / inside[d];
        piece.shape[d] = whole < room ? whole : room;
        boxed = piece.shape[d] * inside[d];
        TRY(foreign_piece(file, tensor, &piece));
    }
    return OK;
}

Status foreign_whole(ForeignFile *file, int tensor, const char *data)
{
    return foreign_range(file, tensor, 0, foreign_count(&file->tensor[tensor]), data);
}

void foreign_leave_states(ForeignFile *file, const char *format, ...)
{
    int     kept = 0;
    va_list values;
    for (int i = 0; i < file->tensors; i++)
        if (file->tensor[i].kind == FOREIGN_WEIGHT) file->tensor[kept++] = file->tensor[i];
        else tensor_free(&file->tensor[i]);
    file->tensors = kept;
    file->position.updates = -1;
    va_start(values, format);
    vsnprintf(file->states_unread, sizeof file->states_unread, format, values);
    va_end(values);
}

Status foreign_sum(ForeignFile *file, const ForeignSum *sum)
{
    TRY(ARRAY_RESERVE(file->sum, file->sum_room, file->sums + 1));
    file->sum[file->sums] = *sum;
    file->sum[file->sums].number = (int64_t)file->sums;
    file->sums++;
    return OK;
}

/* ---- checking ---- */

int64_t foreign_count(const ForeignTensor *tensor)
{
    return tensor->shape[0] * tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
}

static int name_order(const void *a, const void *b)
{
    const ForeignTensor *x = a, *y = b;
    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind) : strcmp(x->name, y->name);
}

static int sum_order(const void *a, const void *b)
{
    const ForeignSum *x = a, *y = b;
    return (x->data > y->data) - (x->data < y->data);
}

static int place_order(const void *a, const void *b, void *maps)
{
    const FileMap *x = (const FileMap *)maps + *(const int *)a, *y = (const FileMap *)maps + *(const int *)b;
    return x->data != y->data ? (x->data > y->data) - (x->data < y->data)
                              : (x->size > y->size) - (x->size < y->size);
}

static Status maps_sort(ForeignFile *file)
{
    if (!(file->by_place = calloc((size_t)file->maps + 1, sizeof *file->by_place)))
        return fail(NO_MEMORY, "%s: no memory for a list of its files", file->path);
    for (int i = 0; i < file->maps; i++) file->by_place[i] = i;
    qsort_r(file->by_place, (size_t)file->maps, sizeof *file->by_place, place_order, file->map);
    return OK;
}

int foreign_map_of(const ForeignFile *file, const char *data)
{
    int low = 0, high = file->maps;                    /* the files before `low` begin at or before it */
    while (low < high) {
        int middle = low + (high - low) / 2;
        if ((const char *)file->map[file->by_place[middle]].data <= data) low = middle + 1;
        else                                                              high = middle;
    }
    if (low == 0) return -1;
    const FileMap *map = &file->map[file->by_place[low - 1]];
    return (size_t)(data - (const char *)map->data) < map->size ? file->by_place[low - 1] : -1;
}

/* Whether bytes [low, high) from `data` on, itself among them, are inside the mapped file. */
static bool is_inside(const FileMap *map, const char *data, int64_t low, int64_t high)
{
    int64_t before = data - (const char *)map->data, after = (int64_t)map->size - before;
    return low >= -before && high <= after;
}

static Status piece_check(const ForeignFile *file, const ForeignTensor *tensor, const ForeignPiece *piece)
{
    int64_t low = 0, high = 1, step, width = (int64_t)dtype_width(tensor->dtype);
    bool    empty = false, far = false;
    for (int d = 0; d < FOREIGN_DIMS; d++) {
        int64_t size = piece->shape[d];
        if (piece->offset[d] < 0 || size < 0 || size > tensor->shape[d] ||
            piece->offset[d] > tensor->shape[d] - size)
            return fail(BAD_FILE, "%s: a part of tensor '%.200s' reaches beyond its shape in dimension %d",
                        file->path, tensor->name, d);
        empty |= size == 0;
        far |= size > 1 && (__builtin_mul_overflow(size - 1, piece->stride[d], &step) ||
                            __builtin_add_overflow(step < 0 ? low : high, step, step < 0 ? &low : &high));
    }
    if (empty) return OK;
    far |= __builtin_mul_overflow(low, width, &low) || __builtin_mul_overflow(high, width, &high);
    int map = foreign_map_of(file, piece->data);
    if (far || map < 0 || !is_inside(&file->map[map], piece->data, low, high))
        return fail(BAD_FILE, "%s: elements of tensor '%.200s' lie outside of the file, so it is truncated or"
                    " damaged", file->path, tensor->name);
    return OK;
}

static bool overlap(const ForeignPiece *a, const ForeignPiece *b)
{
    for (int d = 0; d < FOREIGN_DIMS; d++)
        if (a->offset[d] >= b->offset[d] + b->shape[d] || b->offset[d] >= a->offset[d] + a->shape[d])
            return false;
    return true;
}

/* Boxes inside a tensor that do not overlap and have its number of elements cover it. */
static Status cover_check(const ForeignFile *file, const ForeignTensor *tensor)
{
    int64_t covered = 0;
    for (int p = 0; p < tensor->pieces; p++) {
        const ForeignPiece *piece = &tensor->piece[p];
        covered += piece->shape[0] * piece->shape[1] * piece->shape[2] * piece->shape[3];
        for (int q = 0; q < p; q++)
            if (overlap(piece, &tensor->piece[q]))
                return fail(BAD_FILE, "%s: two parts of tensor '%.200s' hold the same elements", file->path,
                            tensor->name);
    }
    if (covered == foreign_count(tensor)) return OK;
    return fail(BAD_FILE, "%s: the parts of tensor '%.200s' have %lld of its %lld elements", file->path,
                tensor->name, (long long)covered, (long long)foreign_count(tensor));
}

Status foreign_finish(ForeignFile *file)
{
    TRY(maps_sort(file));
    if (file->sums) qsort(file->sum, file->sums, sizeof *file->sum, sum_order);
    if (file->tensors) qsort(file->tensor, (size_t)file->tensors, sizeof *file->tensor, name_order);
    for (int i = 0; i < file->tensors; i++) {
        ForeignTensor *tensor = &file->tensor[i];
        if (i && name_order(tensor - 1, tensor) == 0)
            return fail(BAD_FILE, "%s: two tensors are named '%.200s'", file->path, tensor->name);
        for (int p = 0; p < tensor->pieces; p++) TRY(piece_check(file, tensor, &tensor->piece[p]));
        TRY(cover_check(file, tensor));
        file->states |= tensor->kind == FOREIGN_MOMENT && file->position.updates >= 0;
    }
    return OK;
}

const char *foreign_kind_name(ForeignKind kind)
{
    static const char *const names[FOREIGN_KINDS] = { "", "exp_avg", "exp_avg_sq", "master weights" };
    return names[kind];
}

const ForeignTensor *foreign_find(const ForeignFile *file, ForeignKind kind, const char *name)
{
    ForeignTensor wanted = { .kind = kind, .name = (char *)name };
    if (!file->tensors) return NULL;
    return bsearch(&wanted, file->tensor, (size_t)file->tensors, sizeof wanted, name_order);
}

static Status need_at(const ForeignFile *file, const char *data)
{
    int map = foreign_map_of(file, data);
    return map < 0 ? OK : file_map_fill(&file->map[map]);
}

Status foreign_need(ForeignFile *file, const ForeignTensor *tensor)
{
    ForeignTensor *t = &file->tensor[tensor - file->tensor];
    for (int p = 0; p < t->pieces && !t->opened; p++) TRY(need_at(file, t->piece[p].data));
    t->opened = true;
    return OK;
}

/* ---- reading ---- */

/* The piece with the element of these indices. */
static const ForeignPiece *piece_of(const ForeignTensor *tensor, const int64_t *at)
{
    for (int p = 0; p < tensor->pieces; p++) {
        const ForeignPiece *piece = &tensor->piece[p];
        bool inside = true;
        for (int d = 0; d < FOREIGN_DIMS; d++)
            inside &= at[d] >= piece->offset[d] && at[d] < piece->offset[d] + piece->shape[d];
        if (inside) return piece;
    }
    CHECK(false, "tensor '%s' has no piece with an element", tensor->name);
    return NULL;
}

/* n elements that are `step` elements apart in memory. */
static void strided_copy(void *to, Dtype to_dtype, const char *from, Dtype dtype, int64_t step, int64_t n)
{
    enum { BUFFER = 4096 };
    char   buffer[BUFFER];
    size_t width = dtype_width(dtype), made = dtype_width(to_dtype);
    if (step == 1 && dtype == to_dtype) memcpy(to, from, (size_t)n * width);
    else if (step == 1) dtype_convert(to, to_dtype, from, dtype, n);
    for (int64_t done = 0, some; step != 1 && done < n; done += some) {
        some = n - done < (int64_t)(BUFFER / width) ? n - done : (int64_t)(BUFFER / width);
        const char *element = from + done * step * (int64_t)width;
        for (int64_t i = 0; i < some; i++, element += step * (int64_t)width)
            memcpy(buffer + (size_t)i * width, element, width);
        char *out = (char *)to + (size_t)done * made;
        if (dtype == to_dtype) memcpy(out, buffer, (size_t)some * width);
        else dtype_convert(out, to_dtype, buffer, dtype, some);
    }
}

/* How many of `count` elements from index `at` on, `step` apart, are in this piece's row, or 1. */
static int64_t run_in_row(const ForeignPiece *piece, const int64_t *at, int inner, int64_t step,
                          int64_t count)
{
    int64_t in_row = piece->offset[inner] + piece->shape[inner] - at[inner];
    int64_t fits = step > 0 ? (in_row + step - 1) / step : 1;
    return fits < count ? fits : count;
}

/* Whether the pieces are one, row-major: then a range of elements is a range of memory. */
static bool one_whole(const ForeignTensor *tensor)
{
    int64_t stride = 1;
    if (tensor->pieces != 1) return false;
    for (int d = FOREIGN_DIMS - 1; d >= 0; d--) {
        if (tensor->shape[d] > 1 && tensor->piece->stride[d] != stride) return false;
        stride *= tensor->shape[d];
    }
    return true;
}

void foreign_read(const ForeignTensor *tensor, int64_t first, int64_t step, int64_t count, void *to,
                  Dtype to_dtype)
{
    int64_t at[FOREIGN_DIMS], width = (int64_t)dtype_width(tensor->dtype), n;
    int     inner = tensor->dims ? tensor->dims - 1 : 0;
    if (count == 0) return;
    CHECK(first >= 0 && first + (count - 1) * step >= 0 && first < foreign_count(tensor) &&
          first + (count - 1) * step < foreign_count(tensor), "elements beyond tensor '%s'", tensor->name);
    if (one_whole(tensor)) {
        strided_copy(to, to_dtype, tensor->piece->data + first * width, tensor->dtype, step, count);
        return;
    }
    for (int64_t done = 0; done < count; done += n) {
        int64_t rest = first + done * step, index = 0;
        for (int d = FOREIGN_DIMS - 1; d >= 0; rest /= tensor->shape[d--]) at[d] = rest % tensor->shape[d];
        const ForeignPiece *piece = piece_of(tensor, at);
        for (int d = 0; d < FOREIGN_DIMS; d++) index += (at[d] - piece->offset[d]) * piece->stride[d];
        n = run_in_row(piece, at, inner, step, count - done);
        strided_copy((char *)to + (size_t)done * dtype_width(to_dtype), to_dtype, piece->data + index * width,
                     tensor->dtype, n > 1 ? step * piece->stride[inner] : 1, n);
    }
}

static void advise(const char *begin, int64_t bytes, int advice)
{
    int64_t into = (int64_t)((uintptr_t)begin % (uintptr_t)sysconf(_SC_PAGESIZE));
    madvise((void *)(begin - into), (size_t)(bytes + into), advice);
}

/* Since Linux 5.14. A system without it reads page by page, when they are touched. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
void foreign_fetch(const char *data, int64_t bytes) { advise(data, bytes, MADV_POPULATE_READ); }
void foreign_forget(const char *data, int64_t bytes) { advise(data, bytes, MADV_DONTNEED); }

const char *foreign_elements(const ForeignTensor *tensor, int64_t first)
{
    return one_whole(tensor) ? tensor->piece->data + first * (int64_t)dtype_width(tensor->dtype) : NULL;
}

void foreign_expect(const ForeignTensor *tensor, int64_t bytes)
{
    int64_t size = foreign_count(tensor) * (int64_t)dtype_width(tensor->dtype);
    if (size && one_whole(tensor)) advise(tensor->piece->data, size < bytes ? size : bytes, MADV_WILLNEED);
}

void foreign_release(const ForeignFile *file)
{
    for (int i = 0; i < file->maps; i++)
        if (file->map[i].size) madvise((void *)file->map[i].data, file->map[i].size, MADV_DONTNEED);
}

/* ---- checksums, each compared once ---- */

static int place_in_range(const void *data, const void *sum)
{
    const ForeignSum *s = sum;
    return (const char *)data < s->data ? -1 : (const char *)data >= s->data + s->bytes;
}

static ForeignSum *sum_at(const ForeignFile *file, const char *data)
{
    ForeignSum *s = file->sums ? bsearch(data, file->sum, file->sums, sizeof *s, place_in_range) : NULL;
    return s && !s->compared ? s : NULL;
}

ForeignSum *foreign_sum_of(const ForeignFile *file, const char *data)
{
    ForeignSum *s = sum_at(file, data);
    return s && s->xxh3 ? s : NULL;
}

Status foreign_compare(const ForeignFile *file, ForeignSum *of, uint64_t sum)
{
    int map = foreign_map_of(file, of->data);
    of->compared = true;
    if (sum == of->sum) return OK;
    CHECK(map >= 0, "a checksum of bytes that are in no file");
    int64_t at = of->data - (const char *)file->map[map].data;
    return fail(BAD_FILE,
                "%s: '%.*s', bytes %lld to %lld, has another checksum than when it was saved, so that it is "
                "damaged; copy the file again from where it was saved, or give another checkpoint",
                file->map[map].path, (int)(of->name_bytes < 200 ? of->name_bytes : 200), of->name,
                (long long)at, (long long)(at + of->bytes));
}

static Status sum_read(const ForeignFile *file, ForeignSum *s)
{
    enum { WINDOW = 4 << 20, AHEAD = 8 * WINDOW };
    XXH3_state_t *hash = XXH3_createState();
    unsigned long crc = 0;
    if (!hash) return fail(NO_MEMORY, "%s: no memory for a checksum", file->path);
    XXH3_64bits_reset(hash);
    for (int64_t at = 0, n; at < s->bytes; at += n) {
        const char *data = s->data + at;
        n = s->bytes - at < WINDOW ? s->bytes - at : WINDOW;
        advise(data, s->bytes - at < AHEAD ? s->bytes - at : AHEAD, MADV_WILLNEED);
        foreign_fetch(data, n);
        if (s->xxh3) XXH3_64bits_update(hash, data, (size_t)n);
        else         crc = crc32_z(crc, (const uint8_t *)data, (size_t)n);
        foreign_forget(data, n);
    }
    uint64_t sum = s->xxh3 ? XXH3_64bits_digest(hash) : crc;
    XXH3_freeState(hash);
    return foreign_compare(file, s, sum);
}

Status foreign_verify(const ForeignFile *file, const ForeignTensor *tensor, int64_t part, int64_t parts)
{
    for (int p = 0; p < tensor->pieces && file->sums; p++) {
        ForeignSum *s = sum_at(file, tensor->piece[p].data);
        if (!s || s->number % parts != part) continue;
        TRY(need_at(file, s->data));
        TRY(sum_read(file, s));
    }
    return OK;
}
