/* Checksums of ranges of mapped files, compared once for each range. */
#include <stdlib.h>
#include <zlib.h>
#include "base/array.h"
#include "convert/foreign.h"

enum { PART_BYTES = 64 << 20 };

Status foreign_sum(ForeignFile *file, const ForeignSum *sum)
{
    TRY(ARRAY_RESERVE(file->sum, file->sum_room, file->sums + 1));
    file->sum[file->sums] = *sum;
    file->sum[file->sums].number = (int64_t)file->sums;
    file->sums++;
    return OK;
}

static int by_place(const void *a, const void *b)
{
    const ForeignSum *x = a, *y = b;
    return (x->data > y->data) - (x->data < y->data);
}

void foreign_sums_sort(ForeignFile *file)
{
    if (file->sums) qsort(file->sum, file->sums, sizeof *file->sum, by_place);
}

/* The range with the byte at `data`; NULL: none has it. */
static ForeignSum *sum_of(const ForeignFile *file, const char *data)
{
    size_t low = 0, high = file->sums;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        ForeignSum *s = &file->sum[middle];
        if (data >= s->data && data < s->data + s->bytes) return s;
        if (data < s->data) high = middle;
        else                low = middle + 1;
    }
    return NULL;
}

static const char *path_of(const ForeignFile *file, const char *data)
{
    int map = foreign_map_of(file, data);
    return map < 0 ? file->path : file->map[map].path;
}

static Status sum_compare(const ForeignFile *file, ForeignSum *s)
{
    unsigned long crc = 0;
    for (size_t at = 0, n; at < s->bytes; at += n) {
        n   = s->bytes - at < PART_BYTES ? s->bytes - at : PART_BYTES;
        crc = crc32_z(crc, (const Bytef *)s->data + at, n);
        if (n == PART_BYTES) foreign_release(file);
    }
    s->compared = true;
    if (crc == s->crc) return OK;
    return fail(BAD_FILE,
                "%s: the entry %.*s is damaged: its CRC-32 is %08lx, and the archive's directory has %08lx; "
                "copy the file again from where it was saved",
                path_of(file, s->data), (int)(s->name_bytes < 200 ? s->name_bytes : 200), s->name, crc,
                (unsigned long)s->crc);
}

Status foreign_verify(const ForeignFile *file, const ForeignTensor *tensor, int64_t part, int64_t parts)
{
    for (int p = 0; p < tensor->pieces && file->sums; p++) {
        ForeignSum *s = sum_of(file, tensor->piece[p].data);
        if (!s || s->compared || s->number % parts != part) continue;
        TRY(foreign_need_at(file, s->data));
        TRY(sum_compare(file, s));
    }
    return OK;
}
