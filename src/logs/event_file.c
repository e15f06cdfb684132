/* The field numbers are those of TensorFlow's event.proto, summary.proto and tensor.proto. */
#include "logs/event_file.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "base/protobuf.h"

#define OPTION "--tensorboard-dir"
#define BEGIN  "events.out.tfevents."
#define TWIN   " vs samples"
static const char writer[] = "jotun";            /* SourceMetadata.writer of our own files */

enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SOURCE = 10 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { SOURCE_WRITER = 1, METADATA_PLUGIN = 1, PLUGIN_NAME = 1 };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_TEXT = 8, SHAPE_DIM = 2, DIM_SIZE = 1, TYPE_TEXT = 7 };

/* ---- the checksum ---- */

/* Entry i is the remainder of the four bits i for the reflected polynomial 0x82F63B78. */
static const uint32_t table[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

/* Four bits at a time: a step writes a few kilobytes, so that larger tables would gain nothing. */
uint32_t crc32_castagnoli(const void *data, size_t bytes)
{
    const uint8_t *p = data;
    uint32_t c = ~0u;
    for (size_t i = 0; i < bytes; i++) {
        c ^= p[i];
        c = c >> 4 ^ table[c & 15];
        c = c >> 4 ^ table[c & 15];
    }
    return ~c;
}

uint32_t crc32_masked(const void *data, size_t bytes)
{
    uint32_t c = crc32_castagnoli(data, bytes);
    return (c >> 15 | c << 17) + 0xa282ead8;
}

/* ---- what earlier runs left ---- */
typedef struct { bool ours, twin; int64_t step; } EventFacts;

/* Field `wanted` of a message; where it has none, one that holds nothing. */
static ProtobufField field_of(ByteReader message, uint64_t wanted)
{
    ProtobufField f;
    while (protobuf_has_next(&f, &message))
        if (f.field == wanted) return f;
    return (ProtobufField){ .bytes = reader_open("", 0, "", NULL) };
}

static bool ends_with(ByteReader text, const char *end)
{
    size_t n = strlen(end);
    return reader_left(&text) >= n && memcmp(text.end - n, end, n) == 0;
}

static EventFacts event_facts(ByteReader event)
{
    ByteReader source = field_of(event, EVENT_SOURCE).bytes, summary = field_of(event, EVENT_SUMMARY).bytes;
    ByteReader by  = field_of(source, SOURCE_WRITER).bytes;
    ByteReader tag = field_of(field_of(summary, SUMMARY_VALUE).bytes, VALUE_TAG).bytes;
    return (EventFacts){ .ours = reader_left(&by) == strlen(writer) && ends_with(by, writer),
                         .twin = ends_with(tag, TWIN), .step = (int64_t)field_of(event, EVENT_STEP).number };
}

/* The next message of the file. False at the end and before a record that is incomplete or damaged. */
static bool record_next(ByteReader *message, ByteReader *file)
{
    size_t left = reader_left(file);
    if (left < 16) return false;
    const uint8_t *p = file->at;
    uint64_t bytes = little_endian(p, 8);
    if (bytes > left - 16 || little_endian(p + 8, 4) != crc32_masked(p, 8)) return false;
    if (little_endian(p + 12 + bytes, 4) != crc32_masked(p + 12, bytes)) return false;
    *message = reader_open(p + 12, bytes, file->path, NULL);
    file->at += 16 + bytes;
    return true;
}

/* Up to the end of the last event that is not of a later step; all of them where another program wrote the
 * file. */
static LogKept events_kept(void *unused, const FileMap *map, int64_t resumed)
{
    LogKept    kept = { .bytes = map->size };
    ByteReader file = reader_open(map->data, map->size, map->path, NULL), event;
    (void)unused;
    if (!record_next(&event, &file) || !event_facts(event).ours) return kept;
    kept.bytes = reader_offset(&file);
    for (bool later = false; record_next(&event, &file);) {
        EventFacts e = event_facts(event);
        if (!e.twin) later = e.step > resumed;        /* a twin stands behind the event of its step */
        kept.removed++;
        if (!later) kept = (LogKept){ reader_offset(&file), 0, kept.reaches || e.step > 0 };
    }
    return kept;
}

/* Earlier files are of earlier steps. */
static Status cut_later(const LogNames *names, const char *directory, int64_t resumed)
{
    char   path[1024];
    LogCut cut = { .option = OPTION, .place = directory, .records = "events", .resumed = resumed,
                   .kept = events_kept };
    for (int i = 0; i < names->count; i++) {
        TRY(path_join(path, directory, names->name[i]));
        TRY(log_cut(&cut, path));
    }
    log_cut_tell(&cut);
    return OK;
}

/* ---- writing ---- */
/* Frames what was added since `begin`: length, its checksum, the bytes, their checksum. */
static void record_end(Buffer *out, int64_t begin)
{
    enum { HEAD = 12 };
    int64_t  end   = out->bytes;
    size_t   bytes = (size_t)(end - begin);
    char     head[HEAD];
    uint32_t sum = crc32_masked(out->text + begin, bytes);
    buffer_add_number_or_stop(out, bytes, 8);
    buffer_add_number_or_stop(out, crc32_masked(out->text + end, 8), 4);
    memcpy(head, out->text + end, HEAD);
    memmove(out->text + begin + HEAD, out->text + begin, bytes);
    memcpy(out->text + begin, head, HEAD);
    buffer_add_number_or_stop(out, sum, 4);
}

static int64_t event_begin(Buffer *out, double time, int64_t step)
{
    int64_t begin = out->bytes;
    protobuf_double(out, EVENT_TIME, time);
    protobuf_integer(out, EVENT_STEP, step);
    return begin;
}

static void add_scalars(Buffer *out, double time, int64_t step, const LogNamed *value, int count,
                        const char *end)
{
    char tag[160];
    if (count == 0) return;
    int64_t event = event_begin(out, time, step), summary = protobuf_begin(out);
    for (int i = 0; i < count; i++) {
        int64_t one = protobuf_begin(out);
        snprintf(tag, sizeof tag, "%s%s", value[i].name, end);
        protobuf_text(out, VALUE_TAG, tag);
        protobuf_float(out, VALUE_SIMPLE, (float)value[i].value);
        protobuf_end(out, SUMMARY_VALUE, one);
    }
    protobuf_end(out, EVENT_SUMMARY, summary);
    record_end(out, event);
}

void event_file_add(EventFile *e, double time, int64_t step, const LogNamed *value, int count,
                    int64_t samples, const LogNamed *twin, int twins)
{
    e->record.bytes = 0;
    add_scalars(&e->record, time, step, value, count, "");
    add_scalars(&e->record, time, samples, twin, twins, TWIN);
    if (e->record.bytes > 0) log_file_add(&e->file, e->record.text, e->record.bytes);
}

/* What the text plugin of TensorBoard reads: a tensor of one text. */
static void add_text(Buffer *out, const char *name, const char *text)
{
    char tag[160];
    int64_t value = protobuf_begin(out);
    snprintf(tag, sizeof tag, "%s/text_summary", name);
    protobuf_text(out, VALUE_TAG, tag);
    int64_t tensor = protobuf_begin(out);
    protobuf_integer(out, TENSOR_TYPE, TYPE_TEXT);
    int64_t shape = protobuf_begin(out), dim = protobuf_begin(out);
    protobuf_integer(out, DIM_SIZE, 1);
    protobuf_end(out, SHAPE_DIM, dim);
    protobuf_end(out, TENSOR_SHAPE, shape);
    protobuf_text(out, TENSOR_TEXT, text);
    protobuf_end(out, VALUE_TENSOR, tensor);
    int64_t metadata = protobuf_begin(out), plugin = protobuf_begin(out);
    protobuf_text(out, PLUGIN_NAME, "text");
    protobuf_end(out, METADATA_PLUGIN, plugin);
    protobuf_end(out, VALUE_METADATA, metadata);
    protobuf_end(out, SUMMARY_VALUE, value);
}

void event_file_add_text(EventFile *e, double time, int64_t step, const char *name, const char *text)
{
    e->record.bytes = 0;
    int64_t event = event_begin(&e->record, time, step), summary = protobuf_begin(&e->record);
    add_text(&e->record, name, text);
    protobuf_end(&e->record, EVENT_SUMMARY, summary);
    record_end(&e->record, event);
    log_file_add(&e->file, e->record.text, e->record.bytes);
}

void event_file_options(EventFile *e, double time, int64_t step, const char *options)
{
    const char *name;
    json_t *object = json_loads(options, 0, NULL), *value;
    CHECK(object, "the options are no JSON object");
    e->record.bytes = 0;
    int64_t event = event_begin(&e->record, time, step), summary = protobuf_begin(&e->record);
    json_object_foreach(object, name, value) {
        char key[LOG_OPTION_NAME], *text = log_option(key, name, value);
        add_text(&e->record, key, json_is_string(value) ? json_string_value(value) : text);
        free(text);
    }
    protobuf_end(&e->record, EVENT_SUMMARY, summary);
    record_end(&e->record, event);
    json_decref(object);
    log_file_add(&e->file, e->record.text, e->record.bytes);
}

/* The name has the time as TensorBoard's own writers have it, at least one second after the last file's:
 * readers take the files in the order of their names. */
static Status create(EventFile *e, const char *directory, double time, const char *last)
{
    char host[65] = "host", name[256], path[1024];
    long long seconds = (long long)time, before = last ? strtoll(last + sizeof BEGIN - 1, NULL, 10) : 0;
    gethostname(host, sizeof host - 1);
    if (seconds <= before) seconds = before + 1;
    snprintf(name, sizeof name, BEGIN "%010lld.%s.%ld.0", seconds, host, (long)getpid());
    TRY(path_join(path, directory, name));
    return log_file_open(&e->file, OPTION, path, true);
}

/* The first event says which version of the format follows and who writes. */
static void add_version(EventFile *e, double time)
{
    e->record.bytes = 0;
    protobuf_double(&e->record, EVENT_TIME, time);
    protobuf_text(&e->record, EVENT_VERSION, "brain.Event:2");
    int64_t source = protobuf_begin(&e->record);
    protobuf_text(&e->record, SOURCE_WRITER, writer);
    protobuf_end(&e->record, EVENT_SOURCE, source);
    record_end(&e->record, 0);
    log_file_add(&e->file, e->record.text, e->record.bytes);
}

Status event_file_open(EventFile *e, const char *directory, double time, int64_t resumed)
{
    LogNames names;
    *e = (EventFile){ 0 };
    Status status = folder_make(directory);
    if (status != OK)
        return fail(status, OPTION " %s; give a directory that can be written to", fail_text());
    TRY(log_names_find(&names, OPTION, directory, BEGIN, ""));
    status = resumed > 0 ? cut_later(&names, directory, resumed) : OK;
    if (status == OK) status = create(e, directory, time, names.count > 0 ? names.name[0] : NULL);
    log_names_free(&names);
    if (status == OK) add_version(e, time);
    return status;
}

Status event_file_close(EventFile *e, Status status, const char *saved)
{
    buffer_free(&e->record);
    return log_file_close(&e->file, status, saved);
}
