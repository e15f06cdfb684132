#ifndef CORPUS_WIKI_WIKITEXT_H
#define CORPUS_WIKI_WIKITEXT_H
/* What the steps of stripping wikitext share. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"

/* ---- tags (wiki_marks.c) ---- */

/* The HTML and extension tags of wikitext, classified by what is removed with them. Anything else, as in "a
 * <b", is text. */
typedef enum {
    TAG_NONE,
    TAG_WHOLE,                  /* removed with its content: ref, math, gallery ... */
    TAG_VERBATIM,               /* removed; its content is text without markup: nowiki */
    TAG_TABLE,                  /* as TAG_WHOLE, but may be nested: table */
    TAG_BREAK,                  /* ends a paragraph: br, p, div ... */
    TAG_POEM,                   /* inside it each line is a paragraph */
    TAG_SUPER,                  /* sup */
    TAG_INLINE                  /* removed without its content: span, small ... */
} TagKind;

typedef struct {
    TagKind kind;
    int     row;                /* the same number for all tags of one name */
    int64_t bytes;              /* from < to > */
    int     name;               /* bytes of its name */
    bool    closing, alone;     /* </name>, <name/> */
} Tag;

/* The tag at text, which must begin with '<'. Its attributes may have at most 2048 bytes, so that time is
 * bounded. */
Tag tag_at(const char *text, int64_t bytes);

/* ---- marks (wiki_marks.c) ---- */

/* Finds where each opening mark of wikitext is closed, before anything is removed: one pass with a stack,
 * in linear time whatever the nesting.
 *
 * A comment and a tag of TAG_WHOLE or TAG_VERBATIM end at the first closing one; where another tag of the
 * same name opens before it, the first is unclosed. }} closes the innermost open {{, and |} at the start of
 * a line the innermost open {|; what opened later and is still open is then unclosed. ]] closes [[ only if
 * nothing else opened in between and no blank line is in between. */
typedef enum {
    MARK_LINK,                  /* [[ ]] */
    MARK_TEMPLATE,              /* {{ }} */
    MARK_PARAMETER,             /* {{{ }}} */
    MARK_TABLE,                 /* {| |} */
    MARK_HTML_TABLE,            /* <table> </table> */
    MARK_COMMENT,               /* <!-- --> */
    MARK_TAG,                   /* a tag that is removed with its content */
    MARK_KINDS
} MarkKind;

/* from: byte where it opens; end: the byte after its closing mark, negative where it is unclosed */
typedef struct { int64_t from, end; MarkKind kind; } Mark;
typedef struct { Mark *mark; int64_t count, capacity; } Marks;  /* in the order of `from`; begins as { 0 } */

/* Replaces the marks; fails only with NO_MEMORY. */
Status marks_find(Marks *marks, const char *text, int64_t bytes);
void   marks_free(Marks *marks);

/* ---- words and characters (wiki_words.c) ---- */

/* Words that have a meaning in wikitext, in the languages of the large wikis: redirects, namespaces,
 * headings, templates. They are compared without regard to case, and _ equals a blank. */

/* The text begins with #REDIRECT, #OMDIRIGERING ... */
bool wiki_word_redirect(const char *text, int64_t bytes);
/* Is the prefix of a link, as "Fil" of [[Fil:x]], that of a file, a category or another language? Such a
 * link is no text. */
bool wiki_word_hidden  (const char *prefix, int64_t bytes);
/* Heads a section of references, links and the like. */
bool wiki_word_end     (const char *heading, int64_t bytes);

/* A template of which text is kept: its positional arguments from `first` to `last`, joined by `between`,
 * with `before` and `after` around them. last 0: `before` replaces the template. */
typedef struct { int first, last; const char *before, *between, *after, *names[64]; } WikiTemplate;
/* Special values of `last`. LAST: only the last argument. CONVERT: a number and its unit, or a range of
 * numbers. */
enum { WIKI_LAST = 99, WIKI_CONVERT = 98 };
const WikiTemplate *wiki_word_template(const char *name, int64_t bytes);  /* NULL: the template is removed */
bool wiki_word_range(const char *word, int64_t bytes);                    /* "to" of {{convert|5|to|7|km}} */

/* The index of a word in a list that blanks separate; -1: it is not there. */
static inline int words_find(const char *words, const char *word, size_t bytes)
{
    for (int index = 0; *words; index++) {
        size_t length = strcspn(words, " ");
        if (length == bytes && !memcmp(words, word, bytes)) return index;
        words += length + (words[length] == ' ');
    }
    return -1;
}

/* Character references: the named entities of HTML 4 (its specification, section 24) and apos, and
 * numbers.
 * The code point of what follows "&#", as "229" or "xE5"; 0: no character, or a surrogate. */
uint32_t entity_number(const char *text, int64_t bytes);
/* The code point of "&name;" or "&#number;" at text, also of "&amp;name;", which was escaped twice.
 * *length: its bytes; 0: there is no reference. */
uint32_t entity_at(const char *text, int64_t bytes, int64_t *length);

/* ---- paragraphs (wiki_lines.c) ---- */

/* The second step of stripping wikitext: lines whose inline markup has been removed become paragraphs. It
 * works in place, since no line becomes longer. The rules are described in wiki_text.h. The text must end
 * with "\n". Returns the bytes that are left at its beginning. */
int64_t wiki_lines(char *text, int64_t bytes);
#endif
