/* Files from strangers: what is wrong with each is said, and no bytes whatever make us read where we
 * should not. */
#include "store/fixture.h"
#include "store/safetensors.h"

static char path[64];

static int setup(void **unused)
{
    (void)unused;
    folder_fresh(path, "safetensors");
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    return unlink(path);
}

static void file_put(const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* Everything a reader would touch; ASan sees to it that it is there. */
static bool opens(void)
{
    SafeFile file;
    unsigned sum = 0;
    if (safetensors_open(&file, path) != OK) return false;
    for (int t = 0; t < file.tensors; t++) {
        const SafeTensor *tensor = &file.tensor[t];
        assert_true(strlen(tensor->name) < sizeof tensor->name);
        assert_ptr_equal(safetensors_find(&file, tensor->name), tensor);
        for (size_t i = 0; i < tensor->bytes; i++) sum += file.map.data[tensor->at + i];
    }
    safetensors_close(&file);
    return sum != 1;
}

/* ---- written, and read by others ---- */

static size_t example(uint8_t data[2048])
{
    SafeTensor tensor[] = { { .name = "words", .dtype = U8, .dims = 1, .dim = { 5 } },
                            { .name = "w \"1\"", .dtype = F32, .dims = 2, .dim = { 3, 4 } },
                            { .name = "none", .dtype = F64, .dims = 2, .dim = { 0, 7 } },
                            { .name = "one", .dtype = F64, .dims = 0 },
                            { .name = "ids", .dtype = I32, .dims = 3, .dim = { 2, 1, 3 } } };
    char  *header;
    size_t header_bytes, file_bytes;
    assert_int_equal(safetensors_header(tensor, 5, &header, &header_bytes, &file_bytes), OK);
    assert_int_equal(header_bytes % 8, 0);
    assert_int_equal(file_bytes - header_bytes, 5 + 48 + 0 + 8 + 24);
    for (int t = 0; t < 5; t++) assert_int_equal(tensor[t].at % dtype_width(tensor[t].dtype), 0);
    memcpy(data, header, header_bytes);
    for (size_t i = header_bytes; i < file_bytes; i++) data[i] = (uint8_t)(7 * i);
    free(header);
    return file_bytes;
}

static void what_is_written_is_read(void **unused)
{
    (void)unused;
    uint8_t  data[2048];
    SafeFile file;
    file_put(data, example(data));
    assert_true(opens());
    assert_int_equal(safetensors_open(&file, path), OK);
    const SafeTensor *w = safetensors_find(&file, "w \"1\"");
    assert_true(file.tensors == 5 && w && w->dtype == F32 && w->bytes == 48);
    assert_true(w->dims == 2 && w->dim[0] == 3 && w->dim[1] == 4);
    assert_null(safetensors_find(&file, "w"));
    safetensors_close(&file);
}

static void python_reads_it(void **unused)
{
    (void)unused;
    static const char script[] =
        "import json,sys\n"
        "raw=open(sys.argv[1],'rb').read()\n"
        "try:\n"
        "    import safetensors\n"
        "    all=safetensors.deserialize(raw)\n"
        "    tensors={n:(t['dtype'],list(t['shape']),bytes(t['data'])) for n,t in all}\n"
        "except ImportError:\n"
        "    end=8+int.from_bytes(raw[:8],'little')\n"
        "    head=json.loads(raw[8:end]); head.pop('__metadata__')\n"
        "    part=lambda t: raw[end:][slice(*t['data_offsets'])]\n"
        "    tensors={n:(t['dtype'],t['shape'],part(t)) for n,t in head.items()}\n"
        "for n in sorted(tensors): print(n,*tensors[n][:2],sum(tensors[n][2]),end=';')\n";
    uint8_t  data[2048];
    char     command[4096], wanted[512] = "", got[512];
    SafeFile file;
    if (system("python3 -c '' 2>/dev/null") != 0) {
        print_message("no python3: skipped\n");
        skip();
    }
    file_put(data, example(data));
    assert_int_equal(safetensors_open(&file, path), OK);
    static const char *const told[][2] = { { "ids", "I32 [2, 1, 3]" }, { "none", "F64 [0, 7]" },
                                           { "one", "F64 []" },        { "w \"1\"", "F32 [3, 4]" },
                                           { "words", "U8 [5]" } };
    for (int t = 0; t < 5; t++) {
        const SafeTensor *tensor = safetensors_find(&file, told[t][0]);
        unsigned sum = 0;
        for (size_t i = 0; i < tensor->bytes; i++) sum += data[tensor->at + i];
        size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, "%s %s %u;", told[t][0], told[t][1], sum);
    }
    safetensors_close(&file);
    snprintf(command, sizeof command, "python3 -c \"%s\" %s", script, path);
    FILE *python = popen(command, "r");
    assert_non_null(fgets(got, sizeof got, python));
    pclose(python);
    assert_string_equal(got, wanted);
}

/* ---- what is refused, and in which words ---- */

static size_t file_of(uint8_t *out, const char *header, size_t data)
{
    size_t bytes = strlen(header);
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(bytes >> 8 * i);
    memcpy(out + 8, header, bytes);
    memset(out + 8 + bytes, 1, data);
    return 8 + bytes + data;
}

#define F32_AT(name, shape, begin, end) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

#define THIRTY_TWO "a.name.that.is.thirty.two.bytes."
#define NINETY_SIX THIRTY_TWO THIRTY_TWO THIRTY_TWO

static void strangers_are_refused_with_a_reason(void **unused)
{
    (void)unused;
    static const struct { const char *header; size_t data; const char *words; } row[] = {
        { "{" F32_AT("a", "2", 0, 8) "}", 8, NULL },
        { "{" F32_AT("b", "1", 4, 8) ",\"__metadata__\":{\"by\":\"me\"}," F32_AT("a", "1", 0, 4) "} ",
          8, NULL },
        { "{}", 0, NULL },
        { "{" F32_AT("a", "2,0", 0, 0) "," F32_AT("b", "1", 0, 4) "}", 4, NULL },
        { "{}", 1, "tensors end at byte 10, the file at 11" },
        { " {}", 0, "no safetensors header" },
        { "", 0, "no safetensors header" },
        { "{", 0, "line 1" },
        { "{\"a\":1}", 0, "is not { dtype, shape, data_offsets }" },
        { "{" F32_AT("a", "1", 0, 4) "," F32_AT("a", "1", 4, 8) "}", 8, "duplicate" },
        { "{" F32_AT("a", "2", 0, 8) "," F32_AT("b", "2", 4, 12) "}", 12, "'b' starts at byte" },
        { "{" F32_AT("a", "1", 0, 4) "," F32_AT("b", "1", 8, 12) "}", 12, "'b' starts at byte" },
        { "{" F32_AT("a", "1", 4, 8) "}", 8, "'a' starts at byte" },
        { "{" F32_AT("a", "1", 0, 4) "}", 3, "outside the 3 bytes of data" },
        { "{" F32_AT("a", "1", 0, 9223372036854775807) "}", 4, "outside" },
        { "{" F32_AT("a", "1", -4, 0) "}", 4, "outside" },
        { "{" F32_AT("a", "1", 4, 0) "}", 4, "outside" },
        { "{" F32_AT("a", "1", 0, 4.0) "}", 4, "has no data_offsets" },
        { "{" F32_AT("a", "3", 0, 8) "}", 8, "12 bytes by its shape, 8 by its data_offsets" },
        { "{" F32_AT("a", "-2,-1", 0, 8) "}", 8, "a dim that is not an integer above -1" },
        { "{" F32_AT("a", "true", 0, 4) "}", 4, "a dim that is not an integer above -1" },
        { "{" F32_AT("a", "4611686018427387904,4,1", 0, 0) "}", 0, "beyond 2^63" },
        { "{" F32_AT("a", "99999999999999999999", 0, 4) "}", 4, "line 1" },
        { "{" F32_AT("a", "1,1,1,1,1", 0, 4) "}", 4, "at most 4 dims" },
        { "{" F32_AT("", "1", 0, 4) "}", 4, "a tensor's name is empty" },
        { "{" F32_AT("a\\u001b[2J", "1", 0, 4) "}", 4, "control characters" },
        { "{" F32_AT(NINETY_SIX, "1", 0, 4) "}", 4, "longer than 95 bytes" },
        { "{\"a\":{\"dtype\":\"C64\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
          "F64, F32, BF16, F16, F8_E4M3, F8_E5M2, I32 and U8 are" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4,
          "is not { dtype" },
        { "{\"__metadata__\":{\"by\":1}}", 0, "not a string" },
        { "{\"__metadata__\":[]}", 0, "not an object" },
    };
    uint8_t data[1024];
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        file_put(data, file_of(data, row[r].header, row[r].data));
        bool good = opens();
        if (row[r].words ? !good && strstr(fail_text(), row[r].words) && strstr(fail_text(), path) : good)
            continue;
        print_error("%s: %s\n", row[r].header, good ? "opened" : fail_text());
        _fail(__FILE__, __LINE__);
    }
}

static void a_lying_length_is_refused(void **unused)
{
    (void)unused;
    static const uint64_t length[] = { 17, 100, (16 << 20) + 1, UINT32_MAX, INT64_MAX, UINT64_MAX,
                                       UINT64_MAX - 7 };
    uint8_t data[64];
    for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
        memset(data, ' ', sizeof data);
        memcpy(data, &length[i], 8);
        memcpy(data + 8, "{}", 2);
        file_put(data, 8 + 16);
        assert_false(opens());
        assert_true(strstr(fail_text(), "the header ends at byte") || strstr(fail_text(), "a header of"));
    }
}

/* ---- any bytes ---- */

static void every_prefix_is_refused_and_every_flip_is_harmless(void **unused)
{
    (void)unused;
    uint8_t data[2048];
    size_t  size = example(data);
    for (size_t left = 0; left < size; left++) {
        file_put(data, left);
        assert_false(opens());
    }
    for (size_t bit = 0; bit < 8 * size; bit++) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        file_put(data, size);
        opens();
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* One change of a kind that JSON or offsets may stumble over. */
static size_t mutate(uint8_t *data, size_t size, Dice *d)
{
    static const char *const words[] = { "0", "-1", "9223372036854775807", "18446744073709551616", "1e9",
                                         "null", "[", "]", "{", "}", "\"", ",", ":", "\\u0000", "\xff",
                                         "[[[[", "\"a\":", "true" };
    size_t at = (size_t)dice(d, (int64_t)size), count = 1 + (size_t)dice(d, 12);
    if (count > size - at) count = size - at;
    switch (dice(d, 6)) {
    case 0: data[at] = (uint8_t)dice(d, 256); return size;
    case 1: data[at] = (uint8_t)('0' + dice(d, 10)); return size;
    case 2: memmove(data + at, data + at + count, size - at - count); return size - count;
    case 3: memmove(data + at + count, data + at, size - at); return size + count;
    case 4: data[dice(d, 8)] = (uint8_t)dice(d, 256); return size;
    }
    const char *word = words[dice(d, sizeof words / sizeof *words)];
    if (dice(d, 2)) memmove(data + at + strlen(word), data + at, size - at), size += strlen(word);
    else if (strlen(word) > size - at) size = at + strlen(word);
    memcpy(data + at, word, strlen(word));
    return size;
}

static void twenty_thousand_mutations_are_harmless(void **unused)
{
    (void)unused;
    uint8_t good[2048], data[4096];
    Dice    d = { .key = 20 };
    size_t  size = example(good);
    int     opened = 0;
    for (int i = 0; i < 20000; i++) {
        size_t bytes = size;
        memcpy(data, good, size);
        for (int64_t n = 1 + dice(&d, 4); n > 0 && bytes > 8; n--) bytes = mutate(data, bytes, &d);
        if (dice(&d, 2) && bytes >= 93) {  /* the length set right again, so that the JSON is what is read */
            uint64_t header = bytes - 8 - 85;
            memcpy(data, &header, 8);
        }
        file_put(data, bytes);
        opened += opens();
    }
    print_message("           %d of 20000 open\n", opened);
    assert_in_range(opened, 100, 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),             cmocka_unit_test(python_reads_it),
        cmocka_unit_test(strangers_are_refused_with_a_reason), cmocka_unit_test(a_lying_length_is_refused),
        cmocka_unit_test(every_prefix_is_refused_and_every_flip_is_harmless),
        cmocka_unit_test(twenty_thousand_mutations_are_harmless),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
