#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H
/* The interface of all tokenizers: text to token ids and back. Ranks and threads may share an open tokenizer.
 *
 *     Tokenizer t;
 *     TRY(tokenizer_open(&t, "bytes"));
 *     int64_t count = t.encode(&t, ids, text, bytes);     ids: tokenizer_max_ids(&t, text, bytes) of them
 *     TextPiece piece = t.decode(&t, ids[0]);              one id at a time, so that text can be streamed
 *     tokenizer_close(&t); */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

/* The text of one id; it belongs to the tokenizer. prefix: of its `bytes`, how many at the beginning are
 * dropped where the piece is the first of a text, because encode added them (the prefix space). */
typedef struct { const char *text; int64_t bytes, prefix; } TextPiece;

enum { PIECE_FIRST = 1, PIECE_LAST = 2, PIECE_PLACES = 4 };          /* of a piece in a text */

/* Of what the files of a tokenizer define. tokens: the vocabulary and the merges in order, or the pieces
 * with their scores; the same in every format of file. rules: what else decides which ids a text gets
 * (normalizer, pre-tokenizer, post-processor, properties of added tokens), as that format writes it. */
typedef struct { uint64_t tokens, rules; } TokenizerHashes;

typedef struct Tokenizer Tokenizer;
struct Tokenizer {
    const char *name;                       /* as given to --tokenizer, for messages; belongs to the
                                             * tokenizer */
    int32_t vocabulary;                     /* ids are 0 to vocabulary - 1 */
    int32_t eod;                            /* the id that ends a document; -1: there is none */
    bool    drops_prefixes;                 /* the prefixes of all pieces are dropped until one has other
                                             * text too; where false only that of the first piece that is
                                             * not empty is dropped */
    bool    specials;                       /* there are special tokens that a text may contain, as
                                             * <|endoftext|> */
    bool    parse_special;                  /* encode turns those into their ids. False after
                                             * tokenizer_open, because a document must not be able to end
                                             * itself: then they are plain text. May be set after opening,
                                             * where `specials` is true. */
    int64_t ids_per_byte, extra_ids;        /* a text gives at most bytes * ids_per_byte + extra_ids ids;
                                             * both 0: at most bytes */
    void   *state;                          /* of the implementation */
    /* Writes the ids of the whole text, with the ids that the post-processor of a tokenizer.json puts around
     * it, and returns their number. -1 after fail(): no memory, or a pattern or rule of the tokenizer's file
     * costs too much. */
    int64_t   (*encode)(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes);
    /* id: 0 to vocabulary - 1. The end of document and ids without a token give "". */
    TextPiece (*decode)(const Tokenizer *t, int32_t id);
    /* The text of an id by its place in a text, bits of PIECE_FIRST and PIECE_LAST; text NULL: the id is left
     * out, as the end of document, and has no place. NULL: the prefix of decode says all there is. */
    TextPiece (*decode_at)(const Tokenizer *t, int32_t id, int place);
    bool    decodes_last;                   /* decode_at heeds PIECE_LAST */
    /* An upper bound of the ids that encode writes for this text. NULL: ids_per_byte and
     * extra_ids bound it. */
    int64_t   (*max_ids)(const Tokenizer *t, const char *text, int64_t bytes);
    TokenizerHashes (*hashes)(const Tokenizer *t);                       /* NULL: nothing is from a file */
    void      (*close) (Tokenizer *t);                                             /* NULL: nothing to free */
};

/* The argument of --tokenizer that means ids without text: their number is then --vocab-size. */
#define TOKENIZER_NONE "none"
bool   tokenizer_is_none(const char *name);
/* The tokenizer of that word: it encodes nothing, and its ids have no text. */
void   tokenizer_ids_only(Tokenizer *t, int32_t vocabulary);
/* name: the argument of --tokenizer: the word bytes, a tokenizer.json, a .tiktoken file, a sentencepiece
 * .model, or a folder with tokenizer.json, encoder.json and vocab.bpe, vocab.json and merges.txt, or
 * tokenizer.model. BAD_OPTION where it is none of these, as is the word none; BAD_FILE, IO_FAILED or
 * NO_MEMORY where reading the file fails. */
Status tokenizer_open (Tokenizer *t, const char *name);
/* For a model of `ids` ids: those above, such as a <pad> that was added later, are not used, and `vocabulary`
 * becomes `ids`. BAD_OPTION, which names the token, where a text could make one of them: all must be special
 * tokens that no text and no post-processor makes, and not the end of document. The fingerprint is taken
 * before. */
Status tokenizer_limit(Tokenizer *t, int64_t ids);
void   tokenizer_close(Tokenizer *t);
/* The capacity in ids that encode needs for this text: an upper bound, which some tokenizers find by
 * normalizing it. */
int64_t tokenizer_max_ids(const Tokenizer *t, const char *text, int64_t bytes);
/* "v1: 257 ids, tokens 0123456789abcdef, rules 0123456789abcdef": by it the tokenizer of a checkpoint is
 * recognised under any name. Only what files define is hashed, nothing that this program computes from it, so
 * that the fingerprint outlives changes of encoding and decoding. `rules` includes the end of document. */
enum { TOKENIZER_FINGERPRINT = 80 };
void   tokenizer_fingerprint(char out[TOKENIZER_FINGERPRINT], const Tokenizer *t);
/* OTHER_RULES: the same tokens and merges; OTHER_VERSION: `was` is of a version that cannot be compared. */
typedef enum {
    TOKENIZER_SAME, TOKENIZER_OTHER_RULES, TOKENIZER_OTHER_VERSION, TOKENIZER_OTHER
} TokenizerMatch;
TokenizerMatch tokenizer_match(const char *was, const char *now);
/* [vocabulary] How many bytes the text of each id has; none for the end of a document and other special
 * tokens that no text contains. NULL: no memory. The caller frees them. */
uint16_t *tokenizer_id_bytes(const Tokenizer *t);
/* Adds data to a hash; `before` is 0 at first. */
uint64_t tokenizer_hash(uint64_t before, const void *data, int64_t bytes);
/* BAD_FILE, with the position of the first value that is not an id of this tokenizer. where: the file, for
 * the message */
Status tokenizer_check(const Tokenizer *t, const int32_t *ids, int64_t count, const char *where);
#endif
