#ifndef TESTS_CORPUS_FOLDER_H
#define TESTS_CORPUS_FOLDER_H
/* A folder for a test's files. To be included last, since cmocka has a macro named fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include <cmocka.h>

static char folder[64];

static inline int folder_open(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/jotun-corpus-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int folder_close(void **state)
{
    (void)state;
    return folder_remove(folder) == OK ? 0 : -1;
}

/* FOLDER/name, whose path goes to out */
static inline const char *file_put(char out[128], const char *name, const char *data, size_t bytes)
{
    snprintf(out, 128, "%s/%s", folder, name);
    FILE *file = fopen(out, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return out;
}
#endif
