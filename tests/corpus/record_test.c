/* Records of every format: their fields, documents that are too long or broken, and blocks cut anywhere. */
#include "base/testing.h"
#include <stdio.h>
#include <stdlib.h>
#include "corpus/read/record.h"
#include "base/utf8.h"

static char folder[] = "/tmp/jotun-record-XXXXXX";
static char got[1 << 16];

static const char *file_make(const char *name, const char *text, size_t bytes)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}
#define MAKE(name, text) file_make(name, text, sizeof text - 1)

static void say(const char *name, JsonText text)
{
    if (text.text) sprintf(got + strlen(got), "%s=%.*s ", name, (int)text.bytes, text.text);
}

static void record_say(const Record *r)
{
    sprintf(got + strlen(got), "%d ", (int)r->line);
    say("id", r->id), say("url", r->url), say("title", r->title), say("source", r->source);
    say("label", r->label), say("warnings", r->warnings);
    sprintf(got + strlen(got), "[%.*s]%s\n", (int)r->bytes, r->text, r->markup == MARKUP_WIKI ? "w" : "");
}

static const RecordPlan usual = { .bytes_most = 1 << 20 };

/* All records of a file into got, one line each; of a fault its kind and message. */
static Status records(const char *path, BlockKind kind, const RecordPlan *plan)
{
    InputBlocks input = { .path = &path, .paths = 1, .wanted = kind, .line_most = plan->bytes_most };
    Block  block  = { 0 };
    Buffer buffer = { 0 };
    Record record;
    *got = 0;
    TRY(input_blocks_check(&input));
    Status status = OK;
    for (bool more = true; more && status == OK; ) {
        status = input_blocks_fill(&input, &block, &more);
        if (status != OK || !more) break;
        RecordWalk walk = record_walk(plan, &block, "F", &buffer);
        for (RecordStep step; (step = record_next(&walk, &record)) != RECORD_END; ) {
            if (step == RECORD_WHOLE) record_say(&record);
            else sprintf(got + strlen(got), "%s: %s\n", record_fault_name(walk.fault.kind), walk.fault.message);
        }
    }
    input_blocks_close(&input);
    block_free(&block);
    buffer_free(&buffer);
    return status;
}

static void gives(const char *path, BlockKind kind, const RecordPlan *plan, const char *want)
{
    if (records(path, kind, plan) != OK) fail_msg("%s", fail_text());
    assert_string_equal(got, want);
}

/* ---- shapes ---- */

static void known_shapes(void **state)
{
    (void)state;
    gives(MAKE("a.jsonl",
        "{\"id\": 7, \"text\": \"osc\\u00e5r\"}\n"
        "{\"content\":\"tv\xc3\xa5\\nrader\",\"warc_headers\":{\"warc-record-id\":\"<urn:1>\",\"warc-target-uri\":\"http://a\"},"
            "\"metadata\":{\"identification\":{\"label\":\"sv\",\"prob\":0.98},\"quality_warnings\":[\"noisy\", \"adult\"],"
            "\"sentence_identifications\":[{\"label\":\"da\",\"prob\":1},null]}}\n"
        "{\"id\":3,\"text\":\"hf\",\"meta\":{\"warc_headers\":{\"warc-record-id\":\"u\",\"warc-target-uri\":\"http://b\"},"
            "\"identification\":{\"label\":\"nn\"},\"quality_warnings\":null}}\n"
        "{\"id\":\"d\",\"text\":\"dolma\",\"source\":\"cc\",\"added\":\"2024\",\"metadata\":{\"url\":\"http://c\"}}\n"
        "{\"url\":\"http://d\",\"digest\":\"sha1:X\",\"title\":\"T\",\"raw_content\":\"ccnet\",\"source_domain\":\"d\"}\n"
        "{\"text\":\"c4\",\"timestamp\":\"2019\",\"url\":\"http://e\"}\n"
        "{\"text\":\"pile\",\"meta\":{\"pile_set_name\":\"PubMed\"}}\n"
        "{\"text\":\"rp\",\"meta\":{\"url\":\"http://f\",\"source\":\"cc\"}}\n"), BLOCK_AUTO, &usual,
        "1 id=7 [osc\xc3\xa5r]\n"
        "2 id=<urn:1> url=http://a label=sv warnings=[\"noisy\", \"adult\"] [tv\xc3\xa5\nrader]\n"
        "3 id=3 url=http://b label=nn [hf]\n"
        "4 id=d url=http://c source=cc [dolma]\n"
        "5 id=sha1:X url=http://d title=T source=d [ccnet]\n"
        "6 url=http://e [c4]\n"
        "7 source=PubMed [pile]\n"
        "8 url=http://f source=cc [rp]\n");
}

static void named_keys(void **state)
{
    (void)state;
    RecordPlan plan = usual;
    plan.text_key = "doc.body";
    plan.id_key   = "doc.nr";
    gives(MAKE("a.json", "{\"text\":\"no\",\"doc\":{\"x\":{\"body\":\"deep\"},\"nr\":12,\"body\":\"yes\"},\"body\":\"out\"}\n"
                         "{\"doc\":[{\"body\":\"in a list\"}],\"text\":\"t\"}\n"
                         "{\"doc\":{\"x\":{\"y\":1}},\"other\":{\"body\":\"of another\"}}\n"), BLOCK_AUTO, &plan,
        "1 id=12 [yes]\n"
        "broken: F:2: no text under doc.body; the line has \"doc\", \"text\"; choose the key with --json-keys\n"
        "broken: F:3: no text under doc.body; the line has \"doc\", \"other\"; choose the key with --json-keys\n");
    gives(MAKE("a.json", "{\"body\":\"b\",\"headline\":\"h\"}\n{\"text\":null}\n{\"text\":\"x\""), BLOCK_AUTO, &usual,
        "broken: F:1: no text under text, content or raw_content; the line has \"body\", \"headline\"; choose the key with --json-keys\n"
        "broken: F:2: no text under text, content or raw_content; the line has \"text\"; choose the key with --json-keys\n"
        "broken: F:3: not a JSON object at byte 11 of the line: the line is cut\n");
}

static void warnings_are_found(void **state)
{
    (void)state;
    Record r = { .warnings = { "[\"noisy\", \"adult\"]", 18 } };
    assert_true(record_warned(&r, "adult") && record_warned(&r, "noisy"));
    assert_false(record_warned(&r, "adul") || record_warned(&r, "dult") || record_warned(&(Record){ 0 }, "adult"));
}

static void text_shapes(void **state)
{
    (void)state;
    static const char paragraphs[] = "\n\na\nb\n\n \t\r\nc\r\n\nd\n";
    gives(MAKE("a.txt", paragraphs), BLOCK_AUTO, &usual, "3 [a]\n4 [b]\n7 [c]\n9 [d]\n");
    gives(MAKE("a.txt", paragraphs), BLOCK_PARAGRAPHS, &usual, "3 [a\nb]\n7 [c\r]\n9 [d\n]\n");
    static const char docs[] =
        "<doc id=\"12\" url=\"http://w?curid=12\" title=\"Den \"stora\" dagen\">\nDen stora dagen\n\n"
        "text med </doc> i\n</doc>\n<doc id=\"2\" revid=\"9\" url=\"u\" title=\"T\">\n</doc>\n\nx\n</doc>\n<doc id=\"3\">\ncut";
    static const char want[] =
        "1 id=12 url=http://w?curid=12 title=Den \"stora\" dagen [Den stora dagen\n\ntext med </doc> i]\n"
        "6 id=2 url=u title=T []\nbroken: F:8: no <doc ...> before the text\nbroken: F:11: <doc ...> has no </doc>\n";
    gives(MAKE("wiki_00", docs), BLOCK_AUTO, &usual, want);
    gives(MAKE("a.txt", docs), BLOCK_AUTO, &usual, want);
}

static void pages(void **state)
{
    (void)state;
    static const char head[] = "<mediawiki>\n<siteinfo><sitename>W</sitename></siteinfo>\n";
#define PAGE(title, ns, id, more, text) "  <page>\n<title>" title "</title><ns>" ns "</ns><id>" id "</id>" more "<revision><id>9</id>" \
    "<model>wikitext</model><format>text/x-wiki</format><text xml:space=\"preserve\">" text "</text></revision></page>\n"
    char text[4096];
    snprintf(text, sizeof text, "%s%s</mediawiki>\n", head, PAGE("R&amp;D", "0", "1", "", "''a'' &lt;b&gt;\n")
             PAGE("Diskussion:X", "1", "2", "", "prat") PAGE("Om", "0", "3", "<redirect title=\"X\" />", "#OMDIRIGERING [[X]]")
             PAGE("Sista", "0", "4", "", "slut"));
    gives(file_make("a.xml", text, strlen(text)), BLOCK_AUTO, &usual,
        "3 id=1 title=R&D [''a'' <b>\n]w\n10 id=4 title=Sista [slut]w\n");
    RecordPlan all = usual;
    all.all_pages = true;
    records(file_make("a.xml", text, strlen(text)), BLOCK_AUTO, &all);
    assert_contains(got, "id=2 title=Diskussion:X [prat]w\n");
}

/* ---- faults ---- */

static void broken_bytes(void **state)
{
    (void)state;
    RecordPlan repair = usual;
    repair.repair = true;
    static const char text[] = "en\nt\xe5g\nn\0ll\n\xed\xa0\x80\n\xf0\x9f\x98\x80 sist\n";
    gives(MAKE("a.txt", text), BLOCK_AUTO, &usual,
        "1 [en]\nnot UTF-8: F:2: not UTF-8 at byte 1 of the document, 0xE5\nwith NUL: F:3: a NUL at byte 1 of the document\n"
        "not UTF-8: F:4: not UTF-8 at byte 0 of the document, 0xED\n5 [\xf0\x9f\x98\x80 sist]\n");
#define BAD "\xef\xbf\xbd"
    gives(MAKE("a.txt", text), BLOCK_AUTO, &repair,
        "1 [en]\n2 [t" BAD "g]\n3 [n" BAD "ll]\n4 [" BAD BAD BAD "]\n5 [\xf0\x9f\x98\x80 sist]\n");
    static const char json[] = "{\"text\":\"a\\u0000b\"}\n{\"text\":\"a\\\\u0000b\\\\\\u0000\"}\n{\"text\":\"\xff\"}\n";
    gives(MAKE("a.json", json), BLOCK_AUTO, &usual,
        "with NUL: F:1: a NUL at byte 1 of the document\nwith NUL: F:2: a NUL at byte 9 of the document\n"
        "not UTF-8: F:3: not UTF-8 at byte 9 of the document, 0xFF\n");
    gives(MAKE("a.json", json), BLOCK_AUTO, &repair, "1 [a" BAD "b]\n2 [a\\u0000b\\" BAD "]\n3 [" BAD "]\n");
}

/* Characters whole and broken at each place of a text of letters of one byte and of two */
static void utf8_at_any_place(void **state)
{
    (void)state;
    static const struct { const char *text; int broken; } rows[] = {
        { "\xc3\xa5", -1 }, { "\xe2\x80\x93", -1 }, { "\xf0\x9f\x98\x80", -1 }, { "\xef\xbf\xbf", -1 }, { "\xf4\x8f\xbf\xbf", -1 },
        { "\x80", 0 }, { "\xc3", 0 }, { "\xc0\x80", 0 }, { "\xe0\x9f\xbf", 0 }, { "\xed\xa0\x80", 0 }, { "\xf4\x90\x80\x80", 0 },
        { "\xf8\x88\x80\x80", 0 }, { "\xe2\x80", 0 }, { "\xc3\xa5\xa5", 2 }, { "\xc3\xc3\xa5", 0 } };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int wide = 0; wide < 2; wide++)
            for (int before = 0; before < 40; before++)
                for (int behind = 0; behind < 20; behind++) {
                    char text[160];
                    int  at = 0;
                    while (at < before) at += sprintf(text + at, wide && at + 1 < before ? "\xc3\xb6" : "o");
                    int bytes = at + sprintf(text + at, "%s%.*s", rows[r].text, behind, "oooooooooooooooooooo");
                    assert_int_equal(utf8_broken(text, bytes), rows[r].broken < 0 ? -1 : before + rows[r].broken);
                    text[before] = 0;
                    assert_int_equal(utf8_broken(text, before + 1), before);
                }
}

/* Two blocks and more: a document too long to hold between two that are not, in each format. */
static void long_documents(void **state)
{
    (void)state;
    static const struct { BlockKind kind; const char *name, *begin, *fill, *end, *want; } rows[] = {
        { BLOCK_TEXT,       "a.txt",  "",           "abcdefg ", "\n",                      "long: F:2:" },
        { BLOCK_JSON,       "a.json", "{\"text\":\"", "abcdefg ", "\"}\n",                 "long: F:2:" },
        { BLOCK_PARAGRAPHS, "a.txt",  "",           "abc\n \\y\n", "\n\n",                 "long: F:3:" },
        { BLOCK_DOCS,       "a.txt",  "<doc id=\"1\">\n", "x</doc>\n", "\n</doc>\n",       "long: F:4:" },
        { BLOCK_PAGES,      "a.xml",  "<page><title>t</title><ns>0</ns><id>1</id><revision><model>wikitext</model><text>", "<</page \n", "</text></revision></page>", "long: F:1:" } };
    RecordPlan plan = { .bytes_most = 100000 };
    size_t size = 3 << 20;
    char  *text = malloc(size + 1000);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        size_t at = 0, count = 0;
        at += (size_t)sprintf(text + at, "%sfore%s", rows[r].begin, rows[r].end);
        size_t begun = at;
        at += (size_t)sprintf(text + at, "%s", rows[r].begin);
        while (at < size) at += (size_t)sprintf(text + at, "%s", rows[r].fill), count++;
        at += (size_t)sprintf(text + at, "%s", rows[r].end);
        size_t ended = at;
        at += (size_t)sprintf(text + at, "%sefter%s", rows[r].begin, rows[r].end);
        assert_int_equal(records(file_make(rows[r].name, text, at), rows[r].kind, &plan), OK);
        const char *told = strstr(got, rows[r].want), *fore = strstr(got, "fore"), *after = strstr(got, "efter");
        if (!told || !fore || !after || after < told) fail_msg("%d: %s", (int)rows[r].kind, got);
        long bytes = atol(strstr(told, "document of ") + 12);
        assert_in_range(bytes, (long)(ended - begun) - 3, (long)(ended - begun));
        int line = 1;
        for (const char *c = text; c < text + ended; c++) line += *c == '\n';
        while (after > got && after[-1] != '\n') after--;
        assert_int_equal(atoi(after), line);
    }
    free(text);
}

/* Many documents in many blocks: none is lost, cut or reported at a wrong line, wherever blocks end. */
static void blocks_cut_between(void **state)
{
    (void)state;
    static const struct { BlockKind kind; const char *name, *begin, *inner, *end; } rows[] = {
        { BLOCK_TEXT, "a.txt", "", "x ", "\r\n" }, { BLOCK_JSON, "a.json", "{\"text\":\"", "x ", "\"}\n" },
        { BLOCK_PARAGRAPHS, "a.txt", "", "x\n", "\n\n \n" }, { BLOCK_DOCS, "a.txt", "<doc id=\"1\">\n", "x\n", "\n</doc>\n" },
        { BLOCK_PAGES, "a.xml", "<page><title>t</title><ns>0</ns><id>1</id><revision><model>wikitext</model><text>", "x\n", "</text></revision></page>" } };
    enum { COUNT = 3000 };
    static int line[COUNT];
    char  *text = malloc(COUNT * 4200);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        size_t at = 0, counted = 0;
        int    now = 1, next = 0;
        for (int d = 0; d < COUNT; d++) {
            for (; counted < at; counted++) now += text[counted] == '\n';
            line[d] = now;
            at += (size_t)sprintf(text + at, "%s%d ", rows[r].begin, d);
            for (int i = d * 7919 % 2000; i > 0; i--) at += (size_t)sprintf(text + at, "%s", rows[r].inner);
            at += (size_t)sprintf(text + at, "end%s", rows[r].end);
        }
        const char *path = file_make(rows[r].name, text, at);
        InputBlocks input = { .path = &path, .paths = 1, .wanted = rows[r].kind, .line_most = usual.bytes_most };
        Block  block = { 0 };
        Buffer buffer = { 0 };
        Record record;
        for (bool more = true; input_blocks_fill(&input, &block, &more) == OK && more; ) {
            RecordWalk walk = record_walk(&usual, &block, "F", &buffer);
            for (RecordStep step; (step = record_next(&walk, &record)) != RECORD_END; next++) {
                assert_int_equal(step, RECORD_WHOLE);
                assert_int_equal(atoi(record.text), next);
                assert_int_equal(record.line, line[next]);
                const char *last = record.text + record.bytes;
                while (last[-1] == '\n') last--;
                assert_memory_equal(last - 3, "end", 3);
            }
        }
        assert_int_equal(next, COUNT);
        input_blocks_close(&input);
        block_free(&block);
        buffer_free(&buffer);
    }
    free(text);
}

/* A document over the limit within a block that is not */
static void long_in_a_block(void **state)
{
    (void)state;
    RecordPlan plan = { .bytes_most = 10 };
    gives(MAKE("a.txt", "kort\nlite f\xc3\xb6r l\xc3\xa5ng\nslut\n"), BLOCK_AUTO, &plan,
        "1 [kort]\ntoo long: F:2: a document of 15 bytes, and --max-document-bytes is 10\n3 [slut]\n");
}

/* Shapes that nobody named */
static void by_first_bytes(void **state)
{
    (void)state;
    gives(MAKE("part", "\xef\xbb\xbf{\"text\":\"a\"}\n"), BLOCK_AUTO, &usual, "1 [a]\n");
    gives(MAKE("part", ""), BLOCK_AUTO, &usual, "");
    gives(MAKE("a.txt", "{\"text\":\"a\"}\n"), BLOCK_AUTO, &usual, "1 [{\"text\":\"a\"}]\n");
    gives(MAKE("part", "text\nmore\n"), BLOCK_AUTO, &usual, "1 [text\nmore\n]\n");
    assert_int_equal(records(MAKE("part", "\xfd\xfc text\n"), BLOCK_AUTO, &usual), BAD_FILE);
    assert_contains(fail_text(), "--input-encoding");
    assert_int_equal(records(MAKE("a.dat", "text\n"), BLOCK_AUTO, &usual), BAD_FILE);
    gives(MAKE("a.dat", "text\n"), BLOCK_TEXT, &usual, "1 [text]\n");
    assert_int_equal(records(MAKE("a.parquet", "PAR1"), BLOCK_AUTO, &usual), BAD_FILE);
    assert_contains(fail_text(), "JSON lines");
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_shapes), cmocka_unit_test(named_keys), cmocka_unit_test(warnings_are_found),
        cmocka_unit_test(text_shapes), cmocka_unit_test(pages), cmocka_unit_test(broken_bytes), cmocka_unit_test(utf8_at_any_place),
        cmocka_unit_test(long_documents), cmocka_unit_test(blocks_cut_between), cmocka_unit_test(long_in_a_block), cmocka_unit_test(by_first_bytes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
