#include "logs/journal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/file.h"
#include "base/log.h"

Journal journal_none(void) { return (Journal){ .file = { .fd = LOG_FILE_CLOSED } }; }

void journal_open(Journal *j, const char *folder)
{
    char path[1024];
    *j = journal_none();
    Status status = path_join(path, folder, "journal.jsonl");
    if (status == OK) status = log_file_open(&j->file, "--save", path, false);
    if (status == OK) log_file_end_line(&j->file);
    else log_line("%s; the run has no journal, which jotun report reads", fail_text());
}

void journal_add(Journal *j, const char *event, json_t *facts)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (j->file.fd >= 0) {
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

/* jansson refuses what is no UTF-8, so that whole texts are tried first and then single characters. */
json_t *journal_text(const char *text, size_t most)
{
    if (!text) return json_null();
    size_t bytes = strlen(text), cut = bytes < most ? bytes : most, size = 0;
    while (cut < bytes && cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80) cut--;
    json_t *whole = json_stringn(text, cut);
    if (whole) return whole;
    char *mended = malloc(3 * cut + 1);
    CHECK(mended, "no memory for a text of %zu bytes", cut);
    for (size_t i = 0; i < cut;) {
        size_t length = 1;
        json_t *one = NULL;
        for (; length <= 4 && i + length <= cut && !one; length++) one = json_stringn(text + i, length);
        length = one ? length - 1 : 1;
        memcpy(mended + size, one ? text + i : "\xef\xbf\xbd", one ? length : 3);
        size += one ? length : 3;
        i += length;
        json_decref(one);
    }
    whole = json_stringn(mended, size);
    free(mended);
    return whole;
}
