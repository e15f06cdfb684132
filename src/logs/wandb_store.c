#include "logs/wandb_store.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "base/file.h"
#include "base/protobuf.h"
#include "logs/log_file.h"

#define OPTION "--wandb-project"
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
    buffer_add_number_or_stop(out, crc32_z(crc32_z(0, &kind, 1), data, size), 4);
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
        if (sum != crc32_z(crc32_z(0, &kind, 1), part + HEAD, bytes)) return false;
        buffer_add_or_stop(record, part + HEAD, bytes);
        next += HEAD + bytes;
    }
    *at = next;
    return true;
}

/* ---- what earlier starts have left ---- */

static Status resume_path(char path[1024], const char *directory)
{
    return path_join(path, directory, "wandb-resume.json");
}

Status wandb_earlier_id(char id[9], bool *known, const char *directory)
{
    char path[1024];
    FileMap map;
    TRY(resume_path(path, directory));
    *known = false;
    if (!file_exists(path)) return OK;
    TRY(file_map(&map, path));
    json_t *object = map.size < 4096 ? json_loadb((const char *)map.data, map.size, 0, NULL) : NULL;
    const char *text = json_string_value(json_object_get(object, "run_id"));
    *known = text && strlen(text) == 8 && strspn(text, WANDB_ID_SIGNS) == 8;
    if (*known) memcpy(id, text, 9);
    json_decref(object);
    file_unmap(&map);
    return OK;
}

Status wandb_earlier_keep_id(const char *directory, const char *id)
{
    char path[1024], text[64];
    TRY(resume_path(path, directory));
    snprintf(text, sizeof text, "{\"run_id\": \"%s\"}", id);
    return file_write_whole(path, text, strlen(text));
}

/* The run time of a history record, whose item has the key "_runtime". */
static double run_time(ByteReader history)
{
    ProtobufField item, part;
    char number[64];
    while (protobuf_has_next(&item, &history)) {
        bool wanted = false;
        while (item.field == ITEMS && protobuf_has_next(&part, &item.bytes)) {
            size_t bytes = reader_left(&part.bytes);
            if (part.field == ITEM_KEY) wanted = bytes == 8 && memcmp(part.bytes.at, "_runtime", 8) == 0;
            if (!wanted || part.field != ITEM_VALUE || bytes >= sizeof number) continue;
            snprintf(number, sizeof number, "%.*s", (int)bytes, (const char *)part.bytes.at);
            return strtod(number, NULL);
        }
    }
    return 0;
}

static int64_t history_step(ByteReader history)
{
    ProtobufField f, step;
    while (protobuf_has_next(&f, &history))
        if (f.field == HISTORY_STEP && protobuf_has_next(&step, &f.bytes) && step.field == STEP_NUM)
            return (int64_t)step.number;
    return 0;
}

/* The summary of a row stands before the row. It and the exit record count as parts of the row before them
 * until the row itself tells whether it is kept. seconds: the run time of the last row that is */
static LogKept rows_kept(void *seconds, const FileMap *map, int64_t resumed)
{
    Buffer record = { 0 };
    ProtobufField f;
    LogKept k = { .bytes = WANDB_STORE_HEADER };
    *(double *)seconds = 0;
    for (size_t at = WANDB_STORE_HEADER; wandb_store_next(&record, map->data, map->size, &at);) {
        bool row = false, part = false;
        ByteReader fields = reader_open(record.text, (size_t)record.bytes, map->path, NULL);
        while (protobuf_has_next(&f, &fields)) {
            part |= f.field == RECORD_SUMMARY;
            if (f.field != RECORD_HISTORY || f.kind != PROTOBUF_BYTES) continue;
            row = true;
            if (history_step(f.bytes) > resumed) k.removed++;
            else k = (LogKept){ at, 0, true }, *(double *)seconds = run_time(f.bytes);
        }
        if (!row && !part && k.removed == 0) k.bytes = at;       /* of the start, or the exit record */
    }
    buffer_free(&record);
    return k;
}

Status wandb_earlier_cut(double *seconds, const char *directory, const char *id, int64_t resumed)
{
    LogNames names;
    LogCut   cut = { .option = OPTION " in", .place = directory, .records = "rows", .resumed = resumed,
                     .kept = rows_kept, .context = seconds };
    char     end[16], path[1100];
    *seconds = 0;
    snprintf(end, sizeof end, "-%s", id);
    TRY(log_names_find(&names, OPTION, directory, "offline-run-", end));
    Status status = OK;
    for (int i = 0; i < names.count && status == OK; i++) {
        snprintf(path, sizeof path, "%.900s/%.100s/run-%s.wandb", directory, names.name[i], id);
        status = log_cut(&cut, path);
    }
    log_names_free(&names);
    if (status == OK) log_cut_tell(&cut);
    return status;
}
