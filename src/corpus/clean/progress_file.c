/* The progress file: a head, the counts as numbers, the identity of the run as text that ends with NUL, and
 * the XXH3 of all bytes before it. Written after the document store is synced, replaced atomically, and
 * checked for damage and for the run it belongs to before anything in it is used. */
#include "corpus/clean/progress_file.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/seam.h"

/* The number changes with the layout of ProgressFile or CleanCounts. numbers: of the counts. */
typedef struct { char format[16]; ProgressFile progress; int64_t numbers; } ProgressHead;
static const char format[16] = "jotun clean 5\n";

static const char file_name[] = "progress", older_name[] = "progress.json";

/* The file of the folder; where there is none, that of an older version, which is refused as damage is. */
static Status path_find(char path[1024], const char *folder)
{
    char older[1024];
    TRY(path_join(path, folder, file_name));
    TRY(path_join(older, folder, older_name));
    if (!file_exists(path) && file_exists(older)) memcpy(path, older, sizeof older);
    return OK;
}

bool progress_file_there(const char *folder)
{
    char path[1024];
    return path_find(path, folder) == OK && file_exists(path);
}

Status progress_file_forget(const char *folder)
{
    char path[1024];
    TRY(path_find(path, folder));
    if (!file_exists(path) || !seam.remove(path)) return OK;
    return fail(IO_FAILED, "%s: cannot be removed: %m", path);
}

/* ---- writing ---- */

static Status contents_add(Buffer *out, const ProgressFile *progress, const CleanCounts *counts,
                           const char *identity)
{
    ProgressHead head = { .progress = *progress, .numbers = clean_counts_numbers(counts) };
    memcpy(head.format, format, sizeof format);
    TRY(buffer_add(out, &head, sizeof head));
    TRY(buffer_add(out, counts, head.numbers * (int64_t)sizeof(int64_t)));
    TRY(buffer_add(out, identity, (int64_t)strlen(identity) + 1));
    return buffer_add_number(out, XXH3_64bits(out->text, (size_t)out->bytes), 8);
}

Status progress_file_write(const ProgressFile *progress, const CleanCounts *counts, const char *folder,
                           const char *identity)
{
    char   path[1024];
    Buffer out = { 0 };
    TRY(path_join(path, folder, file_name));
    Status status = contents_add(&out, progress, counts, identity);
    if (status == OK) status = file_write_whole(path, out.text, (size_t)out.bytes);
    buffer_free(&out);
    return status;
}

/* ---- reading ---- */

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

/* A flipped bit in a count or an offset is found by the checksum; without it, it would show as wrong totals
 * or a wrong place to resume at. */
static Status contents_read(ProgressFile *progress, CleanCounts *counts, const FileMap *map,
                            const char *folder, const char *identity)
{
    ProgressHead head;
    uint64_t     sum;
    if (map->size <= sizeof head + sizeof sum || memcmp(map->data, format, sizeof format))
        return fail(BAD_FILE, "%s: not a progress file of this version; --restart starts over", map->path);
    size_t left = map->size - sizeof sum;
    memcpy(&sum, map->data + left, sizeof sum);
    memcpy(&head, map->data, sizeof head);
    bool fits = (uint64_t)head.numbers <= (left - sizeof head - 1) / sizeof(int64_t) && !map->data[left - 1];
    if (XXH3_64bits(map->data, left) != sum || !fits)
        return fail(BAD_FILE, "%s: damaged: its checksum does not match its contents; --restart starts over",
                    map->path);
    const uint8_t *numbers = map->data + sizeof head;
    TRY(identity_check(folder, (const char *)numbers + head.numbers * (int64_t)sizeof(int64_t), identity));
    if (head.numbers != clean_counts_numbers(counts))
        return fail(BAD_FILE, "%s: has counts for another set of languages or rules; --restart starts over",
                    map->path);
    memcpy(counts, numbers, (size_t)head.numbers * sizeof(int64_t));
    *progress = head.progress;
    return OK;
}

Status progress_file_read(ProgressFile *progress, CleanCounts *counts, bool *found, const char *folder,
                          const char *identity)
{
    char    path[1024];
    FileMap map;
    *progress = (ProgressFile){ 0 };
    TRY(path_find(path, folder));
    *found = file_exists(path);
    if (!*found) return OK;
    TRY(file_map(&map, path));
    Status status = contents_read(progress, counts, &map, folder, identity);
    file_unmap(&map);
    return status;
}
