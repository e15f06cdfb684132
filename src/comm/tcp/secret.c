/* The secret of a job: from the environment, or from a file that nobody else can read. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "comm/tcp/tcp.h"

/* Without the blanks and the newline that an editor or echo leaves at its end. */
static Status take(char secret[SECRET_BYTES], const char *from, size_t bytes, const char *where)
{
    while (bytes > 0 && strchr(" \t\r\n", from[bytes - 1])) bytes--;
    if (memchr(from, 0, bytes) || bytes >= SECRET_BYTES)
        return fail(BAD_OPTION, "%s is no secret: it has a NUL, or %d characters or more", where,
                    SECRET_BYTES);
    if (bytes < SECRET_LEAST)
        return fail(BAD_OPTION, "%s has %zu characters; a secret has %d or more, which nobody can guess: "
                    "head -c 24 /dev/urandom | base64", where, bytes, SECRET_LEAST);
    memcpy(secret, from, bytes);
    secret[bytes] = '\0';
    return OK;
}

/* The descriptor is of the file that was looked at. A FIFO is not waited for. */
static Status take_file(char secret[SECRET_BYTES], const char *path, int fd)
{
    struct stat file;
    char text[SECRET_BYTES + 1];
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode))
        return fail(BAD_FILE, "JOTUN_SECRET_FILE: %s is no file", path);
    if (file.st_mode & 077)
        return fail(BAD_FILE, "JOTUN_SECRET_FILE: %s can be read by others than its owner (mode %03o): "
                    "chmod 600 %s", path, (unsigned)file.st_mode & 0777, path);
    ssize_t n = read(fd, text, sizeof text);
    if (n < 0) return fail(BAD_FILE, "JOTUN_SECRET_FILE: %s: %s", path, strerror(errno));
    return take(secret, text, (size_t)n, path);
}

Status tcp_secret(char secret[SECRET_BYTES])
{
    const char *text = getenv("JOTUN_SECRET"), *path = getenv("JOTUN_SECRET_FILE");
    *secret = '\0';
    if (text && path)
        return fail(BAD_OPTION, "JOTUN_SECRET and JOTUN_SECRET_FILE are both set; unset one of them");
    if (text) return take(secret, text, strlen(text), "JOTUN_SECRET");
    if (!path) return OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail(BAD_FILE, "JOTUN_SECRET_FILE: %s: %s", path, strerror(errno));
    Status status = take_file(secret, path, fd);
    close(fd);
    return status;
}
