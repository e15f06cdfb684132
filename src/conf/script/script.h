#ifndef CONF_SCRIPT_SCRIPT_H
#define CONF_SCRIPT_SCRIPT_H
/* The arguments that a bash script gives to a trainer, without running it: assignments, arrays, expansions
 * and calls of functions are followed, tests of if and case are decided, and the command that starts a .py
 * file is looked for.
 * Nothing is executed: what only a command could tell, and variables that nobody set, are unknown texts.
 *
 *     MODEL_ARGS=( --num-layers ${LAYERS:-12} )                 num-layers of line 1
 *     torchrun pretrain_gpt.py ${MODEL_ARGS[@]} --bf16          bf16 of line 2
 *
 * A file whose first word begins with -- is a list of arguments. Loops are not followed. A file
 * has at most SCRIPT_BYTES; what its variables hold in all is at most SCRIPT_HELD bytes, each at most
 * SCRIPT_TEXT. */
#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

/* Around the unknown part of a text; files with these bytes are refused. */
#define UNKNOWN_BEGIN '\x01'
#define UNKNOWN_END '\x02'

enum { SCRIPT_BYTES = 1 << 20, SCRIPT_HELD = 32 << 20, SCRIPT_TEXT = 1 << 20, SCRIPT_NAMES = 1024 };

typedef struct {
    const char *text;
    int         line;
} ScriptWord;
typedef struct {
    ScriptWord *word;
    int         count, room;
} ScriptWords;
/* What `cat > NAME <<EOF` would write. */
typedef struct {
    const char *name, *text;
    int         line;
} ScriptFile;

typedef struct {
    char        path[1024];
    ScriptWords arguments; /* of the program, without its name; of several programs the last one's */
    ScriptWords launcher;  /* what stands before the program's name: torchrun --nproc_per_node 8 */
    ScriptWords notes;     /* what was not followed, a sentence each */
    const char *program;   /* "pretrain_gpt.py"; "": a list of arguments */
    ScriptFile *file;      /* [files] */
    int         files;
    void       *held; /* owns the texts */
} Script;

/* given: the script's own arguments, $1 ... Variables that the script does not set are the environment's.
 * BAD_FILE, with path and line, where quotes or brackets are not closed, no program is started, or a limit is
 * exceeded. */
Status script_read(Script *s, const char *path, int count, const char *const *given);
void   script_close(Script *s);

/* A text that is unknown in part: an unset variable or a command that was not run. */
bool script_unknown(const char *text);
/* Whether it is an unset variable's and nothing else. */
bool script_unset(const char *text);
/* The first unknown part as it is in the script, "$NAME" or "$(date)". Returns out. */
const char *script_unknown_part(char *out, size_t size, const char *text);
/* The text with NAME in the place of unset variables. Returns out. */
const char *script_plain(char *out, size_t size, const char *text);
#endif
