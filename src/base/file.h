#ifndef BASE_FILE_H
#define BASE_FILE_H
/* Files: mapped to read, written through the seam, whole or not at all. All messages name the path and the cause. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct { const uint8_t *data; size_t size; uint64_t device, inode; char path[1024]; } FileMap;
Status file_map  (FileMap *map, const char *path);             /* an empty file is data "" and size 0 */
void   file_unmap(FileMap *map);
/* BAD_FILE where the mapped file was cut since: behind its end the last page reads as zeros, the pages after it not at all
 * (base/guard.h). One stat of its path; OK where another file has taken its name, or none, since the map keeps the old one. */
Status file_map_check(const FileMap *map);
bool   file_exists(const char *path);
Status path_join(char path[1024], const char *folder, const char *name);   /* "folder/name"; BAD_OPTION above 1,023 bytes */

Status file_create(int *fd, const char *path);                 /* for file_write; fails where it exists and is a folder */
/* An exclusive lock on an open file, held until the descriptor is closed or its process ends. *taken false: another
 * process holds it. On a file system without locks it counts as taken. */
Status file_lock  (int fd, const char *path, bool *taken);
Status file_create_alone(int *fd, const char *path);           /* refused while another holds it so; until it is closed, or its holder killed */
Status file_write (int fd, const char *path, const void *data, size_t bytes, int64_t at);   /* all of it, at an offset */
Status file_finish(int fd, const char *path);                  /* fsync and close; the close happens on failure too */
Status file_rename(const char *from, const char *to);          /* durable after folder_sync_for(to) */
/* Beside, fsync, rename, fsync the folder. Through links: what they name is replaced, they stay. A device, a pipe and
 * this process's own /dev/stdout, /dev/stderr and /dev/fd/N are written straight. */
Status file_write_whole(const char *path, const void *data, size_t bytes);
Status file_writable(const char *path);                        /* what file_write_whole would stumble over, before there is something to write */

Status folder_make  (const char *path);                        /* with its parents; existing is fine */
Status folder_make_for(const char *path);                      /* the folder a file of that path is in, with its parents */
Status folder_sync  (const char *path);
Status folder_sync_for(const char *path);                      /* the folder a file of that path is in */
Status folder_remove(const char *path);                        /* with all in it; missing is fine */
#endif
