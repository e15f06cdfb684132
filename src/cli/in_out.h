#ifndef CLI_IN_OUT_H
#define CLI_IN_OUT_H
/* Checks of the paths that a command reads and writes, and options of how texts are read. A command calls the
 * checks before it reads anything, so that a mistake costs no time and no file. */
#include <stdint.h>
#include "base/status.h"
#include "conf/conf.h"
#include "corpus/read/encoding.h"
#include "corpus/read/lines.h"
#include "text/tokenizer.h"

/* BAD_OPTION where "-" would be read more than once, because standard input is empty the second time. each:
 * how often every path is read, which is once for each of --json-keys. */
Status standard_input_once(const char *const *paths, int64_t count, int each);
/* BAD_OPTION where output is the same regular file as input, by device and inode. output may be NULL; a
 * device or a pipe may be both. */
Status input_spared(const char *input, const char *output);
/* BAD_OPTION where the directory of what `option` names does not exist. It is not created, so that a
 * mistyped name is noticed. */
Status output_directory(const char *option, const char *path);
/* The word of --input-format */
BlockKind input_block_kind(const Options *o);
/* BAD_OPTION where one of --input is a directory. */
Status inputs_are_files(const char *const *paths, int64_t count);
/* For commands that take each line of a .txt file for a document: a line in the log about the first file
 * whose lines are rather those of one text. */
void   note_wrapped_lines(const char *command, const char *const *paths, int64_t count, TextRules texts);
/* BAD_OPTION where a checkpoint's path is a file, with the directory that is meant. name: the option and the
 * path, "--load CK/latest" */
Status checkpoint_directory(const char *name, const char *path);

/* --input-encoding and --zstd-window-log, for the commands that read texts. */
static inline TextRules text_rules(const Options *o)
{
    return (TextRules){ o->input_encoding, (int)o->zstd_window };
}
static inline bool repairs_utf8(const Options *o)
{
    return o->invalid_utf8.value == CHOICE_invalid_utf8_repair;
}
/* Applies --parse-special-tokens to an open tokenizer. BAD_OPTION where it has no special token that a text
 * could contain, because the option would then have no effect. */
Status special_tokens(Tokenizer *t, const Options *o);
#endif
