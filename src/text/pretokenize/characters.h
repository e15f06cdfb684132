#ifndef TEXT_PRETOKENIZE_CHARACTERS_H
#define TEXT_PRETOKENIZE_CHARACTERS_H
/* Properties of characters as the components of Hugging Face's library have them, which follow different
 * versions of Unicode. characters_table.c is written by tests/oracles/tokenizers_characters.py, which asks
 * the library about each character. White space is that of text/unicode.h. */
#include <stdbool.h>
#include <stdint.h>

typedef struct { uint32_t first, last; } CharacterRange;
/* Every step-th character from first to last has its lower case at this distance. */
typedef struct { uint32_t first, last; int32_t distance, step; } LowerRun;
typedef struct { uint32_t first, last; int32_t script; } ScriptRange;

extern const CharacterRange characters_word[], characters_punctuation[], characters_numeric[],
                            characters_mark[],
                            characters_nonspacing[], characters_control[], characters_whole[],
                            characters_starter[];
extern const int characters_word_count, characters_punctuation_count, characters_numeric_count,
                 characters_mark_count,
                 characters_nonspacing_count, characters_control_count, characters_whole_count,
                 characters_starter_count;
extern const uint64_t characters_newer_page[];   /* a bit for each 256 characters: some are in one of the two
                                                  * tables before */
extern const LowerRun    characters_lower[];
extern const int         characters_lower_count;
extern const ScriptRange characters_script[];
extern const int         characters_script_count;

bool character_is_word       (uint32_t point);   /* \w of Rust's regular expressions */
bool character_is_punctuation(uint32_t point);   /* category P, or one of ASCII's marks such as $ and + */
bool character_is_numeric    (uint32_t point);   /* category N */
bool character_is_mark       (uint32_t point);   /* category M: what StripAccents removes */
bool character_is_nonspacing (uint32_t point);   /* category Mn: what BertNormalizer removes as accents */
bool character_is_control    (uint32_t point);   /* what BertNormalizer removes as no text: NUL, U+FFFD,
                                                  * categories C but TAB, LF and CR */
bool character_is_chinese    (uint32_t point);   /* what BertNormalizer puts blanks around */
/* The lower case; of U+0130 the first of its two characters, after which follows U+0307. */
uint32_t character_lower     (uint32_t point);
/* Its tables of normalization are older than those of utf8proc. Whether it decomposes the character into
 * nothing but itself, where newer tables have more; and whether it takes it for a starter (combining class 0)
 * that composes with no other. */
bool character_is_whole  (uint32_t point);
bool character_is_starter(uint32_t point);
/* The number of its script for UnicodeScripts, in which Hiragana and Katakana count as Han; -1: it belongs to
 * the script of its neighbours. */
int      character_script    (uint32_t point);
#endif
