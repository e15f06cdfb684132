#ifndef TEXT_FASTTEXT_LANGID_H
#define TEXT_FASTTEXT_LANGID_H
/* Which language a text is in, by a fastText classifier (.bin, .ftz; made by `fasttext supervised`, maybe `quantize`).
 * Labels, their order and probabilities are fastText's, the last clamped to 1.
 *
 *     Langid *langid;
 *     LangidSpace *space;                                          one per thread; the model itself is only read
 *     LangidGuess best;
 *     TRY(langid_open(&langid, "lid.176.bin"));
 *     TRY(langid_space_open(&space, langid));
 *     if (langid_guess(langid, space, text, bytes, &best, 1)) puts(langid_label(langid, best.label));
 *
 * A text is one line to fastText: it is judged as with a line feed behind it, and a line feed inside is a blank like any
 * other. As in fastText a word `</s>` of the text itself ends it, and words that begin with `__label__` are passed over. */
#include <stdint.h>
#include "base/status.h"
#include "text/fasttext/langid_guess.h"

typedef struct Langid Langid;

Status      langid_open  (Langid **langid, const char *path);   /* a malformed model: BAD_FILE with the byte and a cure */
void        langid_close (Langid *langid);
int         langid_labels(const Langid *langid);
const char *langid_label (const Langid *langid, int label);     /* "__label__sv" */

/* What a thread remembers of words it has met: 32 MiB, whatever the text. */
typedef struct LangidSpace LangidSpace;
Status langid_space_open (LangidSpace **space, const Langid *langid);
void   langid_space_close(LangidSpace *space);

/* Writes at most `most` guesses, best first, and says how many. Labels below 1e-5 may be missing (fastText prunes its tree
 * there), and none is given where the model knows nothing of the text, not even its end.                             */
int langid_guess(const Langid *langid, LangidSpace *space, const char *text, int64_t bytes, LangidGuess *guess, int most);
#endif
