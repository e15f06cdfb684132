/* The files of a tokenizer as transformers expects them. Those it knows are copied; for the others a
 * tokenizer.json is made. */
#include <stdio.h>
#include <string.h>
#include "convert/hf_write.h"
#include "convert/tokenizer/tokenizer_json.h"
#include "text/sentencepiece/sentencepiece.h"

/* What is written, and from what. */
typedef struct {
    const char          *folder;           /* that is written */
    const Tokenizer     *tokenizer;
    const TokenizerFile *file;
    const SpecialIds    *ids;
    int64_t              positions;
} HfTokenizer;

static Status file_copy(const HfTokenizer *h, const char *name, const char *from)
{
    FileMap map;
    char    path[1024];
    TRY(path_join(path, h->folder, name));
    TRY(file_map(&map, from));
    Status status = file_write_whole(path, map.data, map.size);
    file_unmap(&map);
    return status;
}

/* Copies the file of the tokenizer's folder, where it has one. *found may be NULL. */
static Status beside_copy(const HfTokenizer *h, const char *name, bool *found)
{
    char from[1024];
    bool there = tokenizer_file_beside(from, h->file, name);
    if (found) *found = there;
    return there ? file_copy(h, name, from) : OK;
}

static void text_set(json_t *config, const char *key, const HfTokenizer *h, int64_t id)
{
    char text[SPECIAL_TEXT];
    if (special_text(text, h->tokenizer, id)) json_object_set_new(config, key, json_string(text));
}

/* tokenizer_config.json of `class`. A tokenizer that spells any byte knows no unknown text; transformers then
 * writes the end of a text for it. */
static Status config_write(const HfTokenizer *h, const char *class)
{
    const SpecialIds *ids = h->ids;
    int64_t end = ids->ends ? ids->end[0] : -1;
    json_t *config = json_pack("{s:s, s:b, s:I}", "tokenizer_class", class, "clean_up_tokenization_spaces",
                               false, "model_max_length", (json_int_t)h->positions);
    text_set(config, "bos_token", h, ids->bos);
    text_set(config, "eos_token", h, end);
    text_set(config, "pad_token", h, ids->pad);
    bool known = ids->unknown >= 0 || h->file->kind == TOKENIZER_FILE_JSON;
    text_set(config, "unk_token", h, known ? ids->unknown : end);
    if (h->file->kind == TOKENIZER_FILE_SENTENCEPIECE) {       /* which transformers would add otherwise */
        json_object_set_new(config, "add_bos_token", json_boolean(ids->adds_bos));
        json_object_set_new(config, "add_eos_token", json_boolean(ids->adds_end));
    }
    char path[1024];                     /* the template may be in the folder's tokenizer_config.json */
    if (ids->chat && !tokenizer_file_beside(path, h->file, "chat_template.jinja"))
        json_object_set(config, "chat_template", ids->chat);
    return hf_json_write(h->folder, "tokenizer_config.json", config);
}

static Status chat_copy(const HfTokenizer *h)
{
    TRY(beside_copy(h, "special_tokens_map.json", NULL));
    return beside_copy(h, "chat_template.jinja", NULL);
}

/* The files that say what tokens mean: those of the folder, or else a config of `class`. */
static Status meanings_write(const HfTokenizer *h, const char *class)
{
    bool found;
    TRY(chat_copy(h));
    TRY(beside_copy(h, "added_tokens.json", NULL));
    TRY(beside_copy(h, "tokenizer_config.json", &found));
    return found ? OK : config_write(h, class);
}

/* A tokenizer.json where transformers opens no file of this tokenizer, and what the folder says of
 * conversations. Consumes the reference. */
static Status made_write(const HfTokenizer *h, json_t *root)
{
    Status status = config_write(h, "PreTrainedTokenizerFast");
    if (status == OK) status = chat_copy(h);
    if (status == OK) return hf_json_write(h->folder, "tokenizer.json", root);
    json_decref(root);
    return status;
}

/* ---- by kind ---- */

/* A model with Llama's rules is copied. Where no config beside it says how transformers reads it, a
 * tokenizer.json is made as well, because LlamaTokenizer treats a blank at the beginning of a text otherwise
 * than sentencepiece; where a tokenizer.json cannot have all of its pieces, LlamaTokenizer reads the
 * model. */
static Status sentencepiece_write(const HfTokenizer *h)
{
    char    path[1024];
    json_t *root;
    bool    llama = !llama_pieces_other(sentencepiece_model_of(h->tokenizer));
    if (llama) TRY(file_copy(h, "tokenizer.model", h->file->path));
    if (llama && tokenizer_file_beside(path, h->file, "tokenizer_config.json"))
        return meanings_write(h, "LlamaTokenizer");
    Status status = sentencepiece_json(&root, h->file->path);
    if (status == OK) return made_write(h, root);
    return llama && status == BAD_OPTION ? meanings_write(h, "LlamaTokenizer") : status;
}

static Status files_write(const HfTokenizer *h)
{
    json_t *root;
    switch (h->file->kind) {
    case TOKENIZER_FILE_BYTES: return made_write(h, bytes_json(h->tokenizer));
    case TOKENIZER_FILE_JSON:
        TRY(file_copy(h, "tokenizer.json", h->file->path));
        TRY(beside_copy(h, "tokenizer.model", NULL));          /* which older programs read */
        return meanings_write(h, "PreTrainedTokenizerFast");
    case TOKENIZER_FILE_PAIR:
        TRY(file_copy(h, "vocab.json", h->file->path));
        TRY(file_copy(h, "merges.txt", h->file->merges));
        return meanings_write(h, "GPT2Tokenizer");
    case TOKENIZER_FILE_TIKTOKEN:
        TRY(tiktoken_json(&root, h->file->path));
        return made_write(h, root);
    case TOKENIZER_FILE_SENTENCEPIECE: break;
    }
    return sentencepiece_write(h);
}

Status hf_tokenizer_write(const char *folder, const char *tokenizer, int64_t positions, SpecialIds *ids)
{
    Tokenizer     t;
    TokenizerFile file;
    *ids = (SpecialIds){ 0 };
    TRY(tokenizer_file_find(&file, tokenizer));
    TRY(tokenizer_open(&t, tokenizer));
    Status status = special_ids_find(ids, &t, &file);
    if (status == OK) status = files_write(&(HfTokenizer){ folder, &t, &file, ids, positions });
    tokenizer_close(&t);
    return status;
}
