#ifndef STORE_CHECKPOINT_TOKENIZER_H
#define STORE_CHECKPOINT_TOKENIZER_H
/* The tokenizer that a checkpoint carries, so that a step folder which was moved, copied or sent to someone
 * can be used anywhere:
 *
 *     step_00001000/tokenizer/tokenizer.json          and the files that belong to it
 *
 * A step has hard links to the files of the step before it where the file system makes them, so that they use
 * the disk once. The manifest has size and checksum of each (TokenizerRecord). */
#include "base/status.h"
#include "store/checkpoint_contents.h"

/* Makes part/tokenizer with the copies of the record, durably; nothing if it has none. dir: the --save
 * directory, in which a step may have the same files. IO_FAILED: the disk is full, or a file reads back
 * otherwise. */
Status checkpoint_tokenizer_write(const char *part, const char *dir, const TokenizerRecord *tokenizer);
/* Compares the files in the step directory with the record. BAD_FILE names the first one that is missing or
 * differs. */
Status checkpoint_tokenizer_check(const char *folder, const TokenizerRecord *tokenizer);
/* The argument of --tokenizer that means the copies. They may be missing; the record has some. */
Status checkpoint_tokenizer_path (char path[1024], const char *folder, const TokenizerRecord *tokenizer);
#endif
