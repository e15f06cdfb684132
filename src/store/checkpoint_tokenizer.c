#include "store/checkpoint_tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/file.h"
#include "store/checkpoint_dir.h"

static Status copy_path(char path[1024], const char *folder, const TokenizerCopy *copy)
{
    char inner[80];
    snprintf(inner, sizeof inner, "tokenizer/%s", copy->name);
    return path_join(path, folder, inner);
}

/* Whether the file has these bytes. */
static bool has_bytes(const char *path, const TokenizerCopy *copy)
{
    FileMap map;
    if (file_map(&map, path) != OK) return false;
    bool same = map.size == (size_t)copy->bytes && !memcmp(map.data, copy->data, map.size);
    file_unmap(&map);
    return same;
}

/* The newest step of `dir` with a tokenizer; "" if there is none. */
static Status step_before(char folder[1024], const char *dir)
{
    CheckpointFolder *list;
    int               count;
    char              path[1024];
    TRY(checkpoint_dir_list(dir, &list, &count));
    Status status = OK;
    *folder = 0;
    for (int i = 0; i < count && status == OK && !*folder; i++) {
        if (list[i].kind == FOLDER_PART) continue;
        if ((status = checkpoint_dir_path(folder, dir, list[i])) == OK)
            status = path_join(path, folder, "tokenizer");
        if (status == OK && !file_exists(path)) *folder = 0;
    }
    free(list);
    return status;
}

/* A link whose file was changed since would repeat the damage, so the bytes are compared first. */
static bool link_made(const char *path, const char *before, const TokenizerCopy *copy)
{
    char there[1024];
    return *before && copy_path(there, before, copy) == OK && has_bytes(there, copy) &&
           link(there, path) == 0;
}

static Status copy_make(const char *part, const char *before, const TokenizerCopy *copy)
{
    char path[1024];
    TRY(copy_path(path, part, copy));
    if (link_made(path, before, copy)) return OK;
    TRY(file_write_whole(path, copy->data, (size_t)copy->bytes));
    if (has_bytes(path, copy)) return OK;
    return fail(IO_FAILED, "%s: reads back otherwise than it was written: bits changed on their way to the "
                "disk; this checkpoint is removed and earlier ones are kept; test this machine's memory and "
                "disk", path);
}

Status checkpoint_tokenizer_write(const char *part, const char *dir, const TokenizerRecord *t)
{
    char folder[1024], before[1024];
    if (t->copies == 0) return OK;
    TRY(path_join(folder, part, "tokenizer"));
    TRY(folder_make(folder));
    TRY(step_before(before, dir));
    for (int i = 0; i < t->copies; i++) TRY(copy_make(part, before, &t->copy[i]));
    return folder_sync(folder);
}

static Status copy_check(const char *folder, const TokenizerCopy *copy)
{
    FileMap map;
    char    path[1024];
    TRY(copy_path(path, folder, copy));
    TRY(file_map(&map, path));
    Status status = OK;
    if (map.size != (size_t)copy->bytes)
        status = fail(BAD_FILE, "%s: %zu bytes, the manifest says %lld", path, map.size,
                      (long long)copy->bytes);
    else if (XXH3_64bits(map.data, map.size) != copy->checksum)
        status = fail(BAD_FILE, "%s: has another checksum than when it was saved; the file is damaged or was "
                      "edited", path);
    file_unmap(&map);
    return status;
}

Status checkpoint_tokenizer_check(const char *folder, const TokenizerRecord *t)
{
    for (int i = 0; i < t->copies; i++) TRY(copy_check(folder, &t->copy[i]));
    return OK;
}

Status checkpoint_tokenizer_path(char path[1024], const char *folder, const TokenizerRecord *t)
{
    return t->folder ? path_join(path, folder, "tokenizer") : copy_path(path, folder, &t->copy[0]);
}
