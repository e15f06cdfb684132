/* The progress file as JSON: written after the document store is synced, replaced atomically, and checked
 * for damage and for the run it belongs to before anything in it is used. */
#include "corpus/clean/progress_file.h"

#include <jansson.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/seam.h"

/* Changes with the members of the file and with the layout of CleanCounts or StoreSize. */
enum { FORMAT = 4 };

static const char file_name[] = "progress.json";

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

/* The checksum of all members but "checksum". It is computed from the compact text with sorted keys, so it
 * does not depend on how the file is indented. False: out of memory. */
static bool checksum_of(char sum[20], const json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    if (text) snprintf(sum, 20, "%016" PRIx64, (uint64_t)XXH3_64bits(text, strlen(text)));
    free(text);
    return text;
}

/* ---- writing ---- */

static json_t *numbers_to_json(const int64_t *number, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, json_integer(number[i]));
    return list;
}

Status progress_file_write(const ProgressFile *progress, const CleanCounts *counts, const char *folder,
                           const char *identity)
{
    char path[1024], sum[20];
    TRY(path_join(path, folder, file_name));
    json_t *root = json_pack("{s:i, s:s, s:i, s:I, s:I, s:b, s:I, s:o, s:o, s:o}", "format", FORMAT,
                             "identity", identity, "file", progress->file,
                             "blocks", (json_int_t)progress->blocks, "done", (json_int_t)progress->done,
                             "scanned", progress->scanned,
                             "documents", (json_int_t)progress->size.documents,
                             "bytes", numbers_to_json(progress->size.bytes, STORE_FILES),
                             "sums", numbers_to_json((const int64_t *)progress->size.sum, STORE_FILES),
                             "counts",
                             numbers_to_json((const int64_t *)counts, clean_counts_numbers(counts)));
    bool  summed = root && checksum_of(sum, root) && !json_object_set_new(root, "checksum", json_string(sum));
    char *text   = summed ? json_dumps(root, JSON_INDENT(0)) : NULL;
    Status status = text ? file_write_whole(path, text, strlen(text))
                         : fail(NO_MEMORY, "%s: no memory for its text", path);
    free(text);
    json_decref(root);
    return status;
}

/* ---- reading ---- */

static bool numbers_from_json(int64_t *number, int64_t count, const json_t *list)
{
    if ((int64_t)json_array_size(list) != count) return false;
    for (int64_t i = 0; i < count; i++) number[i] = json_integer_value(json_array_get(list, (size_t)i));
    return true;
}

/* The identities of the run that wrote the file (`then`) and of this one must be equal; the message shows
 * the first line in which they differ. */
static Status identity_check(const char *folder, const char *then, const char *now)
{
    while (*then && *now) {
        size_t a = strcspn(then, "\n"), b = strcspn(now, "\n");
        if (a != b || memcmp(then, now, a))
            return fail(BAD_OPTION, "%s: the interrupted run had  %.*s  and this one has  %.*s ; give the"
                        " same options and inputs, or --restart to start over", folder,
                        (int)(a < 150 ? a : 150), then, (int)(b < 150 ? b : 150), now);
        then += a + (then[a] != 0);
        now  += b + (now[b] != 0);
    }
    if (!*then && !*now) return OK;
    const char *extra = *then ? then : now;
    return fail(BAD_OPTION, "%s: the interrupted run had %s  %.*s ; give the same options and inputs, or"
                " --restart to start over", folder, *then ? "also" : "no", (int)strcspn(extra, "\n"), extra);
}

static Status unreadable(const char *folder)
{
    return fail(BAD_FILE, "%s/progress.json: not a progress file of this version; --restart starts over",
                folder);
}

/* A flipped bit in a count or an offset is found here; without the checksum it would show as wrong totals
 * or a wrong place to resume at. */
static Status checksum_check(json_t *root, const char *folder)
{
    char sum[20];
    const char *stored = json_string_value(json_object_get(root, "checksum"));
    json_t     *copy = stored ? json_string(stored) : NULL;
    if (!stored) return unreadable(folder);
    json_object_del(root, "checksum");
    bool matches = copy && checksum_of(sum, root) && !strcmp(sum, json_string_value(copy));
    json_decref(copy);
    return matches ? OK : fail(BAD_FILE, "%s/progress.json: damaged: its checksum does not match its text;"
                               " --restart starts over", folder);
}

static Status progress_from_json(ProgressFile *progress, CleanCounts *counts, const json_t *root,
                                 const char *folder, const char *identity)
{
    const char *then;
    json_t     *bytes, *sums, *count_list;
    json_int_t  blocks, done, documents;
    int         format, scanned;
    if (json_unpack((json_t *)root, "{s:i, s:s, s:i, s:I, s:I, s:b, s:I, s:o, s:o, s:o}", "format", &format,
                    "identity", &then, "file", &progress->file, "blocks", &blocks, "done", &done,
                    "scanned", &scanned, "documents", &documents, "bytes", &bytes, "sums", &sums,
                    "counts", &count_list) || format != FORMAT)
        return unreadable(folder);
    TRY(identity_check(folder, then, identity));
    progress->blocks   = blocks;
    progress->done     = done;
    progress->scanned  = scanned;
    progress->size.documents = documents;
    int64_t languages = counts->languages;
    if (!numbers_from_json(progress->size.bytes, STORE_FILES, bytes) ||
        !numbers_from_json((int64_t *)progress->size.sum, STORE_FILES, sums) ||
        !numbers_from_json((int64_t *)counts, clean_counts_numbers(counts), count_list) ||
        counts->languages != languages)
        return fail(BAD_FILE, "%s/progress.json: has counts for another set of languages or rules; --restart"
                    " starts over", folder);
    return OK;
}

Status progress_file_read(ProgressFile *progress, CleanCounts *counts, bool *found, const char *folder,
                          const char *identity)
{
    char path[1024];
    FileMap map;
    json_error_t error;
    *progress = (ProgressFile){ 0 };
    TRY(path_join(path, folder, file_name));
    *found = file_exists(path);
    if (!*found) return OK;
    TRY(file_map(&map, path));
    json_t *root = json_loadb((const char *)map.data, map.size, 0, &error);
    file_unmap(&map);
    if (!root)
        return fail(BAD_FILE, "%s: byte %d: %s; --restart starts over", path, error.position, error.text);
    Status status = checksum_check(root, folder);
    if (status == OK) status = progress_from_json(progress, counts, root, folder, identity);
    json_decref(root);
    return status;
}
