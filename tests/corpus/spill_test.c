/* Records are read back in order, from memory and disk; a full disk and an impossible folder are reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/random.h"
#include "base/seam.h"
#include "corpus/dedup/spill.h"
#include <cmocka.h>              /* after base/status.h, since it has a macro named fail */
#undef fail

enum { PARTITIONS = 8, RECORDS = 50000 };
typedef struct { uint32_t number, square, partition; } Record;

static char folder[64];
static int64_t writes, write_most;

static ssize_t write_until(int fd, const void *data, size_t bytes, off_t at)
{
    if (++writes <= write_most) return pwrite(fd, data, bytes, at);
    errno = ENOSPC;
    return -1;
}

static int partition_of(uint32_t number) { return (int)(random_mix(1, number) % PARTITIONS) % 7; }     /* the last stays empty */

static void comes_back(void **state)
{
    (void)state;
    for (int64_t memory = 0; memory < 4 << 20; memory = memory * 4 + 3000) {
        Spill  *spill;
        Record *record = malloc((RECORDS + 1) * sizeof *record);
        uint32_t seen = 0;
        assert_int_equal(spill_open(&spill, "records", folder, sizeof *record, PARTITIONS, memory), OK);
        for (uint32_t i = 0; i < RECORDS; i++)
            assert_int_equal(spill_add(spill, partition_of(i), &(Record){ i, i * i, (uint32_t)partition_of(i) }), OK);
        for (int p = 0; p < PARTITIONS; p++) {
            int64_t count = spill_count(spill, p);
            memset(record, 0xAA, (RECORDS + 1) * sizeof *record);
            assert_int_equal(spill_read(spill, p, record), OK);
            for (int64_t i = 0; i < count; i++) {
                assert_int_equal(record[i].partition, p);
                assert_int_equal(record[i].square, record[i].number * record[i].number);
                assert_true(i == 0 || record[i].number > record[i - 1].number);
            }
            assert_int_equal(record[count].number, 0xAAAAAAAAu);
            seen += (uint32_t)count;
            if (p % 2) spill_drop(spill, p);
        }
        assert_int_equal(seen, RECORDS);
        assert_int_equal(spill_count(spill, 7), 0);
        assert_int_equal(spill_disk(spill) > 0, memory < RECORDS * 6);
        assert_true(spill_disk(spill) <= RECORDS * (int64_t)sizeof *record);
        assert_int_equal(rmdir(folder), 0);                            /* it is empty: the file has no name */
        spill_close(spill);
        free(record);
    }
}

static void full_disk(void **state)
{
    (void)state;
    Spill *spill;
    Status status = OK;
    writes = 0, write_most = 3;
    seam.write = write_until;
    assert_int_equal(spill_open(&spill, "records", folder, sizeof(Record), PARTITIONS, 1000), OK);
    for (uint32_t i = 0; i < RECORDS && status == OK; i++) status = spill_add(spill, partition_of(i), &(Record){ i, i, i });
    assert_int_equal(status, IO_FAILED);
    assert_non_null(strstr(fail_text(), folder));
    assert_non_null(strstr(fail_text(), "No space left"));
    assert_non_null(strstr(fail_text(), "records take"));
    assert_non_null(strstr(fail_text(), "--memory"));
    spill_close(spill);
    seam = seam_system;
}

static void no_folder(void **state)
{
    (void)state;
    Spill *spill;
    assert_int_equal(spill_open(&spill, "records", "/dev/null/x", 8, 4, 1000), BAD_FILE);
    assert_non_null(strstr(fail_text(), "/dev/null"));
    assert_null(spill);
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/jotun-spill-%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(no_folder),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (rmdir(folder) != 0) return 1;              /* something was left in it */
    return failed;
}
