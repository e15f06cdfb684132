/* A partitioned store for records that are gathered first and then read partition by partition. Each
 * partition collects records in chunks; full chunks stay in memory up to the limit and are then written to
 * one file, so that all writes are large and sequential. */
#include "corpus/dedup/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/seam.h"

enum { CHUNK_BYTES = 1 << 16, CHUNK_RECORDS_LEAST = 16 };

/* A partition is its full chunks in order, each in memory or in the file, and the open chunk after them. */
typedef struct { char *memory; int64_t at; } Chunk;       /* memory NULL: at byte `at` of the file */
typedef struct { Chunk *full; int64_t fulls, fulls_capacity; char *open; int64_t records; } Partition;

struct Spill {
    SpillFile  file;
    int        partitions;
    size_t     record;                  /* bytes of a record */
    int64_t    chunk_records,               /* records of a chunk */
               memory, held;                /* bytes: limit, of chunks in memory */
    Partition *partition;               /* [partitions] */
};

/* The file is unlinked at once, so that the system frees it however the process ends. */
Status spill_file_open(SpillFile *f, const char *what, const char *folder)
{
    *f = (SpillFile){ .fd = -1 };
    TRY(folder_make(folder));
    snprintf(f->what, sizeof f->what, "%s", what);
    snprintf(f->path, sizeof f->path, "%s/spill-%ld-%p", folder, (long)getpid(), (void *)f);
    f->fd = seam.open(f->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return fail(errno == ENOSPC ? IO_FAILED : BAD_FILE,
                    "%s: a file for %s cannot be created there: %s; name a writable work directory",
                    folder, f->what, strerror(errno));
    unlink(f->path);
    return OK;
}

Status spill_file_write(SpillFile *f, const void *data, size_t bytes, int64_t at)
{
    char had[24];
    if (file_write(f->fd, f->path, data, bytes, at) != OK)
        return fail(IO_FAILED, "%.220s; %s take %s there: free disk space, or name another work directory or"
                    " a higher --memory", fail_text(), f->what, log_bytes(had, (double)f->disk));
    f->disk += (int64_t)bytes;
    return OK;
}

void spill_file_close(SpillFile *f) { if (f->fd >= 0) seam.close(f->fd); }

/* A chunk of each partition is always open, so chunks are small enough that open ones take a quarter of
 * the memory; at 64 KiB larger ones would write no faster. */
Status spill_open(Spill **out, const char *what, const char *folder, size_t record, int partitions,
                  int64_t memory)
{
    *out = NULL;
    Spill *s = calloc(1, sizeof *s);
    if (!s || !(s->partition = calloc((size_t)partitions, sizeof *s->partition))) {
        free(s);
        return fail(NO_MEMORY, "no memory for %d partitions of %s", partitions, what);
    }
    int64_t most  = CHUNK_BYTES / (int64_t)record;
    int64_t share = memory / 4 / partitions / (int64_t)record;
    s->partitions    = partitions;
    s->record        = record;
    s->memory        = memory;
    s->chunk_records = share < CHUNK_RECORDS_LEAST ? CHUNK_RECORDS_LEAST : share < most ? share : most;
    Status status = spill_file_open(&s->file, what, folder);
    if (status == OK) *out = s;
    else              spill_close(s);
    return status;
}

/* The open chunk is full: it stays in memory while the limit allows, else it is written and its memory
 * reused. */
static Status chunk_close(Spill *s, Partition *p)
{
    size_t bytes = (size_t)s->chunk_records * s->record;
    TRY(ARRAY_RESERVE(p->full, p->fulls_capacity, p->fulls + 1));
    if (s->held < s->memory) {
        p->full[p->fulls++] = (Chunk){ .memory = p->open };
        p->open = NULL;
        return OK;
    }
    p->full[p->fulls++] = (Chunk){ .at = s->file.disk };
    return spill_file_write(&s->file, p->open, bytes, s->file.disk);
}

Status spill_add(Spill *s, int partition, const void *record)
{
    Partition *p  = &s->partition[partition];
    int64_t    in = p->records % s->chunk_records;
    if (in == 0 && p->records) TRY(chunk_close(s, p));
    if (!p->open) {
        if (!(p->open = malloc((size_t)s->chunk_records * s->record)))
            return fail(NO_MEMORY, "no memory to collect %s: %" PRId64 " bytes are held; a lower --memory"
                        " holds fewer", s->file.what, s->held);
        s->held += s->chunk_records * (int64_t)s->record;
    }
    memcpy(p->open + (size_t)in * s->record, record, s->record);
    p->records++;
    return OK;
}

int64_t spill_count(const Spill *s, int partition) { return s->partition[partition].records; }
int64_t spill_disk (const Spill *s) { return s->file.disk; }

Status spill_read(const Spill *s, int partition, void *out)
{
    const Partition *p = &s->partition[partition];
    char  *to = out;
    size_t bytes = (size_t)s->chunk_records * s->record;
    for (int64_t i = 0; i < p->fulls; i++, to += bytes) {
        const Chunk *chunk = &p->full[i];
        if (chunk->memory) memcpy(to, chunk->memory, bytes);
        else if (file_read_at(s->file.fd, s->file.path, to, bytes, chunk->at) != OK)
            return fail_prefix(IO_FAILED, "%s: ", s->file.what);
    }
    if (p->records) memcpy(to, p->open, (size_t)(p->records - p->fulls * s->chunk_records) * s->record);
    return OK;
}

void spill_drop(Spill *s, int partition)
{
    Partition *p = &s->partition[partition];
    for (int64_t i = 0; i < p->fulls; i++) free(p->full[i].memory);
    free(p->full);
    free(p->open);
    *p = (Partition){ 0 };
}

void spill_close(Spill *s)
{
    if (!s) return;
    for (int i = 0; i < s->partitions; i++) spill_drop(s, i);
    spill_file_close(&s->file);
    free(s->partition);
    free(s);
}
