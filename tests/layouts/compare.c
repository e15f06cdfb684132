#include "layouts/compare.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/checkpoint.h"
#include "store/safetensors.h"
#include "tensor/dtype.h"

static double real(const SafeFile *f, const SafeTensor *x, size_t n)
{
    double value;
    if (x->dtype == U8) return ((const uint8_t *)f->map.data)[x->at + n];
    dtype_convert(&value, F64, f->map.data + x->at + n * dtype_width(x->dtype), x->dtype, 1);
    return value;
}

/* The states of an optimizer are named after their weight. */
static bool compared(const SafeTensor *x, bool states)
{
    const char *ending = strrchr(x->name, '.');
    return states || (ending && (!strcmp(ending, ".weight") || !strcmp(ending, ".bias")));
}

/* Whether `b` has each tensor of `a`, with its size and type. */
static Status tensors_within(const SafeFile *a, const SafeFile *b, bool states)
{
    for (int i = 0; i < a->tensors; i++) {
        const SafeTensor *x = &a->tensor[i], *y = safetensors_find(b, x->name);
        if (!compared(x, states) || (y && y->bytes == x->bytes && y->dtype == x->dtype)) continue;
        return fail(BAD_SHAPE, "%s of %s is not in %s, or of another size", x->name, a->map.path, b->map.path);
    }
    return OK;
}

static void tensor_compare(Difference *d, const SafeFile f[2], const SafeTensor *x)
{
    const SafeTensor *y = safetensors_find(&f[1], x->name);
    for (size_t n = 0; n < x->bytes / dtype_width(x->dtype) && !isnan(d->off); n++) {
        double off = fabs(real(&f[0], x, n) - real(&f[1], y, n));
        if (off <= d->off) continue;
        d->off = off;
        snprintf(d->worst, sizeof d->worst, "%.100s[%zu]", x->name, n);
    }
}

static Status file_compare(Difference *d, const char *mine, const char *other, bool states)
{
    SafeFile f[2];
    TRY(safetensors_open(&f[0], mine));
    Status status = safetensors_open(&f[1], other);
    if (status == OK) status = tensors_within(&f[0], &f[1], states);
    if (status == OK) status = tensors_within(&f[1], &f[0], states);
    for (int i = 0; status == OK && i < f[0].tensors; i++)
        if (compared(&f[0].tensor[i], states)) tensor_compare(d, f, &f[0].tensor[i]);
    for (int i = 0; i < 2; i++) safetensors_close(&f[i]);
    return status;
}

static int holds_tensors(const struct dirent *entry)
{
    const char *ending = strrchr(entry->d_name, '.');
    return ending && !strcmp(ending, ".safetensors");
}

/* Whether `other` has each file that `mine` has; where d is not NULL they are compared. */
static Status files_within(Difference *d, const char *mine, const char *other, bool states)
{
    struct dirent **file;
    Status status = OK;
    int    files  = scandir(mine, &file, holds_tensors, alphasort);
    if (files <= 0) return fail(BAD_FILE, "%s has no files of tensors", mine);
    for (int i = 0; i < files; i++) {
        char path[2][1024];
        if (status == OK) status = path_join(path[0], mine, file[i]->d_name);
        if (status == OK) status = path_join(path[1], other, file[i]->d_name);
        if (status == OK && !file_exists(path[1])) status = fail(BAD_SHAPE, "%s is not in %s", file[i]->d_name, other);
        if (status == OK && d) status = file_compare(d, path[0], path[1], states);
        free(file[i]);
    }
    free(file);
    return status;
}

Status weight_files_compare(Difference *d, const char *mine, const char *other, bool states)
{
    TRY(files_within(NULL, other, mine, states));
    return files_within(d, mine, other, states);
}

Status checkpoints_compare(Difference *d, const char *mine, const char *other, bool states)
{
    char dir[2][1024];
    bool found[2];
    TRY(checkpoint_find(mine, dir[0], &found[0]));
    TRY(checkpoint_find(other, dir[1], &found[1]));
    if (!found[0] || !found[1]) return fail(BAD_FILE, "no checkpoint in %s", found[0] ? other : mine);
    return weight_files_compare(d, dir[0], dir[1], states);
}
