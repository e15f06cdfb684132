#ifndef PLAN_FREE_MEMORY_H
#define PLAN_FREE_MEMORY_H
/* Memory that processes started now may have: what the machine has free, and what the control groups of this
 * process, by which Slurm and containers limit a job, leave. */

/* Bytes; INFINITY where nothing tells. root: "", or a directory with /proc and /sys of another machine. */
double free_memory(const char *root);
#endif
