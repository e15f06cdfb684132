#ifndef CONVERT_TORCH_ZIP_H
#define CONVERT_TORCH_ZIP_H
/* Zip archives whose entries are stored, not compressed: the container of PyTorch's files. An entry is a
 * range of the caller's memory. Archives of any size are read (zip64); what is compressed, encrypted or
 * spread over several disks is refused, and so are archives whose directory contradicts itself: two entries
 * of one name, entries that overlap or lie outside, a local header that names another entry.
 *
 * CRC-32 sums are compared by zip_check alone. Opening takes 48 bytes of memory for each entry, which has 76
 * bytes in the archive or more, and O(n log n) time in the entries. */
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct {
    const char    *name;                   /* in the archive, without a final NUL */
    size_t         name_bytes;
    const uint8_t *data;                   /* `bytes` of them, in the archive; may be unaligned */
    size_t         bytes;
    uint32_t       crc;                    /* 0: not compared, as an option of PyTorch leaves it out */
    size_t         header;                 /* where its local header is; entries are sorted by name */
} ZipEntry;

typedef struct { ZipEntry *entry; size_t entries; } ZipArchive;        /* entry: owned */

/* `label` names the file in messages. BAD_FILE, NO_MEMORY; then *zip is all zeros. */
Status zip_open (ZipArchive *zip, const uint8_t *data, size_t size, const char *label);
void   zip_close(ZipArchive *zip);
/* Reads an entry whole. BAD_FILE, naming it: its CRC-32 is not that of the directory. */
Status zip_check(const ZipEntry *entry, const char *label);
/* As memcmp, of texts with their bytes. */
int    names_compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes);
/* By "prefix" followed by `name`, binary search; NULL: there is none. */
const ZipEntry *zip_find(const ZipArchive *zip, const char *prefix, size_t prefix_bytes, const char *name,
                         size_t name_bytes);
#endif
