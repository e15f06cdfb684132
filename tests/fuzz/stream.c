/* Any bytes as a packed file; the first says in what steps it is read. Reading ends, well or with words. */
#include <stdlib.h>
#include <string.h>
#include "corpus/read/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char out[1 << 16];
    Stream *stream;
    if (bytes < 2) return 0;
    size_t step = (size_t)data[0] * 251 + 1, now = 1, all = 0;
    FILE  *file = fmemopen((void *)(uintptr_t)(data + 1), bytes - 1, "rb");
    if (!file || stream_of(&stream, file, "fuzz" ENDING, codec_by_ending("fuzz" ENDING), 400) != OK) abort();
    while (now && all < (size_t)8 << 20) {
        if (stream_read(stream, out, step, &now) != OK) break;
        if (now > step || stream_bytes_read(stream) > (int64_t)bytes - 1) abort();
        all += now;
    }
    stream_close(stream);
    return 0;
}
