/* Any text through a charset: what stays is UTF-8 without NUL, a second time changes nothing that is not judged, and where a
 * character stands in 16 bytes does not matter. */
#include <stdlib.h>
#include <string.h>
#include "corpus/quality/charset.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static Charset *of_mode(CharsetMode mode)
{
    static Charset *charset[3];
    CharsetPlan plan = CHARSET_PLAN;
    plan.names = "sv";
    plan.mode  = mode;
    plan.emoji = mode == CHARSET_STRICT ? EMOJI_KEEP : EMOJI_REMOVE;
    if (!charset[mode] && charset_open(&charset[mode], &plan) != OK) abort();
    return charset[mode];
}

static bool same(const Buffer *a, const Buffer *b) { return a->bytes == b->bytes && !memcmp(a->text, b->text, (size_t)a->bytes); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static Buffer from, text, again, spare;
    CharsetVerdict v, w;
    if (!bytes) return 0;
    CharsetMode mode = (CharsetMode)(data[0] % 3);
    int pad = data[0] / 3 % 17;
    from.bytes = text.bytes = again.bytes = 0;
    if (utf8_repair(&from, (const char *)data + 1, (int64_t)bytes - 1) != OK) abort();
    if (buffer_add(&text, "\n", 1) != OK || buffer_add(&text, from.text, from.bytes) != OK) abort();
    if (buffer_add(&again, "                 ", pad) != OK || buffer_add(&again, "\n", 1) != OK || buffer_add(&again, from.text, from.bytes) != OK) abort();
    if (charset_apply(of_mode(mode), &text, &spare, &v) != OK || charset_apply(of_mode(mode), &again, &spare, &w) != OK) abort();
    Buffer behind = { again.text + pad, again.bytes - pad, 0 };
    if (utf8_broken(text.text, text.bytes) >= 0 || memcmp(&v, &w, sizeof v) != 0 || again.bytes < pad) abort();
    if (!(v.dropped && mode == CHARSET_GRADED) && !same(&text, &behind)) abort();
    if (mode != CHARSET_NONE) return 0;
    again.bytes = 0;
    if (buffer_add(&again, text.text, text.bytes) != OK || charset_apply(of_mode(mode), &again, &spare, &w) != OK) abort();
    if (!same(&text, &again)) abort();
    return 0;
}
