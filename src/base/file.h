#ifndef BASE_FILE_H
#define BASE_FILE_H
/* Files and directories: mapped for reading, written through the seam, replaced atomically. All messages
 * name the path and the cause. A wrong or missing path is BAD_FILE, a full or broken disk IO_FAILED. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

/* A read-only private mapping of a whole file; device and inode identify the mapped file. reserved: it is not
 * opened yet. */
typedef struct {
    const uint8_t *data;
    size_t   size;
    uint64_t device, inode;
    char     path[1024];
    bool     reserved;
} FileMap;
Status file_map  (FileMap *map, const char *path);             /* an empty file has data "" and size 0 */
void   file_unmap(FileMap *map);
/* A regular file to read from its beginning. Never waits: BAD_FILE, with what it is, where a directory, a
 * pipe or a device has the name or is linked there. The caller closes it. */
Status file_stream(FILE **in, const char *path);
/* `size` bytes of value 0, above 0, of no file: the path is "". */
Status file_map_zeros(FileMap *map, size_t size);
/* Reserves the addresses of a file of `size` bytes, which is not opened: its data may not be read before
 * file_map_fill has mapped it there. */
Status file_map_reserve(FileMap *map, const char *path, size_t size);
/* BAD_FILE where the file has another size. Does nothing where it is mapped. */
Status file_map_fill   (FileMap *map);
/* BAD_FILE if the mapped file was truncated since: after its new end the last page reads as zeros, and
 * reading later pages raises SIGBUS (base/guard.h). It costs one stat of the path. OK if the path now
 * names another file or none, since the mapping keeps the old file alive. */
Status file_map_check(const FileMap *map);
/* BAD_FILE where these bytes are what Git LFS leaves in the place of a file that it has not fetched. */
Status file_fetched(const char *path, const void *data, size_t size);
bool   file_exists(const char *path);                          /* file, directory or other */
Status path_join(char path[1024], const char *folder,
                 const char *name);   /* "directory/name"; BAD_OPTION above 1,023 bytes */

/* Whether a path of `bytes` bytes has this ending, and something before it. */
bool path_ends(const char *path, size_t bytes, const char *ending);
/* Where the last name of a path of `bytes` bytes begins; slashes behind it do not count. */
const char *path_leaf(const char *path, size_t bytes);

/* Creates or truncates a file for file_write; fails if the path is a directory. */
Status file_create(int *fd, const char *path);
/* Takes an exclusive lock on an open file, held until the descriptor is closed or its process ends. *taken
 * is false if another process holds it. On a file system without locks it counts as taken. */
Status file_lock  (int fd, const char *path, bool *taken);
/* Whether the file is there and no process holds its lock. False where that is not known: it cannot be
 * opened, or the file system has no locks. It holds a shared lock for a moment, which file_lock waits for. */
bool   file_is_free(const char *path);
/* Creates or truncates a file and locks it; BAD_FILE while another process holds the lock. It ends with
 * the descriptor or the process. */
Status file_create_alone(int *fd, const char *path);
/* All bytes, at an offset. IO_FAILED where the file ends before. */
Status file_read_at(int fd, const char *path, void *data, size_t bytes, int64_t at);
Status file_write (int fd, const char *path, const void *data, size_t bytes, int64_t at);
Status file_finish(int fd, const char *path);                  /* fsync and close; closes on failure too */
Status file_rename(const char *from, const char *to);          /* durable after folder_sync_for(to) */
/* Atomic replace: writes a file beside it, fsync, rename, fsync of the directory. Links are followed, so
 * that the file they name is replaced and they remain. A device, a pipe and this process's own
 * /dev/stdout, /dev/stderr and /dev/fd/N are written directly. */
Status file_write_whole(const char *path, const void *data, size_t bytes);
/* Whether file_write_whole could write the path, tested before a long computation whose result it holds. */
Status file_writable(const char *path);

/* With its parents; an existing directory is fine. */
Status folder_make  (const char *path);
/* The directory that contains `path`, with its parents. */
Status folder_make_for(const char *path);
Status folder_sync  (const char *path);                        /* makes renames and new names in it durable */
Status folder_sync_for(const char *path);                      /* the directory that contains `path` */
/* With all its contents; a missing one is fine. */
Status folder_remove(const char *path);
#endif
