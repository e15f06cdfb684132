/* Which sentencepiece models other programs read as we do. */
#include "convert/llama_pieces.h"
#include <string.h>

bool llama_pieces_is(const char *path)
{
    FileMap map;
    size_t  letters = strlen(path);
    if (letters < 6 || strcmp(path + letters - 6, ".model") || file_map(&map, path) != OK) return false;
    bool result = map.size && map.data[0] < ' ';
    file_unmap(&map);
    return result;
}

static const char *other_rule(const SentencePieceModel *m)
{
    if (m->kind != SP_MODEL_BPE) return "it is no BPE";
    if (m->charsmap.bytes)       return "it normalizes characters";
    if (m->drop_spaces)          return "it removes repeated blanks";
    if (!m->escape_spaces || m->space_last) return "it marks blanks otherwise";
    if (!m->dummy_prefix)        return "it adds no blank before a text";
    return m->byte_fallback ? NULL : "it has no tokens for bytes";
}

Status llama_pieces_open(LlamaPieces *pieces, const char *path)
{
    *pieces = (LlamaPieces){ 0 };
    TRY(file_map(&pieces->map, path));
    Status status = sentencepiece_model_read(&pieces->model, pieces->map.data, pieces->map.size, path);
    const char *why = status == OK ? other_rule(&pieces->model) : NULL;
    if (status == OK && !why) return OK;
    if (status == OK) sentencepiece_model_close(&pieces->model);
    file_unmap(&pieces->map);
    if (!why) return status;
    return fail(BAD_OPTION,
                "the tokenizer %s cannot be given to other programs, which would read its pieces by "
                "the rules of Llama's: %s",
                path, why);
}

void llama_pieces_close(LlamaPieces *pieces)
{
    sentencepiece_model_close(&pieces->model);
    file_unmap(&pieces->map);
}
