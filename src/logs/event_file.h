#ifndef LOGS_EVENT_FILE_H
#define LOGS_EVENT_FILE_H
/* Event files of TensorBoard: records of TFRecord's framing, each an Event message
 * (docs/formats.md#tensorboard). Each start begins a new file, whose name sorts after all others in the
 * directory. */
#include "base/buffer.h"
#include "logs/log_file.h"
#include "logs/log_record.h"

typedef struct {
    LogFile file;
    Buffer  record;                          /* framed records that are written together */
} EventFile;

/* Makes the directory. resumed: the step that the run continues after, 0 for none: events of later steps at
 * the end of jotun's own files there are removed, because the run takes these steps again; other programs'
 * files stay as they are. BAD_FILE, IO_FAILED. */
Status event_file_open(EventFile *events, const char *directory, double time, int64_t resumed);
/* Scalars of one step, stored as fp32. `twins` are those whose step is the number of consumed samples. One
 * write. */
void   event_file_add (EventFile *events, double time, int64_t step, const LogNamed *value, int count,
                       int64_t samples, const LogNamed *twin, int twins);
/* A text of one step. One write. */
void   event_file_add_text(EventFile *events, double time, int64_t step, const char *name, const char *text);
/* Texts: names and values of `options`, which is one JSON object in text. */
void   event_file_options(EventFile *events, double time, int64_t step, const char *options);
Status event_file_close(EventFile *events, Status status, const char *saved);

/* CRC-32C (Castagnoli), of 32 bits, reflected. */
uint32_t crc32_castagnoli(const void *data, size_t bytes);
/* As TFRecord files store a CRC-32C: rotated and shifted, so that the checksum of bytes which contain
 * checksums is sound. */
uint32_t crc32_masked(const void *data, size_t bytes);
#endif
