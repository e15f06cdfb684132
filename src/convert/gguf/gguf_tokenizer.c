/* The tokenizer inside a GGUF file, as llama.cpp reads it: the vocabulary of its kind, and the ids of special
 * tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "convert/gguf/gguf_internal.h"
#include "convert/tokenizer/special_ids.h"
#include "text/sentencepiece/sentencepiece.h"

/* ---- tokens ---- */

Status gguf_tokens_open(GgufTokens *t, int64_t count, size_t space)
{
    *t = (GgufTokens){ .token = calloc((size_t)count, sizeof *t->token), .count = count,
                       .space = malloc(space + 1) };
    if (t->token && t->space) return OK;
    gguf_tokens_close(t);
    return fail(NO_MEMORY, "no memory for %lld tokens", (long long)count);
}

void gguf_tokens_close(GgufTokens *t)
{
    free(t->token);
    free(t->space);
    *t = (GgufTokens){ 0 };
}

void gguf_tokens_put(GgufText *out, const GgufTokens *t, bool scores)
{
    char unused[32];
    gguf_key_array(out, "tokenizer.ggml.tokens", GGUF_STRING, t->count);
    for (int64_t id = 0; id < t->count; id++) {
        snprintf(unused, sizeof unused, "[PAD%lld]", (long long)id);
        if (t->token[id].text) gguf_put_string(out, t->token[id].text, t->token[id].bytes);
        else                   gguf_put_string(out, unused, strlen(unused));
    }
    if (scores) gguf_key_array(out, "tokenizer.ggml.scores", GGUF_FLOAT32, t->count);
    for (int64_t id = 0; id < t->count && scores; id++)
        gguf_put_real(out, t->token[id].text ? t->token[id].score : -10000);
    gguf_key_array(out, "tokenizer.ggml.token_type", GGUF_INT32, t->count);
    for (int64_t id = 0; id < t->count; id++)
        gguf_put_number(out, t->token[id].text ? t->token[id].kind : GGUF_TOKEN_UNUSED, 4);
}

void gguf_added_kinds(GgufTokens *t, const BpeTokenizer *m)
{
    for (int32_t id = 0; id < m->vocab.ids; id++) t->token[id].kind = GGUF_TOKEN_NORMAL;
    for (int i = 0; i < m->added.count; i++) {
        const AddedToken *added = &m->added.token[i];
        t->token[added->id].kind = added->special ? GGUF_TOKEN_CONTROL : GGUF_TOKEN_DEFINED;
    }
    if (m->unknown >= 0 && !m->byte_level) t->token[m->unknown].kind = GGUF_TOKEN_UNKNOWN;
}

/* The word bytes: letters of all bytes, without merges. */
static Status bytes_put(GgufText *out, const Tokenizer *t, int64_t vocabulary)
{
    GgufTokens tokens;
    char       end[SPECIAL_TEXT] = "";
    TRY(gguf_tokens_open(&tokens, vocabulary, 512));
    special_text(end, t, t->eod);
    for (int b = 0; b < 256; b++) {
        char *text = tokens.space + 2 * b;
        size_t used = letters_of_bytes(text, &(uint8_t){ (uint8_t)b }, 1);
        tokens.token[b] = (GgufToken){ text, used, 0, GGUF_TOKEN_NORMAL };
    }
    tokens.token[t->eod] = (GgufToken){ end, strlen(end), 0, GGUF_TOKEN_CONTROL };
    gguf_key_string(out, "tokenizer.ggml.model", "gpt2");
    gguf_key_string(out, "tokenizer.ggml.pre", "gpt-2");
    gguf_tokens_put(out, &tokens, false);
    gguf_key_array(out, "tokenizer.ggml.merges", GGUF_STRING, 0);
    gguf_tokens_close(&tokens);
    return OK;
}

/* ---- special tokens ---- */

/* llama.cpp ends a text at three ids that the file names, and at tokens whose texts it knows. The three are
 * the ends of a document, of a turn and of a message that a program answers. */
enum { EOS, EOT, EOM, ENDS };

/* Which key the text of a token means; EOS: none of the others. */
static int end_kind(const char *text)
{
    static const char *const turns[] = { "<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>", "<|eot|>",
                                         "<|end_of_turn|>", "<EOT>", "[EOT]", "<end_of_utterance>" };
    for (size_t i = 0; i < COUNT(turns); i++)
        if (!strcmp(text, turns[i])) return EOT;
    return strcmp(text, "<|eom_id|>") ? EOS : EOM;
}

/* end[key]: the id, -1 for none. The first id is that of EOS whatever it means. One of no such meaning has a
 * key that is left, so that texts end at it too: EOM first, which llama.cpp itself looks for by one text. */
static void ends_place(int64_t end[ENDS], const SpecialIds *ids, const Tokenizer *t)
{
    static const int left[] = { EOM, EOT };
    char text[SPECIAL_TEXT];
    int  kind[SPECIAL_ENDS_MOST];
    for (int k = 0; k < ENDS; k++) end[k] = -1;
    for (int i = 0; i < ids->ends; i++) {
        kind[i] = special_text(text, t, ids->end[i]) ? end_kind(text) : EOS;
        if (end[kind[i]] < 0 && kind[i] != EOS) end[kind[i]] = ids->end[i];
    }
    if (ids->ends) end[EOS] = ids->end[0];
    for (int i = 1, k = 0; i < ids->ends; i++) {
        while (k < 2 && end[left[k]] >= 0) k++;
        if (kind[i] == EOS && k < 2) end[left[k]] = ids->end[i];
    }
}

static void ends_put(GgufText *out, const SpecialIds *ids, const Tokenizer *t)
{
    static const char *const keys[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    int64_t end[ENDS];
    ends_place(end, ids, t);
    for (int k = 0; k < ENDS; k++)
        if (end[k] >= 0) gguf_key_uint(out, keys[k], end[k]);
    for (int i = 0; i < ids->ends; i++)
        if (ids->end[i] != end[EOS] && ids->end[i] != end[EOT] && ids->end[i] != end[EOM])
            log_line("convert: id %lld ends a text as well, and a GGUF file has no key left for it; llama.cpp"
                     " ends a text there only where it knows the token's text", (long long)ids->end[i]);
}

static void ids_put(GgufText *out, const SpecialIds *ids, const Tokenizer *t, const char *name)
{
    if (ids->bos >= 0) gguf_key_uint(out, "tokenizer.ggml.bos_token_id", ids->bos);
    ends_put(out, ids, t);
    if (ids->unknown >= 0) gguf_key_uint(out, "tokenizer.ggml.unknown_token_id", ids->unknown);
    if (ids->pad >= 0) gguf_key_uint(out, "tokenizer.ggml.padding_token_id", ids->pad);
    gguf_key_bool(out, "tokenizer.ggml.add_bos_token", ids->adds_bos);
    gguf_key_bool(out, "tokenizer.ggml.add_eos_token", ids->adds_end);
    if (ids->chat) {
        gguf_key(out, "tokenizer.chat_template", GGUF_STRING);
        gguf_put_string(out, json_string_value(ids->chat), json_string_length(ids->chat));
    }
    if (!ids->ends)
        log_line("convert: the tokenizer %s names no end of a text; llama.cpp then takes one by its number",
                 name);
}

/* What llama.cpp does not know of added tokens. */
static void added_tell(const BpeTokenizer *m)
{
    for (int i = 0; i < m->added.count; i++) {
        const AddedToken *added = &m->added.token[i];
        if (!added->strip_left && !added->strip_right && !added->single) continue;
        log_line("convert: llama.cpp finds the added token %.*s of %s in any place and takes no blanks into "
                 "it; its lstrip, rstrip or single_word say otherwise",
                 (int)added->bytes, (const char *)added->text, m->name);
        return;
    }
}

static Status vocabulary_put(GgufText *out, const Tokenizer *t, int64_t vocabulary)
{
    const BpeTokenizer       *bpe = bpe_tokenizer_of(t);
    const SentencePieceModel *pieces = sentencepiece_model_of(t);
    if (pieces) return gguf_sentencepiece_put(out, pieces, t->name, vocabulary);
    if (!bpe)   return bytes_put(out, t, vocabulary);
    if (bpe->model != PIECE_MODEL_BPE || bpe->prefix.bytes || bpe->suffix.bytes)
        return fail(BAD_OPTION, "--to gguf: the tokenizer %s is no BPE, or its tokens have a prefix or suffix"
                    " within words; llama.cpp reads no such tokenizer.json; --to hf writes it for"
                    " transformers", t->name);
    added_tell(bpe);
    return bpe->byte_level ? gguf_bpe_put(out, bpe, vocabulary) : gguf_llama_put(out, bpe, vocabulary);
}

Status gguf_tokenizer(GgufText *out, const char *name, int64_t vocabulary)
{
    Tokenizer     t;
    TokenizerFile file;
    SpecialIds    ids = { 0 };
    if (tokenizer_is_none(name)) {     /* ids alone; their number is the key vocab_size of the architecture */
        gguf_key_string(out, "tokenizer.ggml.model", "no_vocab");
        return OK;
    }
    TRY(tokenizer_file_find(&file, name));
    TRY(tokenizer_open(&t, name));
    Status status = tokenizer_limit(&t, vocabulary);
    if (status == OK) status = special_ids_find(&ids, &t, &file);
    if (status == OK) status = vocabulary_put(out, &t, vocabulary);
    if (status == OK) ids_put(out, &ids, &t, name);
    special_ids_free(&ids);
    tokenizer_close(&t);
    return status;
}
