/* Lines and words as in Python. */
#include "text/lines.h"
#include "text/unicode.h"

/* The property White_Space, and the separators of ASCII, which are blanks in Python alone. */
static bool is_blank(Rune r) { return r.kind & SPACE || (r.point >= 0x1c && r.point <= 0x1f); }

static Rune rune_of(TextSpan text) { return rune_at((const uint8_t *)text.text, text.bytes); }

static TextSpan after(TextSpan text, int64_t bytes)
{
    return (TextSpan){ text.text + bytes, text.bytes - bytes };
}

bool text_line_next(TextSpan *rest, TextSpan *line)
{
    if (rest->bytes <= 0) return false;
    int64_t end = 0;
    while (end < rest->bytes && rest->text[end] != '\n' && rest->text[end] != '\r') end++;
    *line = (TextSpan){ rest->text, end };
    bool both = end + 1 < rest->bytes && rest->text[end] == '\r' && rest->text[end + 1] == '\n';
    end += both ? 2 : end < rest->bytes;
    *rest = after(*rest, end);
    return true;
}

bool text_word_next(TextSpan *rest, TextSpan *word)
{
    Rune r;
    while (rest->bytes > 0 && is_blank(r = rune_of(*rest))) *rest = after(*rest, r.bytes);
    word->text  = rest->text;
    word->bytes = 0;
    while (rest->bytes > 0 && !is_blank(r = rune_of(*rest)))
        word->bytes += r.bytes, *rest = after(*rest, r.bytes);
    return word->bytes > 0;
}

TextSpan text_strip(TextSpan text)
{
    TextSpan word, stripped = { text.text, 0 };
    for (bool first = true; text_word_next(&text, &word); first = false) {
        if (first) stripped.text = word.text;
        stripped.bytes = word.text + word.bytes - stripped.text;
    }
    return stripped;
}
