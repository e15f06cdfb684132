/* Free memory of made machines: /proc/meminfo alone, and limits of control groups of both versions, of the
 * group itself, of one above it and of a container's mount. */
#include "base/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/file.h"
#include "plan/free_memory.h"

static void put(const char *root, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(folder_make_for(path), OK);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static void test_limits(void **state)
{
    char root[] = "/tmp/jotun_free_memory_XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(root));
    assert_true(isinf(free_memory(root)));
    put(root, "proc/meminfo", "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\n");
    assert_true(free_memory(root) == 8000 * 1024.0);
    /* version 2: no limit of its own; the one above leaves 6,000,000, of which 500,000 are files */
    put(root, "proc/self/cgroup", "0::/job_1/step_0\n");
    put(root, "sys/fs/cgroup/job_1/step_0/memory.max", "max\n");
    assert_true(free_memory(root) == 8000 * 1024.0);
    put(root, "sys/fs/cgroup/job_1/memory.max", "6000000\n");
    put(root, "sys/fs/cgroup/job_1/memory.current", "1500000\n");
    put(root, "sys/fs/cgroup/job_1/memory.stat", "anon 1000000\nfile_mapped 7\nfile 500000\n");
    assert_true(free_memory(root) == 5000000);
    /* version 1, whose path is not there but for the mount */
    put(root, "proc/self/cgroup", "5:cpu,cpuacct:/docker/1\n4:hugetlb,memory:/docker/1\n0::/\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000\n");
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "3000000\n");
    put(root, "sys/fs/cgroup/memory/memory.stat", "cache 9\ntotal_cache 2000000\n");
    assert_true(free_memory(root) == 3000000);
    assert_int_equal(folder_remove(root), OK);
    assert_true(free_memory("") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_limits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
