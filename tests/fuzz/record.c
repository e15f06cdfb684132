/* Any bytes as a block of some shape: its records end, their texts are UTF-8 without NUL, faults have words. */
#include <stdlib.h>
#include <string.h>
#include "corpus/read/record.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void told(JsonText text)
{
    if (text.text && utf8_broken(text.text, text.bytes) >= 0 && !memchr(text.text, 0, (size_t)text.bytes)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2) return 0;
    RecordPlan plan = { .bytes_most = 1000, .repair = data[0] & 8, .all_pages = data[0] & 16 };
    if (data[0] & 32) plan.text_key = "a.b";
    Block  block  = { .kind = (BlockKind)(BLOCK_TEXT + (data[0] & 7) % 6), .text = malloc(bytes - 1), .bytes = bytes - 1, .line = 1 };
    Buffer buffer = { 0 };
    Record record;
    size_t steps  = 0;
    memcpy(block.text, data + 1, bytes - 1);
    RecordWalk walk = record_walk(&plan, &block, "fuzz", &buffer);
    for (RecordStep step; (step = record_next(&walk, &record)) != RECORD_END; ) {
        if (++steps > bytes) abort();
        if (step == RECORD_FAULT && !*walk.fault.message) abort();
        if (step == RECORD_FAULT) continue;
        if (record.bytes < 0 || utf8_broken(record.text, record.bytes) >= 0 || record.line < 1) abort();
        told(record.id), told(record.url), told(record.title), told(record.source), told(record.label);
        record_warned(&record, "adult");
    }
    if (record_next(&walk, &record) != RECORD_END) abort();
    block_free(&block);
    buffer_free(&buffer);
    return 0;
}
