/* The directory at the end of a zip archive, checked against the archive. The layout is PKWARE's
 * "APPNOTE.TXT"; numbers are little-endian. */
#include "convert/torch/zip.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "base/reader.h"

enum {
    LOCAL_MAGIC = 0x04034b50, LOCAL_BYTES = 30, CENTRAL_MAGIC = 0x02014b50, CENTRAL_BYTES = 46,
    END_MAGIC = 0x06054b50, END_BYTES = 22, COMMENT_MAX = 65535,
    END64_MAGIC = 0x06064b50, END64_BYTES = 56, LOCATOR_MAGIC = 0x07064b50, LOCATOR_BYTES = 20,
    EXTRA64 = 1, FLAG_ENCRYPTED = 1, FLAG_MASKED = 1 << 13
};

/* The archive is a reader that stays at its beginning. The directory: its place, bytes and entries. */
typedef struct { uint64_t at, bytes, entries, end; } Directory;

/* The end record is the last thing but for a comment, whose length it says. */
static Status end_find(uint64_t *at, const ByteReader *b)
{
    for (size_t comment = 0; comment <= COMMENT_MAX && comment + END_BYTES <= reader_left(b); comment++) {
        const uint8_t *end = b->begin + reader_left(b) - END_BYTES - comment;
        if (little_endian(end, 4) != END_MAGIC || little_endian(end + 20, 2) != comment) continue;
        *at = (uint64_t)(end - b->begin);
        return OK;
    }
    return fail(BAD_FILE, "%s: no zip directory at its end, so the file is truncated or damaged", b->path);
}

/* Fields that are all ones stand in the zip64 end record, which a locator before the end record points to. */
static Status directory_find(Directory *d, const ByteReader *b)
{
    uint64_t at = 0;
    TRY(end_find(&at, b));
    const uint8_t *end = b->begin + at;
    *d = (Directory){ .at = little_endian(end + 16, 4), .bytes = little_endian(end + 12, 4),
                      .entries = little_endian(end + 10, 2), .end = at };
    if (little_endian(end + 4, 2) != little_endian(end + 6, 2) || little_endian(end + 8, 2) != d->entries)
        return fail(BAD_FILE, "%s: a zip archive of several disks", b->path);
    if (d->entries == 0xffff || d->at == 0xffffffff || d->bytes == 0xffffffff) {
        uint64_t locator = at - LOCATOR_BYTES, end64;
        if (at < LOCATOR_BYTES || little_endian(b->begin + locator, 4) != LOCATOR_MAGIC)
            return fail(BAD_FILE, "%s: a zip directory whose 64-bit record is missing", b->path);
        end64 = little_endian(b->begin + locator + 8, 8);
        if (locator < END64_BYTES || end64 > locator - END64_BYTES
            || little_endian(b->begin + end64, 4) != END64_MAGIC)
            return fail(BAD_FILE, "%s: a zip directory whose 64-bit record lies outside", b->path);
        const uint8_t *record = b->begin + end64;
        *d = (Directory){ .at = little_endian(record + 48, 8), .bytes = little_endian(record + 40, 8),
                          .entries = little_endian(record + 32, 8), .end = end64 };
    }
    if (d->at > d->end || d->bytes > d->end - d->at)
        return fail(BAD_FILE, "%s: a zip directory at byte %llu of %llu bytes lies outside the file",
                    b->path, (unsigned long long)d->at, (unsigned long long)d->bytes);
    if (d->entries > d->bytes / CENTRAL_BYTES)
        return fail(BAD_FILE, "%s: a zip directory of %llu bytes cannot have %llu entries", b->path,
                    (unsigned long long)d->bytes, (unsigned long long)d->entries);
    return OK;
}

/* The zip64 extra field has those of the three numbers that are all ones in their own place,
 * in this order. */
static bool extra_read(const uint8_t *extra, size_t bytes, uint64_t *number[3])
{
    while (bytes >= 4) {
        size_t kind = little_endian(extra, 2), size = little_endian(extra + 2, 2);
        if (size > bytes - 4) return false;
        if (kind == EXTRA64) {
            size_t at = 4;
            for (int i = 0; i < 3; i++) {
                if (*number[i] != 0xffffffff) continue;
                if (at + 8 > size + 4) return false;
                *number[i] = little_endian(extra + at, 8);
                at += 8;
            }
            return true;
        }
        extra += size + 4, bytes -= size + 4;
    }
    return *number[0] != 0xffffffff && *number[1] != 0xffffffff && *number[2] != 0xffffffff;
}

/* The local header repeats the name; the data follows its name and extra field. */
static Status local_check(ZipEntry *e, const ByteReader *b, uint64_t header, uint64_t bytes, uint64_t limit,
                          size_t i)
{
    const uint8_t *local = b->begin + (header < limit ? header : 0);
    if (header > limit || limit - header < LOCAL_BYTES || little_endian(local, 4) != LOCAL_MAGIC)
        return fail(BAD_FILE, "%s: entry %zu of the zip directory points to byte %llu, where no entry is",
                    b->path, i, (unsigned long long)header);
    uint64_t name = little_endian(local + 26, 2), skip = LOCAL_BYTES + name + little_endian(local + 28, 2);
    if (name != e->name_bytes || limit - header < skip || memcmp(local + LOCAL_BYTES, e->name, name) != 0)
        return fail(BAD_FILE, "%s: entry %zu has another name in the zip directory than at its data",
                    b->path, i);
    if (bytes > limit - header - skip)
        return fail(BAD_FILE, "%s: entry %zu of the zip directory has %llu bytes, %llu are there", b->path,
                    i, (unsigned long long)bytes, (unsigned long long)(limit - header - skip));
    e->data   = local + skip;
    e->bytes  = bytes;
    e->header = header;
    return OK;
}

static Status entry_read(ZipEntry *e, const ByteReader *b, const Directory *d, uint64_t *at, size_t i)
{
    const uint8_t *c = b->begin + *at;
    uint64_t       room = d->at + d->bytes - *at;
    if (room < CENTRAL_BYTES || little_endian(c, 4) != CENTRAL_MAGIC)
        return fail(BAD_FILE, "%s: entry %zu of the zip directory is damaged", b->path, i);
    uint64_t packed = little_endian(c + 20, 4), bytes = little_endian(c + 24, 4);
    uint64_t name = little_endian(c + 28, 2), extra = little_endian(c + 30, 2);
    uint64_t comment = little_endian(c + 32, 2), header = little_endian(c + 42, 4);
    if (room - CENTRAL_BYTES < name + extra + comment
        || !extra_read(c + CENTRAL_BYTES + name, extra, (uint64_t *[]){ &bytes, &packed, &header }))
        return fail(BAD_FILE, "%s: entry %zu of the zip directory is damaged", b->path, i);
    if (little_endian(c + 8, 2) & (FLAG_ENCRYPTED | FLAG_MASKED))
        return fail(BAD_FILE, "%s: entry %zu of the zip archive is encrypted", b->path, i);
    if (little_endian(c + 10, 2) != 0 || packed != bytes)
        return fail(BAD_FILE,
                    "%s: entry %zu of the zip archive is compressed; torch.save writes stored entries, as "
                    "`zip -0` does",
                    b->path, i);
    *e = (ZipEntry){ .name = (const char *)c + CENTRAL_BYTES, .name_bytes = name,
                     .crc = (uint32_t)little_endian(c + 16, 4) };
    *at += CENTRAL_BYTES + name + extra + comment;
    return local_check(e, b, header, bytes, d->at, i);
}

static int by_header(const void *a, const void *b)
{
    const ZipEntry *x = a, *y = b;
    return x->header < y->header ? -1 : x->header > y->header;
}

int names_compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

static int by_name(const void *a, const void *b)
{
    const ZipEntry *x = a, *y = b;
    return names_compare(x->name, x->name_bytes, y->name, y->name_bytes);
}

static Status entries_check(ZipArchive *zip, const ByteReader *b)
{
    if (zip->entries == 0) return OK;
    qsort(zip->entry, zip->entries, sizeof *zip->entry, by_header);
    for (size_t i = 1; i < zip->entries; i++)
        if (zip->entry[i - 1].data + zip->entry[i - 1].bytes > b->begin + zip->entry[i].header)
            return fail(BAD_FILE, "%s: entries of the zip archive overlap at byte %zu", b->path,
                        zip->entry[i].header);
    qsort(zip->entry, zip->entries, sizeof *zip->entry, by_name);
    for (size_t i = 1; i < zip->entries; i++)
        if (by_name(&zip->entry[i - 1], &zip->entry[i]) == 0)
            return fail(BAD_FILE, "%s: two entries of the zip archive have one name, the second at byte %zu",
                        b->path, zip->entry[i].header);
    return OK;
}

static Status directory_read(ZipArchive *zip, const ByteReader *b)
{
    Directory d;
    TRY(directory_find(&d, b));
    uint64_t at = d.at;
    if (!(zip->entry = calloc(d.entries + 1, sizeof *zip->entry)))
        return fail(NO_MEMORY, "%s: no memory for %llu entries of a zip archive", b->path,
                    (unsigned long long)d.entries);
    for (; zip->entries < d.entries; zip->entries++)
        TRY(entry_read(&zip->entry[zip->entries], b, &d, &at, zip->entries));
    if (at != d.at + d.bytes)
        return fail(BAD_FILE, "%s: the zip directory has more bytes than its %zu entries", b->path,
                    zip->entries);
    return entries_check(zip, b);
}

Status zip_open(ZipArchive *zip, const uint8_t *data, size_t size, const char *label)
{
    *zip = (ZipArchive){ 0 };
    Status status = directory_read(zip, &(ByteReader){ data, data + size, data, label, NULL });
    if (status != OK) zip_close(zip);
    return status;
}

void zip_close(ZipArchive *zip)
{
    free(zip->entry);
    *zip = (ZipArchive){ 0 };
}

Status zip_check(const ZipEntry *entry, const char *label)
{
    unsigned long crc = entry->crc ? crc32_z(0, entry->data, entry->bytes) : 0;
    if (crc == entry->crc) return OK;
    return fail(BAD_FILE, "%s: its entry %.*s is damaged: its CRC-32 is %08lx, and the archive's directory "
                "has %08lx; copy the file again from where it was saved", label,
                (int)(entry->name_bytes < 200 ? entry->name_bytes : 200), entry->name, crc,
                (unsigned long)entry->crc);
}

const ZipEntry *zip_find(const ZipArchive *zip, const char *prefix, size_t prefix_bytes, const char *name,
                         size_t name_bytes)
{
    size_t low = 0, high = zip->entries;
    while (low < high) {
        size_t          middle = low + (high - low) / 2;
        const ZipEntry *e      = &zip->entry[middle];
        size_t          shared = e->name_bytes < prefix_bytes ? e->name_bytes : prefix_bytes;
        int order = names_compare(e->name, shared, prefix, prefix_bytes);
        if (order == 0)
            order = names_compare(e->name + prefix_bytes, e->name_bytes - prefix_bytes, name, name_bytes);
        if (order == 0) return e;
        if (order < 0) low = middle + 1;
        else           high = middle;
    }
    return NULL;
}
