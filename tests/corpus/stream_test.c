/* Compressed bytes are restored; files that are cut, damaged, of another format or bombs are reported with the byte. */
#include "corpus/read/stream.h"
#include "corpus/packed.h"
#include "corpus/folder.h"

static char path[128];
static char text[100000], packed[200000], got[300000];

static void file_write_text(const char *name, const char *ending, const char *data, size_t bytes)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", name, ending);
    file_put(path, whole, data, bytes);
}

/* All of the stream in steps of `step` bytes; *bytes are those before its end or damage */
static Status all_read(size_t *bytes, size_t step, int64_t ratio)
{
    Stream *stream;
    size_t  now = 1;
    *bytes = 0;
    TRY(stream_open(&stream, path, ratio));
    Status status = OK;
    while (status == OK && now) {
        status  = stream_read(stream, got + *bytes, step, &now);
        *bytes += status == OK ? now : 0;
    }
    if (status != OK) assert_int_equal(stream_read(stream, got, step, &now), status);       /* and stays so */
    stream_close(stream);
    return status;
}

static size_t text_make(void)
{
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * i >> 7 ^ i % 251);
    return sizeof text;
}

static void members_behind_each_other(void **state)
{
    (void)state;
    size_t all = text_make(), bytes, half = 77777;
    for (int p = 0; p < PACKS; p++)
        for (size_t step = 1; step < 200000; step = step * 50 + 1) {
            size_t first  = packs[p].pack(packed, sizeof packed, text, half);
            size_t empty  = packs[p].pack(packed + first, sizeof packed - first, text, 0);
            size_t second = packs[p].pack(packed + first + empty, sizeof packed - first - empty, text + half, all - half);
            file_write_text("a.txt", packs[p].ending, packed, first + empty + second);
            assert_int_equal(all_read(&bytes, step, 400), OK);
            assert_int_equal(bytes, all);
            assert_memory_equal(got, text, all);
        }
}

static void plain_is_plain(void **state)
{
    (void)state;
    size_t bytes;
    file_write_text("a", ".txt", text, text_make());
    assert_int_equal(all_read(&bytes, 12345, 400), OK);
    assert_int_equal(bytes, sizeof text);
    assert_memory_equal(got, text, sizeof text);
}

/* Cut anywhere, what came out before is as it was. */
static void cut_is_told(void **state)
{
    (void)state;
    size_t bytes;
    text_make();
    for (int p = 0; p < PACKS; p++) {
        size_t whole = packs[p].pack(packed, sizeof packed, text, 3000);
        for (size_t cut = 0; cut < whole; cut += cut < 40 || whole - cut < 40 ? 1 : 37) {
            char said[64];
            file_write_text("cut.txt", packs[p].ending, packed, cut);
            assert_int_equal(all_read(&bytes, 64, 400), BAD_FILE);
            snprintf(said, sizeof said, "%s: byte %zu: ", packs[p].ending, cut);
            assert_non_null(strstr(fail_text(), said));
            assert_true(bytes <= 3000);
            assert_memory_equal(got, text, bytes);
        }
    }
}

/* A flipped bit is either reported or has no effect on the text: all three formats have checksums. */
static void damage_is_told(void **state)
{
    (void)state;
    size_t bytes, harmless = 0;
    text_make();
    for (int p = 0; p < PACKS; p++) {
        size_t whole = packs[p].pack(packed, sizeof packed, text, 3000);
        for (size_t at = 0; at < whole; at += at < 40 ? 1 : 13) {
            packed[at] ^= 4;
            file_write_text("bad.txt", packs[p].ending, packed, whole);
            packed[at] ^= 4;
            Status status = all_read(&bytes, 256, 400);
            harmless += status == OK;
            if (status == OK) assert_int_equal(bytes, 3000);
            if (status == OK) assert_memory_equal(got, text, 3000);
            else assert_non_null(strstr(fail_text(), "bad.txt"));
        }
    }
    assert_true(harmless < 20);                 /* bits of gzip's header: the time, the system */
}

static void foreign_is_told(void **state)
{
    (void)state;
    size_t bytes;
    for (int p = 0; p < PACKS; p++) {
        char said[64];
        file_write_text("plain.txt", packs[p].ending, "just text\n", 10);
        assert_int_equal(all_read(&bytes, 256, 400), BAD_FILE);
        snprintf(said, sizeof said, "not %s", packs[p].name);
        assert_non_null(strstr(fail_text(), said));
        size_t whole = packs[p].pack(packed, sizeof packed, "text\n", 5);
        memcpy(packed + whole, "more behind it", 14);
        file_write_text("behind.txt", packs[p].ending, packed, whole + 14);
        assert_int_equal(all_read(&bytes, 256, 400), BAD_FILE);
        assert_int_equal(bytes, 5);
        assert_non_null(strstr(fail_text(), said));
    }
}

/* 160 MiB of zeros, in a file after ordinary text */
static void bombs_are_told(void **state)
{
    (void)state;
    enum { ZEROS = 160 << 20 };
    static char out[1 << 20];
    char *zeros = calloc(1, ZEROS), *bomb = malloc(1 << 20);
    for (int p = 0; p < PACKS; p++) {
        size_t now = 1, bytes = packs[p].pack(bomb, 1 << 20, text, text_make()), all = 0;
        bytes += packs[p].pack(bomb + bytes, (1 << 20) - bytes, zeros, ZEROS);
        file_write_text("bomb.txt", packs[p].ending, bomb, bytes);
        for (int64_t ratio = 0; ratio <= 400; ratio += 400, all = 0) {
            Stream *stream;
            Status status = stream_open(&stream, path, ratio);
            for (now = 1; status == OK && now; all += now) status = stream_read(stream, out, sizeof out, &now);
            stream_close(stream);
            assert_int_equal(status, ratio ? BAD_FILE : OK);
            if (ratio) assert_non_null(strstr(fail_text(), "--max-ratio 0"));
            if (!ratio) assert_int_equal(all, ZEROS + sizeof text);
        }
    }
    free(zeros);
    free(bomb);
}

/* ---- decompressed ahead ---- */

enum { WIDE = 1 << 20, WIDEST = 5 << 20 };
static char wide[WIDEST], wide_packed[WIDEST + WIDEST / 4], wide_got[WIDEST + 1], wide_one[WIDEST + 1];

/* Bytes that hardly pack, as members with empty ones between; returns the packed bytes */
static size_t wide_pack(size_t all, size_t member)
{
    uint64_t x = 1;
    size_t   packed_bytes = 0;
    for (size_t i = 0; i < all; i++) wide[i] = (char)((x = x * 6364136223846793005u + 1442695040888963407u) >> 57);
    for (size_t at = 0; at < all; at += member) {
        size_t bytes = member < all - at ? member : all - at;
        packed_bytes += pack_bz2(wide_packed + packed_bytes, sizeof wide_packed - packed_bytes, wide + at, bytes);
        packed_bytes += pack_bz2(wide_packed + packed_bytes, sizeof wide_packed - packed_bytes, wide, 0);
    }
    return packed_bytes;
}

/* All of it in steps; where it fails, the message is in said */
static Status wide_read(size_t *bytes, size_t packed_bytes, const Codec *codec, int threads, size_t step, char said[512])
{
    Stream *stream;
    size_t  now = 1;
    *bytes = 0;
    FILE *file = fmemopen(wide_packed, packed_bytes, "rb");
    assert_non_null(file);
    assert_int_equal(stream_of(&stream, file, "wide.bz2", codec, 400), OK);
    assert_int_equal(stream_ahead(stream, threads), OK);
    Status status = OK;
    while (status == OK && now) {
        size_t capacity = sizeof wide_got - *bytes < step ? sizeof wide_got - *bytes : step;
        status  = stream_read(stream, wide_got + *bytes, capacity, &now);
        *bytes += status == OK ? now : 0;
        assert_true(stream_bytes_read(stream) >= 0 && stream_bytes_read(stream) <= (int64_t)packed_bytes);
    }
    snprintf(said, 512, "%s", status == OK ? "" : fail_text());
    stream_close(stream);
    return status;
}

/* Bytes and words as one thread has them. (bzip2 gives a damaged block, and then says so.) */
static void as_one_thread(size_t packed_bytes, const Codec *codec, int threads, size_t step)
{
    char   one[512], many[512];
    size_t one_bytes, many_bytes;
    Status status = wide_read(&one_bytes, packed_bytes, codec, 1, step, one);
    memcpy(wide_one, wide_got, one_bytes);
    memset(wide_got, 0, sizeof wide_got);
    assert_int_equal(wide_read(&many_bytes, packed_bytes, codec, threads, step, many), status);
    assert_string_equal(many, one);
    assert_int_equal(many_bytes, one_bytes);
    assert_memory_equal(wide_got, wide_one, one_bytes);
    if (status == OK) assert_memory_equal(wide_got, wide, one_bytes);
}

static void ahead_is_the_same(void **state)
{
    (void)state;
    const Codec *codec = codec_by_ending("x.bz2");
    static const size_t members[] = { 20000, 150000, 400000, WIDE };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        as_one_thread(wide_pack(WIDE, members[i]), codec, i % 2 ? 2 : 4, i % 2 ? 1 << 20 : 77777);
    as_one_thread(wide_pack(WIDEST, WIDEST - 100000), codec, 2, 1 << 20);     /* longer than a piece */
}

static void ahead_cut_and_damaged(void **state)
{
    (void)state;
    const Codec *codec = codec_by_ending("x.bz2");
    size_t whole = wide_pack(WIDE, 300000);
    for (size_t cut = whole / 5; cut < whole; cut += whole / 4) {
        as_one_thread(cut, codec, 2, 1 << 20);
        wide_packed[cut] ^= 16;
        as_one_thread(whole, codec, 3, 1 << 16);
        wide_packed[cut] ^= 16;
    }
    memcpy(wide_packed + whole, "more behind it", 14);
    as_one_thread(whole + 14, codec, 2, 1 << 20);
    as_one_thread(whole - 1, codec, 2, 1 << 20);
}

/* Members seem to begin where none does: at each odd place, and nowhere */
static int64_t start_wrong(const char *member, size_t bytes, size_t from)
{
    (void)member;
    return bytes > (from | 1) ? (int64_t)(from | 1) : -1;
}

static int64_t start_zero(const char *member, size_t bytes, size_t from)
{
    (void)member;
    return bytes > from ? (int64_t)from : -1;
}

static int64_t start_never(const char *member, size_t bytes, size_t from)
{
    (void)member;
    (void)bytes;
    return from ? -1 : 0;
}

static void ahead_of_wrong_starts(void **state)
{
    (void)state;
    int64_t (*const starts[])(const char *, size_t, size_t) = { start_wrong, start_zero, start_never };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        Codec codec = *codec_by_ending("x.bz2");
        codec.start = starts[i];
        as_one_thread(wide_pack(WIDE, 250000), &codec, 2, 100000);
    }
}

/* A bomb inside one piece, after ordinary members, and a close in the middle. */
static void ahead_bombs_and_closes(void **state)
{
    (void)state;
    enum { ZEROS = 160 << 20 };
    const Codec *codec = codec_by_ending("x.bz2");
    char  *zeros = calloc(1, ZEROS);
    size_t bytes = wide_pack(WIDE, 300000), now = 1;
    static char some[1 << 20];
    bytes += pack_bz2(wide_packed + bytes, sizeof wide_packed - bytes, zeros, ZEROS);
    free(zeros);
    for (int stop = 0; stop < 3; stop++) {
        Stream *stream;
        assert_int_equal(stream_of(&stream, fmemopen(wide_packed, bytes, "rb"), "bomb.bz2", codec, 400), OK);
        assert_int_equal(stream_ahead(stream, 2), OK);
        Status status = OK;
        for (now = 1; status == OK && now && stop != 1; now = stop ? 0 : now) status = stream_read(stream, some, sizeof some, &now);
        assert_int_equal(status, stop ? OK : BAD_FILE);
        if (!stop) assert_non_null(strstr(fail_text(), "--max-ratio 0"));
        stream_close(stream);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_behind_each_other),
        cmocka_unit_test(plain_is_plain),
        cmocka_unit_test(cut_is_told),
        cmocka_unit_test(damage_is_told),
        cmocka_unit_test(foreign_is_told),
        cmocka_unit_test(bombs_are_told),
        cmocka_unit_test(ahead_is_the_same),
        cmocka_unit_test(ahead_cut_and_damaged),
        cmocka_unit_test(ahead_of_wrong_starts),
        cmocka_unit_test(ahead_bombs_and_closes),
    };
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
