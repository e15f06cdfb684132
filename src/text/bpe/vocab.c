/* The hash table of a vocabulary, and the spellings of bytes in tokenizer files. */
#include "text/bpe/vocab.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "text/unicode.h"

static uint64_t hash_of(const uint8_t *bytes, int64_t count)
{
    uint64_t h = (uint64_t)count;
    for (; count >= 8; count -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        h = (h ^ word) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    for (; count; count--, bytes++) h = (h ^ *bytes) * 0x100000001B3u;
    return h ^ h >> 32;
}

enum { ID_MASK = VOCAB_IDS_MAX - 1 };
static int32_t tag_of(uint64_t hash) { return (int32_t)(hash >> 57 << 24); }

/* The slot of these bytes, or the empty one where they belong. The tag of seven hash bits avoids most
 * comparisons with the bytes of other tokens. */
static int64_t slot_of(const Vocab *v, uint64_t hash, const void *bytes, int64_t count)
{
    int64_t at = (int64_t)(hash & (uint64_t)(v->slots - 1));
    for (int32_t slot; (slot = v->slot[at]) >= 0; at = (at + 1) & (v->slots - 1))
        if ((slot & ~ID_MASK) == tag_of(hash) && v->length[slot & ID_MASK] == count &&
            !memcmp(vocab_bytes(v, slot & ID_MASK), bytes, (size_t)count)) break;
    return at;
}

static Status no_memory(void) { return fail(NO_MEMORY, "no memory for a vocabulary"); }

/* Doubles the slots when half of them are filled. */
static Status slots_grow(Vocab *v)
{
    if (v->filled * 2 < v->slots) return OK;
    int64_t  slots = v->slots ? v->slots * 2 : 1024;
    int32_t *made  = malloc((size_t)slots * sizeof *made);
    if (!made) return no_memory();
    memset(made, -1, (size_t)slots * sizeof *made);
    Vocab old = *v;
    v->slot  = made;
    v->slots = slots;
    for (int64_t i = 0; i < old.slots; i++) {
        if (old.slot[i] < 0) continue;
        int32_t  id   = old.slot[i] & ID_MASK;
        uint64_t hash = hash_of(vocab_bytes(v, id), v->length[id]);
        made[slot_of(v, hash, vocab_bytes(v, id), v->length[id])] = old.slot[i];
    }
    free(old.slot);
    return OK;
}

static Status ids_grow(Vocab *v, int64_t id)
{
    int32_t room = v->ids_capacity;                                  /* both arrays grow by the same rule */
    TRY(ARRAY_RESERVE(v->offset, room, id + 1));
    TRY(ARRAY_RESERVE(v->length, v->ids_capacity, id + 1));
    for (; v->ids <= id; v->ids++) v->offset[v->ids] = -1, v->length[v->ids] = 0;
    return OK;
}

Status vocab_add(Vocab *v, int64_t id, const void *bytes, int64_t count)
{
    int64_t file_bytes = v->file_bytes && v->file_bytes + VOCAB_HOLES_MAX < VOCAB_IDS_MAX
        ? v->file_bytes + VOCAB_HOLES_MAX : VOCAB_IDS_MAX;
    if (id < 0 || id >= file_bytes)
        return fail(BAD_FILE, "id %" PRId64 " of a token is not one of 0 to %" PRId64 "%s", id,
                    file_bytes - 1,
                    file_bytes < VOCAB_IDS_MAX ? ", which is 65536 more than the file has bytes" : "");
    if (vocab_has(v, id)) return fail(BAD_FILE, "id %" PRId64 " is given to two tokens", id);
    TRY(ids_grow(v, id));
    TRY(ARRAY_RESERVE(v->bytes, v->capacity, v->used + count + 1));
    TRY(slots_grow(v));
    memcpy(v->bytes + v->used, bytes, (size_t)count);
    v->offset[id]   = v->used;
    v->length[id] = (int32_t)count;
    v->used += count;
    uint64_t hash = hash_of(bytes, count);
    int64_t  at   = slot_of(v, hash, bytes, count);
    if (v->slot[at] < 0) v->slot[at] = tag_of(hash) | (int32_t)id, v->filled++;
    if (((at - (int64_t)hash) & (v->slots - 1)) <= VOCAB_PROBES_MAX) return OK;
    return fail(BAD_FILE,
                "token %" PRId64 " collides with %d tokens before it, which no vocabulary made of text"
                " does", id, VOCAB_PROBES_MAX);
}

int32_t vocab_find(const Vocab *v, const void *bytes, int64_t count)
{
    int32_t slot = v->slots ? v->slot[slot_of(v, hash_of(bytes, count), bytes, count)] : VOCAB_NONE;
    return slot < 0 || (slot & ID_MASK) >= v->ids ? VOCAB_NONE : slot & ID_MASK;
}

void vocab_close(Vocab *v)
{
    free(v->bytes);
    free(v->offset);
    free(v->length);
    free(v->slot);
    *v = (Vocab){ 0 };
}

/* ---- names of bytes ---- */

int byte_of_name(const void *text, int64_t bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *t = text;
    if (bytes != 6 || memcmp(t, "<0x", 3) || t[5] != '>') return -1;
    const char *high = memchr(digits, t[3], 16), *low = memchr(digits, t[4], 16);
    return high && low ? (int)((high - digits) << 4 | (low - digits)) : -1;
}

/* Printable and neither a space nor U+00AD, the soft hyphen */
static bool is_itself(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

uint32_t letter_of_byte(uint8_t byte)
{
    uint32_t others = 0;
    if (is_itself(byte)) return byte;
    for (uint32_t b = 0; b < byte; b++) others += !is_itself(b);
    return 0x100 + others;
}

size_t letters_of_bytes(char *out, const uint8_t *bytes, int64_t count)
{
    size_t used = 0;
    for (int64_t i = 0; i < count; i++)                              /* below U+0800: two bytes at most */
        used += (size_t)utf8_encode((uint8_t *)out + used, letter_of_byte(bytes[i]));
    return used;
}

int byte_of_letter(uint32_t point)
{
    uint32_t other = point - 0x100;                         /* of bytes 00 to 20, 7F to A0, and AD, in this
                                                             * order */
    if (point < 0x100) return is_itself(point) ? (int)point : -1;
    return other < 33 ? (int)other : other < 67 ? (int)other + 0x7F - 33 : other == 67 ? 0xAD : -1;
}

bool letters_to_bytes(uint8_t *bytes, int64_t *count)
{
    int64_t at = 0, to = 0;
    for (; at < *count; to++) {
        Rune r = rune_at(bytes + at, *count - at);
        int byte = byte_of_letter(r.point);
        if (byte < 0) return false;
        bytes[to] = (uint8_t)byte;
        at += r.bytes;
    }
    *count = to;
    return true;
}
