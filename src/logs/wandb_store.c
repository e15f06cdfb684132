#include "logs/wandb_store.h"
#include "base/reader.h"
#include "logs/checksum.h"

enum { BLOCK = 32768, HEAD = 7, FULL = 1, FIRST, MIDDLE, LAST };

void wandb_store_header(Buffer *out)
{
    buffer_add_or_stop(out, ":W&B", 4);
    buffer_add_number_or_stop(out, 0xbee1, 2);                /* of the format */
    buffer_add_number_or_stop(out, 0, 1);                     /* its version */
}

/* A part of a record: checksum over its kind and bytes, length, kind, bytes. */
static void add_part(Buffer *out, uint8_t kind, const uint8_t *data, size_t size)
{
    buffer_add_number_or_stop(out, crc32_zlib(crc32_zlib(0, &kind, 1), data, size), 4);
    buffer_add_number_or_stop(out, size, 2);
    buffer_add_or_stop(out, &kind, 1);
    buffer_add_or_stop(out, data, size);
}

void wandb_store_add(Buffer *out, size_t at, const void *record, size_t size)
{
    static const uint8_t zeros[HEAD];
    const uint8_t *data = record;
    for (bool first = true, last = false; !last; first = false) {
        size_t left = BLOCK - at % BLOCK, before = out->bytes;
        if (left < HEAD) {
            buffer_add_or_stop(out, zeros, left);
            left = BLOCK;
        }
        size_t part = size < left - HEAD ? size : left - HEAD;
        last = part == size;
        add_part(out, first ? last ? FULL : FIRST : last ? LAST : MIDDLE, data, part);
        data += part;
        size -= part;
        at += out->bytes - before;
    }
}

bool wandb_store_next(Buffer *record, const uint8_t *data, size_t size, size_t *at)
{
    size_t next = *at;
    record->bytes = 0;
    for (uint8_t kind = 0; kind != FULL && kind != LAST;) {
        size_t left = BLOCK - next % BLOCK;
        if (left < HEAD) next += left;
        if (next > size || size - next < HEAD) return false;
        const uint8_t *part = data + next;
        size_t bytes = little_endian(part + 4, 2);
        uint32_t sum = (uint32_t)little_endian(part, 4);
        bool first = record->bytes == 0 && kind == 0;
        kind = part[6];
        if (bytes > size - next - HEAD || bytes > BLOCK - HEAD - next % BLOCK) return false;
        if (kind < FULL || kind > LAST || first != (kind == FULL || kind == FIRST)) return false;
        if (sum != crc32_zlib(crc32_zlib(0, &kind, 1), part + HEAD, bytes)) return false;
        buffer_add_or_stop(record, part + HEAD, bytes);
        next += HEAD + bytes;
    }
    *at = next;
    return true;
}
