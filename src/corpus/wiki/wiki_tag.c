/* Recognises tags by a table of names. A name that is not in the table makes the '<' plain text, so that
 * formulas and code are not damaged. */
#include "corpus/wiki/wiki_tag.h"

#include <string.h>
#include "base/array.h"

enum { NAME_MOST = 16, ATTRIBUTES_MOST = 2048 };

static const struct { TagKind kind; const char *names; } kinds[] = {
    { TAG_WHOLE,    "ref references gallery timeline math chem ce score graph chart mapframe maplink"
                    " hiero imagemap inputbox syntaxhighlight source pre templatedata templatestyles"
                    " indicator categorytree includeonly style script section charinsert phonos languages"
                    " dynamicpagelist" },
    { TAG_VERBATIM, "nowiki" },
    { TAG_TABLE,    "table" },
    { TAG_BREAK,    "br p div li ul ol dl dt dd hr blockquote center h1 h2 h3 h4 h5 h6 tr td th caption"
                    " tbody thead tfoot" },
    { TAG_POEM,     "poem" },
    { TAG_SUPER,    "sup" },
    { TAG_INLINE,   "sub small big span b i u s em strong del ins strike abbr cite code tt kbd samp var"
                    " dfn font q bdi bdo mark rb rp rt rtc ruby time data wbr a noinclude onlyinclude"
                    " section translate tvar label input nobr noparse img" },
};

static bool is_name_char(char c)
{
    return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9');
}

/* A linear search is enough: names are short and most tags are among the first rows. */
static void kind_by_name(Tag *tag, const char *name, size_t bytes)
{
    int row = 0;
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (const char *at = kinds[i].names; *at; row++) {
            size_t length = strcspn(at, " ");
            if (length == bytes && !memcmp(at, name, bytes)) {
                tag->kind = kinds[i].kind;
                tag->row  = row;
                return;
            }
            at += length + (at[length] == ' ');
        }
}

/* A tag ends at '>'. A '<' before that means that it is no tag; otherwise many '<' in a row would each
 * search for the same '>', which takes quadratic time. */
Tag tag_at(const char *text, int64_t bytes)
{
    Tag tag = { .closing = bytes > 1 && text[1] == '/' };
    char name[NAME_MOST];
    int64_t at = 1 + tag.closing, length = 0;
    while (at < bytes && length < NAME_MOST && is_name_char(text[at])) {
        char c = text[at++];
        name[length++] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    if (!length || at == bytes || !memchr(" \t\n/>", text[at], 5)) return tag;
    int64_t most = bytes < at + ATTRIBUTES_MOST ? bytes : at + ATTRIBUTES_MOST;
    while (at < most && text[at] != '>' && text[at] != '<') at++;
    if (at == most || text[at] == '<') return tag;
    kind_by_name(&tag, name, (size_t)length);
    tag.name  = (int)length;
    tag.bytes = at + 1;
    tag.alone = text[at - 1] == '/' && !tag.closing;
    return tag;
}
