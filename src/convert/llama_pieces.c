/* Which sentencepiece models other programs read as we do. */
#include "convert/llama_pieces.h"
#include <stddef.h>

const char *llama_pieces_other(const SentencePieceModel *m)
{
    if (m->kind != SP_MODEL_BPE) return "it is no BPE";
    if (m->charsmap.bytes)       return "it normalizes characters";
    if (m->drop_spaces)          return "it removes repeated blanks";
    if (!m->escape_spaces || m->space_last) return "it marks blanks otherwise";
    if (!m->dummy_prefix)        return "it adds no blank before a text";
    return m->byte_fallback ? NULL : "it has no tokens for bytes";
}
