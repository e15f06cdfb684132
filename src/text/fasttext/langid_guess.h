#ifndef TEXT_FASTTEXT_LANGID_GUESS_H
#define TEXT_FASTTEXT_LANGID_GUESS_H
/* One guess of a fastText classifier. It has a header of its own because the loss, which fills guesses, is
 * below langid, which hands them out. */

typedef struct { int label; float probability; } LangidGuess;      /* label: 0 to labels - 1; probability:
                                                                    * 0 to 1 */
#endif
