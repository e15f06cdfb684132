#ifndef TEXT_FASTTEXT_LANGID_H
#define TEXT_FASTTEXT_LANGID_H
/* Language identification by a fastText classifier (.bin, or .ftz after quantization; made by `fasttext
 * supervised`). The labels, their order and their probabilities are those of fastText, except that a
 * probability above 1 is clamped to 1.
 *
 *     Langid *langid;                                              threads may share it
 *     LangidSpace *space;                                          one per thread
 *     LangidGuess best;
 *     TRY(langid_open(&langid, "lid.176.bin"));
 *     TRY(langid_space_open(&space, langid));
 *     if (langid_guess(langid, space, text, bytes, &best, 1)) puts(langid_label(langid, best.label));
 *
 * To fastText a text is one line: it is classified as if a line feed followed it, and a line feed within it
 * is white space. As in fastText a word `</s>` in the text ends it, and words that begin with `__label__` are
 * ignored. */
#include <stdint.h>
#include "base/status.h"
#include "text/fasttext/langid_guess.h"

typedef struct Langid Langid;

Status      langid_open  (Langid **langid, const char *path);   /* BAD_FILE names the malformed byte */
void        langid_close (Langid *langid);
int         langid_labels(const Langid *langid);
const char *langid_label (const Langid *langid, int label);     /* "__label__sv" */

/* A thread's cache of word vectors, of 32 MiB whatever the text, and its working memory. NO_MEMORY */
typedef struct LangidSpace LangidSpace;
Status langid_space_open (LangidSpace **space, const Langid *langid);
void   langid_space_close(LangidSpace *space);

/* Writes at most `most` guesses, best first, and returns their number. Labels below 1e-5 may be missing,
 * because fastText prunes its tree there. There are none where no word or n-gram of the text, not even its
 * end, has a row. Cannot fail. */
int langid_guess(const Langid *langid, LangidSpace *space, const char *text, int64_t bytes,
                 LangidGuess *guess, int most);
#endif
