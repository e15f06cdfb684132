#ifndef FUZZ_FOREIGN_FILE_H
#define FUZZ_FOREIGN_FILE_H
/* What the targets that read checkpoints share. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "convert/foreign.h"

static inline void file_put(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

/* The first two bytes say how long the first part is; the rest is the second. */
static inline size_t first_part(const uint8_t **data, size_t *bytes)
{
    size_t part = (size_t)(*data)[0] | (size_t)(*data)[1] << 8;
    *data += 2, *bytes -= 2;
    return part < *bytes ? part : *bytes;
}

/* Some 64 elements of each tensor; where states are left out, none are there. */
static inline double everything_read(const ForeignFile *file)
{
    double sum = 0, number;
    bool   moment = false, other = false;
    for (int i = 0; i < file->tensors; i++) {
        const ForeignTensor *t = &file->tensor[i];
        int64_t count = foreign_count(t);
        for (int64_t k = 0; k < count; k += count / 64 + 1) foreign_read(t, k, 1, 1, &number, F64), sum += number;
        moment |= t->kind == FOREIGN_MOMENT, other |= t->kind > FOREIGN_MOMENT;
    }
    if (file->states != (moment && file->position.updates >= 0)) abort();
    if (*file->states_unread && (moment || other)) abort();
    return sum;
}
#endif
