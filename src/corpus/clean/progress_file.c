#include "corpus/clean/progress_file.h"

#include <jansson.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/seam.h"

enum { FORMAT = 3 };

static const char file_name[] = "ledger.json";

bool progress_file_there(const char *folder)
{
    char path[1024];
    return path_join(path, folder, file_name) == OK && file_exists(path);
}

Status progress_file_forget(const char *folder)
{
    char path[1024];
    TRY(path_join(path, folder, file_name));
    if (!progress_file_there(folder) || !seam.remove(path)) return OK;
    return fail(IO_FAILED, "%s: cannot be removed: %m", path);
}

/* Of all but the checksum itself, whose text is kept compact and with sorted keys; false: no memory */
static bool checksum_of(char sum[20], const json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    if (text) snprintf(sum, 20, "%016" PRIx64, (uint64_t)XXH3_64bits(text, strlen(text)));
    free(text);
    return text;
}

/* ---- writing ---- */

static json_t *numbers_json(const int64_t *number, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, json_integer(number[i]));
    return list;
}

Status progress_file_write(const ProgressFile *l, const CleanCounts *t, const char *folder, const char *identity)
{
    char path[1024], sum[20];
    TRY(path_join(path, folder, file_name));
    json_t *root = json_pack("{s:i, s:s, s:i, s:I, s:I, s:b, s:I, s:o, s:o, s:o}", "format", FORMAT, "identity", identity,
                             "file", l->file, "blocks", (json_int_t)l->blocks, "done", (json_int_t)l->done, "scanned", l->scanned,
                             "documents", (json_int_t)l->size.documents, "bytes", numbers_json(l->size.bytes, STORE_FILES),
                             "sums", numbers_json((const int64_t *)l->size.sum, STORE_FILES),
                             "tally", numbers_json((const int64_t *)t, clean_counts_numbers(t)));
    bool  summed = root && checksum_of(sum, root) && !json_object_set_new(root, "checksum", json_string(sum));
    char *text   = summed ? json_dumps(root, JSON_INDENT(0)) : NULL;
    Status status = text ? file_write_whole(path, text, strlen(text)) : fail(BAD_FILE, "%s: an option or path is not UTF-8", path);
    free(text);
    json_decref(root);
    return status;
}

/* ---- reading ---- */

static bool numbers_take(int64_t *number, int64_t count, const json_t *list)
{
    if ((int64_t)json_array_size(list) != count) return false;
    for (int64_t i = 0; i < count; i++) number[i] = json_integer_value(json_array_get(list, (size_t)i));
    return true;
}

/* The first line in which they differ */
static Status identity_check(const char *folder, const char *then, const char *now)
{
    while (*then && *now) {
        size_t a = strcspn(then, "\n"), b = strcspn(now, "\n");
        if (a != b || memcmp(then, now, a))
            return fail(BAD_OPTION, "%s: a run was begun there with  %.*s  and this one has  %.*s ; go on as it was begun, or"
                        " --restart begins anew", folder, (int)(a < 150 ? a : 150), then, (int)(b < 150 ? b : 150), now);
        then += a + (then[a] != 0);
        now  += b + (now[b] != 0);
    }
    if (!*then && !*now) return OK;
    const char *more = *then ? then : now;
    return fail(BAD_OPTION, "%s: a run was begun there %s  %.*s ; go on as it was begun, or --restart begins anew", folder,
                *then ? "with" : "without", (int)strcspn(more, "\n"), more);
}

static Status foreign(const char *folder)
{
    return fail(BAD_FILE, "%s/ledger.json: not of this program's making; --restart begins anew", folder);
}

/* A counter or a place of which one bit fell over is seen here, not in what the run would make of it. */
static Status checksum_check(json_t *root, const char *folder)
{
    char sum[20];
    const char *told = json_string_value(json_object_get(root, "checksum"));
    json_t     *kept = told ? json_string(told) : NULL;
    if (!told) return foreign(folder);
    json_object_del(root, "checksum");
    bool right = kept && checksum_of(sum, root) && !strcmp(sum, json_string_value(kept));
    json_decref(kept);
    return right ? OK : fail(BAD_FILE, "%s/ledger.json: damaged: its checksum is not that of its text; --restart begins anew", folder);
}

static Status root_take(ProgressFile *l, CleanCounts *t, const json_t *root, const char *folder, const char *identity)
{
    const char *then;
    json_t     *bytes, *sums, *counts;
    json_int_t  blocks, done, documents;
    int         format, scanned;
    if (json_unpack((json_t *)root, "{s:i, s:s, s:i, s:I, s:I, s:b, s:I, s:o, s:o, s:o}", "format", &format, "identity", &then,
                    "file", &l->file, "blocks", &blocks, "done", &done, "scanned", &scanned, "documents", &documents,
                    "bytes", &bytes, "sums", &sums, "tally", &counts) || format != FORMAT)
        return foreign(folder);
    TRY(identity_check(folder, then, identity));
    l->blocks   = blocks;
    l->done     = done;
    l->scanned = scanned;
    l->size.documents = documents;
    int64_t languages = t->languages;
    if (!numbers_take(l->size.bytes, STORE_FILES, bytes) || !numbers_take((int64_t *)l->size.sum, STORE_FILES, sums) ||
        !numbers_take((int64_t *)t, clean_counts_numbers(t), counts) ||
        t->languages != languages)
        return fail(BAD_FILE, "%s/ledger.json: counts other things than this program does; --restart begins anew", folder);
    return OK;
}

Status progress_file_read(ProgressFile *l, CleanCounts *t, bool *found, const char *folder, const char *identity)
{
    char path[1024];
    FileMap map;
    json_error_t error;
    *l = (ProgressFile){ 0 };
    TRY(path_join(path, folder, file_name));
    *found = file_exists(path);
    if (!*found) return OK;
    TRY(file_map(&map, path));
    json_t *root = json_loadb((const char *)map.data, map.size, 0, &error);
    file_unmap(&map);
    if (!root) return fail(BAD_FILE, "%s: byte %d: %s; --restart begins anew", path, error.position, error.text);
    Status status = checksum_check(root, folder);
    if (status == OK) status = root_take(l, t, root, folder, identity);
    json_decref(root);
    return status;
}
