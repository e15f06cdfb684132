#ifndef TEXT_DICTIONARY_H
#define TEXT_DICTIONARY_H
/* fairseq's dictionaries: words with counts, in a file a line each, `word count`. The ids 0 to 3 are <s>,
 * <pad>, </s> and <unk>, which are not in the file; its first word has id 4. */
#include <stdbool.h>
#include "base/status.h"
#include "text/lines.h"

enum { DICTIONARY_PAD = 1, DICTIONARY_EOS = 2, DICTIONARY_UNKNOWN = 3, DICTIONARY_SPECIALS = 4 };

typedef struct Dictionary Dictionary;

Status  dictionary_new  (Dictionary **dictionary);                    /* with the special words alone */
/* BAD_FILE with the line that is not `word count`, or has a word for the second time without the word
 * `replaces` behind it. */
Status  dictionary_open (Dictionary **dictionary, const char *path, const char *replaces);
void    dictionary_close(Dictionary *dictionary);                     /* NULL is allowed */
int32_t dictionary_size (const Dictionary *dictionary);               /* ids */
int32_t dictionary_find(const Dictionary *dictionary, TextSpan word); /* its id; DICTIONARY_UNKNOWN */
/* Counts a word, which gets an id where it has none. NO_MEMORY */
Status  dictionary_count(Dictionary *dictionary, TextSpan word, int64_t times);
/* Orders the words by their counts, the most frequent first, those of one count by code points. Keeps at most
 * `words` ids, special ones included (0 or less: all), of words that occur `least` times or more, and adds
 * madeupword0000 and so on up to a multiple of `multiple` ids. */
Status  dictionary_order(Dictionary *dictionary, int64_t least, int64_t words, int64_t multiple);
Status  dictionary_write(const Dictionary *dictionary, const char *path);
#endif
