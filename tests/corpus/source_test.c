/* Documents of files: what is a document, what is not, and which line is reported as broken. */
#include "corpus/read/source.h"
#include "corpus/folder.h"

static const char *file_make(const char *name, const char *text, size_t bytes)
{
    static char path[128];
    return file_put(path, name, text, bytes);
}

/* All documents of a file, each followed by |, and the status at its end */
static Status documents_join(char *out, const char *path, const char *key)
{
    Source *source;
    Document document;
    bool more = true;
    *out = 0;
    TRY(source_open(&source, path, key, (TextRules){ 0 }));
    Status status = OK;
    while (status == OK && more) {
        status = source_next(source, &document, &more);
        if (status == OK && more) sprintf(out + strlen(out), "%.*s|", (int)document.bytes, document.text);
    }
    source_close(source);
    return status;
}

#define MAKE(name, text) file_make(name, text, sizeof text - 1)
static void joins_to(const char *path, const char *want)
{
    char got[256];
    assert_int_equal(documents_join(got, path, "text"), OK);
    assert_string_equal(got, want);
}

static void refused(const char *path, const char *word)
{
    char got[256];
    assert_int_equal(documents_join(got, path, "text"), BAD_FILE);
    assert_non_null(strstr(fail_text(), word));
}

static void lines_are_documents(void **state)
{
    (void)state;
    joins_to(MAKE("a.txt", "en\ntv\xc3\xa5\n"), "en|tv\xc3\xa5|");
    joins_to(MAKE("a.txt", "en\r\n\n \t\ntre"), "en|tre|");
    joins_to(MAKE("a.txt", ""), "");
    joins_to(MAKE("a.txt", "\n\n"), "");
}

static void json_lines_are_documents(void **state)
{
    (void)state;
    joins_to(MAKE("a.jsonl", "{\"text\": \"r\\u00e4v\\nrev\", \"id\": 1}\n{\"text\": \"\"}\n\n{\"text\": \"c\"}"), "r\xc3\xa4v\nrev||c|");
    char got[64];
    assert_int_equal(documents_join(got, MAKE("a.json", "{\"text\": 1, \"body\": \"b\"}\n"), "body"), OK);
    assert_string_equal(got, "b|");
}

static void zeros_are_text(void **state)
{
    (void)state;
    Source *source;
    Document document;
    bool more;
    assert_int_equal(source_open(&source, MAKE("a.jsonl", "{\"text\": \"a\\u0000b\"}\n"), "text", (TextRules){ 0 }), OK);
    assert_int_equal(source_next(source, &document, &more), OK);
    assert_int_equal(document.bytes, 3);
    source_close(source);
    assert_int_equal(source_open(&source, MAKE("a.txt", "a\0b\n"), "text", (TextRules){ 0 }), OK);
    assert_int_equal(source_next(source, &document, &more), OK);
    assert_int_equal(document.bytes, 3);
    source_close(source);
}

static void broken_lines_are_named(void **state)
{
    (void)state;
    refused(MAKE("b.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"\n"), "b.jsonl:2: not a JSON object at byte 12");
    refused(MAKE("b.jsonl", "[1]\n"), "b.jsonl:1: not a JSON object");
    refused(MAKE("b.jsonl", "{\"body\": \"a\", \"id\": 2}\n"), "\"body\", \"id\"");
    refused(MAKE("b.jsonl", "{\"text\": 3}\n"), "b.jsonl:1: \"text\": the value of the key is not a string");
    refused(MAKE("b.jsonl", "{\"text\": \"\xff\"}\n"), "b.jsonl:1: not a JSON object at byte 10");
    refused(MAKE("b.jsonl", "{}\n"), "the line has none");
}

static void other_files_are_refused(void **state)
{
    (void)state;
    refused("/nowhere/a.txt", "/nowhere/a.txt: cannot be read");
    refused("/nowhere/a.txt.gz", "/nowhere/a.txt.gz: cannot be read");
    refused("a.jsonl.xz", "xz -dc a.jsonl.xz | jotun");
    refused("a.gz", "ends neither in .txt");
    refused("a.pdf", "pdftotext a.pdf writes its text");
    refused("a.md", "ends neither in .txt");
}

/* A line longer than one read is returned whole, and so are those around it. */
static void long_lines_come_whole(void **state)
{
    (void)state;
    size_t longest = (size_t)5 << 20, bytes = longest + 10;
    char  *text = malloc(bytes);
    Source *source;
    Document document;
    bool more;
    memset(text, 'x', bytes);
    text[1] = '\n';
    text[2 + longest] = '\n';
    assert_int_equal(source_open(&source, file_make("l.txt", text, bytes), "text", (TextRules){ 0 }), OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(source_next(source, &document, &more), OK);
        assert_true(more);
        assert_int_equal(document.bytes, i == 0 ? 1 : i == 1 ? longest : 7);
        for (int64_t j = 0; j < document.bytes; j++) assert_true(document.text[j] == 'x');
    }
    assert_int_equal(source_next(source, &document, &more), OK);
    assert_false(more);
    source_close(source);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_documents),
        cmocka_unit_test(json_lines_are_documents),
        cmocka_unit_test(zeros_are_text),
        cmocka_unit_test(broken_lines_are_named),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(long_lines_come_whole),
    };
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
