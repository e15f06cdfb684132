#ifndef TEXT_BPE_READ_JSON_INTERNAL_H
#define TEXT_BPE_READ_JSON_INTERNAL_H
/* Shared by the readers of the parts of a tokenizer.json. Each part of the file has a "type"; tables map the
 * types to functions. A type or value that is not implemented is refused by its name, since ignoring it would
 * give other ids, and a member that Hugging Face's library requires is required here too. */
#include "base/array.h"
#include "text/bpe/read_internal.h"

typedef struct {
    BpeTokenizer *bpe;                   /* being filled */
    const char   *path;                  /* for messages */
    const char   *invalid_key;           /* the first key with a wrong value; NULL: none */
    const char   *expected;              /* the right type; NULL: the member is missing */
    const json_t *model;                 /* the part of the file */
    const json_t *vocab;                 /* {token: id} of the model, with which added tokens must agree; NULL
                                          * where it has no such object */
    int           letters;               /* steps that write byte letters, in normalizer and pre-tokenizer */
    int           last_letters;          /* the index of the last of them in the pre-tokenizer; -1: none */
    bool          decodes_bytes;         /* ByteFallback was among the decoders */
} JsonReader;
typedef Status JsonPart(JsonReader *r, const json_t *part);
typedef struct { const char *type; JsonPart *read; } JsonField;

const char *json_type_of(const json_t *part);
/* A token is named by its text, or by an object with its content. */
const char *json_token_named(const json_t *token);
/* Notes a wrong value; check_invalid reports the first at the end. expected NULL: it is missing */
void        note_invalid(JsonReader *r, const char *key, const char *expected);
Status      check_invalid(const JsonReader *r);
/* These return a default where the member is missing or null. */
bool        read_bool  (JsonReader *r, const json_t *part, const char *key, bool otherwise);
const char *read_string(JsonReader *r, const json_t *part, const char *key);              /* NULL */
/* These note a member that is missing. */
bool        need_bool  (JsonReader *r, const json_t *part, const char *key);
const char *need_string(JsonReader *r, const json_t *part, const char *key);              /* "" */
/* A text of one character; "" */
const char *need_character(JsonReader *r, const json_t *part, const char *key);
int64_t     need_count (JsonReader *r, const json_t *part, const char *key);              /* 0 */
/* Metaspace's scheme: "always", "first" or "never". Files of old have add_prefix_space in its place. */
const char *metaspace_scheme(JsonReader *r, const json_t *part);
/* {"String": text} or {"Regex": text} in the member `pattern`. The caller closes the pattern. */
Status      read_pattern(JsonReader *r, const json_t *part, Pattern *pattern);
/* Puts the path before a message of code that does not know the file. */
Status      fail_with_path(const JsonReader *r, Status status);

Status dispatch_by_type(JsonReader *r, const json_t *part, const char *what, const JsonField *rows,
                        int count);
#define DISPATCH(r, part, what, rows) dispatch_by_type(r, part, what, rows, COUNT(rows))
Status for_each(JsonReader *r, const json_t *list, const char *what, JsonPart *read);

JsonPart normalizer_read, pretokenizer_read, decoder_read, model_read, post_read, added_tokens_read;
#endif
