#include "train/journal/process_memory.h"
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

double process_memory(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

double process_memory_most(void)
{
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) == 0 ? 1024.0 * (double)used.ru_maxrss : 0;
}
