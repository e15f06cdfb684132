#ifndef CORPUS_WIKI_WIKI_TAG_H
#define CORPUS_WIKI_WIKI_TAG_H
/* The tags that wikitext knows, by what becomes of them. Others, as in "a <b", are text. */
#include <stdbool.h>
#include <stdint.h>

typedef enum {
    TAG_NONE,
    TAG_WHOLE,                  /* goes with all that is within: ref, math, gallery ... */
    TAG_VERBATIM,               /* goes; what is within is text, not markup: nowiki */
    TAG_TABLE,                  /* as TAG_WHOLE, and stands within itself: table */
    TAG_BREAK,                  /* ends a paragraph: br, p, div ... */
    TAG_POEM,                   /* within it each line is a paragraph */
    TAG_SUPER,                  /* sup */
    TAG_INLINE                  /* goes alone: span, small ... */
} TagKind;

typedef struct {
    TagKind kind;
    int     row;                /* the same for all tags of that name */
    int64_t bytes;              /* from < to > */
    int     name;               /* bytes of its name */
    bool    closing, alone;     /* </name>, <name/> */
} Tag;

Tag tag_at(const char *text, int64_t bytes);        /* at '<' */
#endif
