#ifndef TEXT_BPE_BPE_TOKENIZER_H
#define TEXT_BPE_BPE_TOKENIZER_H
/* A tokenizer of pretokens, BPE and the other models of a tokenizer.json, as its files describe it: the
 * readers fill it, and bpe_tokenizer_make turns it into a Tokenizer. A text passes these stages; added
 * tokens take their part of it out before and after the normalizer:
 *
 *     text -> added tokens -> normalizer -> added tokens -> segment normalizer -> pretokenizer -> model
 *
 * Where all that changes a text is GPT-2's letters for bytes, and they come last (byte_level), tokens are
 * kept as the bytes that they stand for and the text is left as it is: this is the fast path of GPT-2, Llama
 * 3 and their like. Elsewhere a step of the pretokenizer writes the letters (CHANGE_PIECE). */
#include <stdatomic.h>
#include <stdlib.h>
#include "text/bpe/added_tokens.h"
#include "text/bpe/bpe.h"
#include "text/bpe/decode_chain.h"
#include "text/bpe/token_trie.h"
#include "text/pretokenize/pretokenizer.h"
#include "text/pretokenize/normalizer.h"
#include "text/tokenizer.h"
#include "text/bpe/vocab.h"
#include "text/bpe/piece_cache.h"

enum { BPE_TOKENIZER_THREADS = 64 };                /* caches kept; further threads open and close one for
                                                     * each text */

enum { TEMPLATE_IDS_MAX = 8 };
typedef struct { int32_t id[TEMPLATE_IDS_MAX]; int count; } TemplateIds;

typedef struct {
    char     name[1024];                  /* as given to --tokenizer */
    Vocab    vocab;                       /* the bytes of each token as the files define them */
    Merges   merges;
    AddedTokens  added;
    Normalizer   normalizer;              /* applied to the text between added tokens that are not
                                           * `normalized` */
    Normalizer   segment_normalizer;      /* applied to each segment between all added tokens, before
                                           * pretokenizing */
    Pretokenizer pretokenizer;
    uint8_t *special;                     /* [VOCAB_IDS_MAX]: 1 where the model makes the id of no text: an
                                           * added token that is not of the model's own vocabulary, or in a
                                           * byte-level one a token that is not written in letters; NULL:
                                           * there is none */
    uint64_t rules;                       /* hash of the rules that the file has and that are not hashed
                                           * from the fields here */
    TemplateIds before, after;            /* ids that the post_processor of a tokenizer.json puts around
                                           * each text */
    int32_t  vocabulary, eod, unknown;    /* number of ids; ids of the end of document and of unknown text;
                                           * VOCAB_NONE: none */
    PieceModel model;
    Affix    prefix, suffix;              /* of tokens within a word, and of those that end one */
    TokenTrie trie;                       /* of WordPiece and Unigram */
    int64_t  max_characters;              /* of WordPiece: a longer word is unknown */
    DecodeChain chain;                    /* the decoder of a tokenizer.json; without steps: tokens are texts,
                                           * with U+2581 for a blank and <0x0A> for a byte */
    bool     byte_level;                  /* symbols are bytes; else they are characters, and bytes where
                                           * byte_fallback */
    bool     byte_fallback, fuse_unknown; /* fuse_unknown: consecutive unknown characters give one id */
    bool     ignore_merges;               /* a pretoken that is a token is not built by merges */
    bool     prepends_mark;               /* encode puts a mark, U+2581, before the text */
    bool     strip_first_space;           /* decoding drops the first space of a text, even one not written
                                           * as a mark */
    /* made by bpe_tokenizer_make */
    int32_t  byte_id[256];                /* ids of single bytes; VOCAB_NONE: there is none */
    uint8_t  word_prefix[256];            /* 1: this byte may precede the letters of a word within a
                                           * pretoken */
    Vocab    decoded;                     /* the text that each id decodes to */
    Vocab    decoded_at[PIECE_PLACES];    /* the same by its place in a text; empty where that does not
                                           * matter */
    _Atomic(PieceCache *) cache[BPE_TOKENIZER_THREADS];     /* the caches that no thread uses now */
} BpeTokenizer;

/* The id of a token of the model's own vocabulary, to which added tokens do not belong, or VOCAB_NONE. */
static inline int32_t bpe_model_find(const BpeTokenizer *m, const uint8_t *text, int64_t bytes)
{
    int32_t id = vocab_find(&m->vocab, text, bytes);
    return id >= 0 && m->special && m->special[id] ? VOCAB_NONE : id;
}
/* The description of an open tokenizer, which owns it; NULL: it is of another kind. */
const BpeTokenizer *bpe_tokenizer_of(const Tokenizer *t);
/* tokenizer_limit */
Status bpe_tokenizer_limit(Tokenizer *t, int32_t ids);
/* Pretokens encoded so far, and how many of them missed the cache. Call it while no thread encodes. */
void bpe_tokenizer_pieces(const Tokenizer *t, int64_t *pieces, int64_t *misses);
/* The `encode` of the Tokenizer; threads may call it at the same time. */
int64_t bpe_tokenizer_encode(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes);
/* The `max_ids` of the Tokenizer where normalizers may make a text much longer: normalizes and splits it. */
int64_t bpe_tokenizer_count(const Tokenizer *t, const char *text, int64_t bytes);
/* An empty description. NO_MEMORY */
Status bpe_tokenizer_open (BpeTokenizer **bpe, const char *name);
void   bpe_tokenizer_close(BpeTokenizer *bpe);
/* Makes the Tokenizer, which owns bpe from here on; on failure bpe is closed. Logs where characters without a
 * token are left out of a text, as Hugging Face's library does without an unk_token. */
Status bpe_tokenizer_make(Tokenizer *t, BpeTokenizer *bpe);

/* The readers take paths, which their messages name. A model takes at most 100 times the bytes of its files
 * and 64 MB: the JSON tree (text/bpe/read_internal.h), and some 60 bytes per id for tokens, hash slots and
 * merges, because ids are bounded by the size of the files (text/bpe/vocab.h). All fail with BAD_FILE,
 * IO_FAILED or NO_MEMORY. */
Status bpe_read_tiktoken(BpeTokenizer *bpe, const char *path);
Status bpe_read_gpt2    (BpeTokenizer *bpe, const char *vocab_path, const char *merges_path);
Status bpe_read_json    (BpeTokenizer *bpe, const char *path);
/* A text that is searched for before pretokenizing; it becomes a token where no token has its id. Copies
 * token.text. */
Status bpe_add_token(BpeTokenizer *bpe, AddedToken token);
/* Notes that the model makes the id of no text. NO_MEMORY */
Status bpe_mark_special(BpeTokenizer *bpe, int32_t id);
/* added_tokens.json beside a vocab.json: {token: id}. config_path: a tokenizer_config.json, whose
 * added_tokens_decoder holds the properties of each token; map_path: a special_tokens_map.json, which names
 * the special ones. "" for either that does not exist. */
Status bpe_read_added(BpeTokenizer *bpe, const char *path, const char *vocab_path, const char *config_path,
                      const char *map_path);
/* The eos_token of a tokenizer_config.json becomes the end of document. */
Status bpe_read_config  (BpeTokenizer *bpe, const char *path);
/* Adds a merge by the bytes of its two tokens; both, and their concatenation without the prefix that the
 * right one has within a word, must be tokens already. */
Status bpe_add_merge(BpeTokenizer *bpe, const uint8_t *left, int64_t left_bytes, const uint8_t *right,
                     int64_t right_bytes, uint32_t rank);
#endif
