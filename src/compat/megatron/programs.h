#ifndef COMPAT_MEGATRON_PROGRAMS_H
#define COMPAT_MEGATRON_PROGRAMS_H
/* Which of the programs that a script starts pretrains a model as jotun train does: options of BERT have the
 * same names. */
#include <stdbool.h>
#include "base/status.h"

typedef enum { PROGRAM_UNKNOWN, PROGRAM_TRAINS_GPT, PROGRAM_IS_OTHER } ProgramKind;

/* what, instead: of an other one: "pretrains BERT, which is not built", "use the program that has it"; else
 * "". */
typedef struct {
    ProgramKind kind;
    const char *what, *instead;
} Program;

Program program_of(const char *path); /* "examples/../pretrain_gpt.py" */

/* Which of these programs to take, an index; is_gpt: the user says that an unknown one pretrains GPT.
 * BAD_OPTION where none of them does: the message names each, with what it is and what does the same here. */
Status program_choose(int *chosen, int count, const char *const *path, bool is_gpt);
#endif
