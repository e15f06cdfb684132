#ifndef CORPUS_WIKI_WIKI_TAG_H
#define CORPUS_WIKI_WIKI_TAG_H
/* The HTML and extension tags of wikitext, classified by what is removed with them. Anything else, as in "a
 * <b", is text. */
#include <stdbool.h>
#include <stdint.h>

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
#endif
