#ifndef CLI_SETUP_TOKENIZER_H
#define CLI_SETUP_TOKENIZER_H
/* What a tokenizer adds to the options. Private to cli/. */
#include "conf/conf.h"
#include "store/checkpoint_contents.h"
#include "text/tokenizer.h"

/* What a run takes from its tokenizer. */
typedef struct { int32_t vocabulary, eod; char fingerprint[TOKENIZER_FINGERPRINT]; } TokenizerFacts;
Status setup_tokenizer_facts(TokenizerFacts *facts, const char *name);
/* Opens the tokenizer of the options for a model of their --vocab-size (tokenizer_limit). */
Status setup_open_tokenizer(Tokenizer *tokenizer, const Options *options);
/* Checks a tokenizer that has more ids than the model: BAD_OPTION if some text could produce an id that the
 * model lacks (tokenizer_limit), otherwise a line in the log. name: for messages */
Status setup_limit_tokenizer(const char *path, const char *name, int32_t ids, int64_t model);
/* Where the tokenizer of the options is: --tokenizer, or where that of the checkpoint was found. */
const char *setup_tokenizer_path(const Options *o);
/* Where the tokenizer of the step directory `folder` is: the copy in it. "": at the name that it records, or
 * nowhere. BAD_FILE: the copy is damaged, or it is gone and nothing is at the name. */
Status setup_checkpoint_tokenizer(char path[1024], const char *folder, const TokenizerRecord *record);
/* Reads the files of the tokenizer `name`, which a checkpoint gets; they are held by the options. */
Status setup_tokenizer_copies(TokenizerRecord *record, Options *o, const char *name);
/* The size of the vocabulary, where nobody gave another; a smaller one is refused, and so is a tokenizer that
 * is not the checkpoint's. A run whose checkpoint has none continues without one, unless it names one; what
 * reads or writes text is then refused. */
Status setup_take_tokenizer(Options *o);
/* After a failure: the tokenizer of the model `of` cannot be read. needed: the run cannot do without one. */
Status setup_refuse_foreign_tokenizer(Status status, const char *of, bool needed);
/* Whether a run has no tokenizer (--tokenizer none), or made tokens (--mock-data) and names none: its
 * vocabulary is --vocab-size. */
bool   setup_without_tokenizer(const Options *o);
/* A line where the tokenizer that a person names, of these facts, is another one than `own`, that of the
 * model `of`, or is none. own: "" or none, or a file that cannot be read: nothing is compared. */
void   setup_note_other_tokenizer(const char *named, const TokenizerFacts *facts, const char *own,
                                  const char *of);

/* train and config: these have a model of their own, other commands take a checkpoint's. */
/* The folder of another program's checkpoint that a run begins with; NULL: it does not. */
const char *setup_foreign_folder(const Options *o);
static inline bool setup_trains(const Options *o) { return o->command & FOR_CONFIG; }
#endif
