#ifndef TRAIN_JOURNAL_PROCESS_MEMORY_H
#define TRAIN_JOURNAL_PROCESS_MEMORY_H
/* Resident memory of this process in bytes, now and at most so far; 0 where the system does not tell. */
double process_memory(void);
double process_memory_most(void);
#endif
