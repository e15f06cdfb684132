/* Looks characters up in the sorted ranges of characters_table.c. */
#include "text/pretokenize/characters.h"
#include "base/array.h"

static bool in_ranges(const CharacterRange *range, int count, uint32_t point)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (range[middle].last < point) low = middle + 1;
        else                            high = middle;
    }
    return low < count && range[low].first <= point;
}

static bool is_ascii_letter(uint32_t point) { return (point | 0x20) - 'a' < 26; }

bool character_is_word(uint32_t point)
{
    if (point < 128) return is_ascii_letter(point) || point - '0' < 10 || point == '_';
    return in_ranges(characters_word, characters_word_count, point);
}

bool character_is_punctuation(uint32_t point)
{
    if (point < 128) return point > 0x20 && point < 0x7F && !is_ascii_letter(point) && point - '0' >= 10;
    return in_ranges(characters_punctuation, characters_punctuation_count, point);
}

bool character_is_numeric(uint32_t point)
{
    if (point < 128) return point - '0' < 10;
    return in_ranges(characters_numeric, characters_numeric_count, point);
}

bool character_is_mark(uint32_t point)
{
    return point >= 128 && in_ranges(characters_mark, characters_mark_count, point);
}

bool character_is_nonspacing(uint32_t point)
{
    return point >= 128 && in_ranges(characters_nonspacing, characters_nonspacing_count, point);
}

bool character_is_control(uint32_t point)
{
    if (point < 128)
        return point == 0x7F || (point < 0x20 && point != '\t' && point != '\n' && point != '\r');
    return in_ranges(characters_control, characters_control_count, point);
}

static bool in_newer_page(uint32_t point)
{
    return point < 0x110000 && characters_newer_page[point >> 14] >> (point >> 8 & 63) & 1;
}

bool character_is_whole(uint32_t point)
{
    return in_newer_page(point) && in_ranges(characters_whole, characters_whole_count, point);
}

bool character_is_starter(uint32_t point)
{
    return in_newer_page(point) && in_ranges(characters_starter, characters_starter_count, point);
}

bool character_is_chinese(uint32_t point)
{
    static const CharacterRange ideographs[] = {
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
        {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
    };
    return point >= 0x3400 && in_ranges(ideographs, COUNT(ideographs), point);
}

uint32_t character_lower(uint32_t point)
{
    int low = 0, high = characters_lower_count;
    if (point < 128) return point - 'A' < 26 ? point + 32 : point;
    while (low < high) {
        int middle = (low + high) / 2;
        if (characters_lower[middle].last < point) low = middle + 1;
        else                                       high = middle;
    }
    const LowerRun *run = &characters_lower[low];
    if (point == 0x130) return 'i';
    if (low == characters_lower_count || point < run->first || (point - run->first) % (uint32_t)run->step)
        return point;
    return (uint32_t)((int32_t)point + run->distance);
}

int character_script(uint32_t point)
{
    int low = 0, high = characters_script_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (characters_script[middle].last < point) low = middle + 1;
        else                                        high = middle;
    }
    return low < characters_script_count && characters_script[low].first <= point
         ? characters_script[low].script : -1;
}
