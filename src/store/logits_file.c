/* Logits as a safetensors file that several ranks fill. */
#include "store/logits_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/seam.h"
#include "store/safetensors.h"

/* header: [header_bytes] of the file, which has `bytes` bytes. The caller frees it. */
static Status begin(LogitsFile *f, const LogitsShape *shape, char **header, size_t *header_bytes,
                    size_t *bytes)
{
    SafeTensor tensor = { .name = "logits", .dtype = F32, .dims = 3,
                          .dim = { shape->prompts, shape->most, shape->vocabulary, 1 } };
    *f = (LogitsFile){ .shape = *shape, .fd = -1, .created = f->created };
    if (snprintf(f->part, sizeof f->part, "%s.part", shape->path) >= (int)sizeof f->part)
        return fail(BAD_OPTION, "--save-logits %.200s...: a path has at most %zu bytes", shape->path,
                    sizeof f->part - sizeof ".part");
    TRY(safetensors_header(&tensor, 1, header, header_bytes, bytes));
    f->first = (int64_t)tensor.at;
    return OK;
}

/* The last byte is written, so that all rows before it are zeros without being written. */
Status logits_file_create(LogitsFile *f, const LogitsShape *shape)
{
    char  *header;
    size_t header_bytes, bytes;
    TRY(begin(f, shape, &header, &header_bytes, &bytes));
    Status status = file_create(&f->fd, f->part);
    f->created = status == OK;
    if (status == OK) {
        status = file_write(f->fd, f->part, header, header_bytes, 0);
        if (status == OK) status = file_write(f->fd, f->part, "", 1, (int64_t)bytes - 1);
        seam.close(f->fd);
        f->fd = -1;
    }
    free(header);
    return status;
}

Status logits_file_open(LogitsFile *f, const LogitsShape *shape)
{
    char  *header;
    size_t header_bytes, bytes;
    TRY(begin(f, shape, &header, &header_bytes, &bytes));
    free(header);
    f->row = malloc((size_t)shape->vocabulary * sizeof *f->row);
    if (!f->row) return fail(NO_MEMORY, "no memory for %lld logits", (long long)shape->vocabulary);
    f->fd = seam.open(f->part, O_WRONLY, 0);
    if (f->fd >= 0) return OK;
    return fail(BAD_FILE, "--save-logits %s: rank 0 has created %s, and this rank cannot open it: %s; all "
                "hosts need the same folder there", shape->path, f->part, strerror(errno));
}

void logits_file_put(LogitsFile *f, int64_t prompt, int64_t number, const double *logits)
{
    size_t bytes = (size_t)f->shape.vocabulary * sizeof *f->row;
    for (int64_t v = 0; v < f->shape.vocabulary; v++) f->row[v] = (float)logits[v];
    if (f->status == OK)
        f->status = file_write(f->fd, f->part, f->row, bytes,
                               f->first + (prompt * f->shape.most + number) * (int64_t)bytes);
}

Status logits_file_close(LogitsFile *f)
{
    if (f->row && f->fd >= 0) {
        Status status = file_finish(f->fd, f->part);
        if (f->status == OK) f->status = status;
    }
    free(f->row);
    f->row = NULL;
    return f->status;
}

Status logits_file_name(const LogitsFile *f)
{
    TRY(file_rename(f->part, f->shape.path));
    return folder_sync_for(f->shape.path);
}

/* Not by the seam: an injected fault must not keep the left-over. */
void logits_file_remove(const LogitsFile *f)
{
    if (f->created) unlink(f->part);
}
