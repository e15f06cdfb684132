#ifndef TESTS_DATA_PAIRS_H
#define TESTS_DATA_PAIRS_H
/* A folder for a test's files, and pairs made of ids. To be included last, since cmocka has a macro named fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data/token_file.h"
#include <cmocka.h>

static char folder[64];
__attribute__((unused)) static char prefix[80], idx_path[96], bin_path[96];       /* of a pair in it */

static inline int folder_open(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/jotun-data-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(prefix, sizeof prefix, "%s/d", folder);
    snprintf(idx_path, sizeof idx_path, "%s.idx", prefix);
    snprintf(bin_path, sizeof bin_path, "%s.bin", prefix);
    return 0;
}

static inline int folder_close(void **state)
{
    (void)state;
    return folder_remove(folder) == OK ? 0 : -1;
}

/* Documents of length[d] ids each, end to end in ids */
static inline void pair_make(TokenFile *token_file, const char *name, const int32_t *ids, const int *length, int documents, int64_t vocabulary)
{
    char path[96];
    TokenFileWriter *w;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(token_file_create(&w, path, vocabulary), OK);
    for (int d = 0; d < documents; ids += length[d++]) {
        assert_int_equal(token_file_add(w, ids, length[d]), OK);
        assert_int_equal(token_file_end_document(w), OK);
    }
    assert_int_equal(token_file_finish(w), OK);
    assert_int_equal(token_file_open(token_file, path), OK);
}
#endif
