#include "logs/journal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"

void journal_open(Journal *j, const char *folder)
{
    char path[1024];
    *j = (Journal){ 0 };
    Status status = path_join(path, folder, "journal.jsonl");
    if (status == OK) status = log_file_open(&j->file, "--save", path, false);
    if (status == OK) log_file_end_line(&j->file);
    else log_line("%s; the run has no journal, which jotun report reads", fail_text());
}

void journal_add(Journal *j, const char *event, json_t *facts)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (j->file.open) {
        json_t *line = json_pack("{s:s, s:f}", "event", event, "time",
                                 (double)now.tv_sec + 1e-3 * (double)(now.tv_nsec / 1000000));
        if (line) json_object_update(line, facts);
        char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
        CHECK(text, "no memory for a line of the journal, or facts of \"%s\" that are no JSON", event);
        size_t bytes = strlen(text);
        text[bytes] = '\n';                                    /* in the place of its end: one write */
        log_file_add(&j->file, text, bytes + 1);
        free(text);
        json_decref(line);
    }
    json_decref(facts);
}

/* What was lost has been said by then. */
void journal_close(Journal *j) { (void)log_file_close(&j->file, INTERRUPTED, NULL); }

json_t *journal_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *journal_text(const char *text, size_t most)
{
    if (!text) return json_null();
    size_t bytes = strlen(text), cut = bytes < most ? bytes : most;
    while (cut < bytes && cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80) cut--;
    Buffer mended = { 0 };
    CHECK(utf8_repair(&mended, text, (int64_t)cut) == OK, "%s", fail_text());
    json_t *value = json_stringn(mended.text ? mended.text : "", (size_t)mended.bytes);
    buffer_free(&mended);
    return value;
}
