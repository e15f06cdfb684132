/* Many threads give what one gives, in order; lines that are broken or too long, and files that are cut, are told. */
#include "data/tokenize.h"
#include "text/bytes.h"
#include "corpus/packed.h"
#include "corpus/folder.h"

enum { LINES = 40000, ROOM = 16 << 20 };
static char paths[4][128];
static const char *path[4] = { paths[0], paths[1], paths[2], paths[3] };

typedef struct { char *text; size_t bytes; int64_t documents, faults; char told[2048]; } Ground;

static void part_put(int i, const char *name, const char *data, size_t bytes) { file_put(paths[i], name, data, bytes); }

/* The run's ids as text: | behind each text, ! for an end of document */
static Status grind(Ground *g, const TokenizePlan *plan)
{
    TokenizeRun *run;
    const TokenizeBatch *batch = NULL;
    g->bytes = 0, g->documents = g->faults = 0, g->told[0] = 0;
    TRY(tokenize_open(&run, plan));
    Status status;
    while ((status = tokenize_next(run, &batch)) == OK && batch) {
        int64_t at = 0;
        for (int64_t i = 0; i < batch->documents * plan->keys; i++) {
            for (; at < batch->end[i]; at++) g->text[g->bytes++] = batch->ids[at] == BYTES_EOD ? '!' : (char)batch->ids[at];
            g->text[g->bytes++] = '|';
        }
        for (int64_t i = 0; i < batch->faults && i < TOKENIZE_MESSAGES; i++) strcat(strcat(g->told, batch->messages[i]), "\n");
        g->documents += batch->documents;
        g->faults    += batch->faults;
    }
    tokenize_close(run);
    return status;
}

static const char *const text_key[] = { "text" }, *const two_keys[] = { "title", "text" };

static TokenizePlan plan_make(int files, int workers, bool skip)
{
    return (TokenizePlan){ .path = path, .paths = files, .key = text_key, .keys = 1, .tokenizer = &bytes_tokenizer, .skip = skip,
                           .workers = workers, .line_most = LINE_MOST, .ratio_most = 400 };
}

static Status ground(Ground *g, int files, int workers, bool skip)
{
    TokenizePlan plan = plan_make(files, workers, skip);
    return grind(g, &plan);
}

static void workers_change_nothing(void **state)
{
    (void)state;
    Ground one = { .text = malloc(ROOM) }, many = { .text = malloc(ROOM) };
    char  *json = malloc(ROOM), *packed = malloc(ROOM);
    size_t bytes = 0;
    for (int i = 0; i < LINES; i++)
        bytes += (size_t)sprintf(json + bytes, "{\"title\":\"%s\",\"n\":%d,\"text\":\"a\\u00e5 %0*d\"}\n", i % 3 ? "t" : "", i, i % 97, i);
    part_put(0, "a.jsonl", json, bytes);
    part_put(1, "b.jsonl.zst", packed, pack_zst(packed, ROOM, json, bytes));
    part_put(2, "c.json.gz", packed, pack_gz(packed, ROOM, json, bytes / 2 - 100));      /* the last line is cut */
    part_put(3, "d.jsonl.bz2", packed, pack_bz2(packed, ROOM, json, 5000));              /* and here */
    for (int workers = 1; workers <= 5; workers += 2) {
        Ground *g = workers == 1 ? &one : &many;
        TokenizePlan plan = plan_make(4, workers, true);
        plan.key = two_keys, plan.keys = 2, plan.append_eod = true;
        assert_int_equal(grind(g, &plan), OK);
        assert_int_equal(g->faults, 2);
        if (workers == 1) continue;
        assert_int_equal(one.documents, many.documents);
        assert_int_equal(one.bytes, many.bytes);
        assert_memory_equal(one.text, many.text, one.bytes);
        assert_string_equal(one.told, many.told);
    }
    assert_true(one.documents > 2 * LINES);
    assert_memory_equal(one.text, "|a\xc3\xa5 0!|t!|a\xc3\xa5 1!|", 17);
    free(json), free(packed), free(one.text), free(many.text);
}

static void broken_lines_stop_or_are_passed_over(void **state)
{
    (void)state;
    static const char lines[] = "{\"text\":\"a\"}\n\n{\"text\":}\n{\"text\":\"\"}\n{\"text\":\"b\"}\n{\"body\":\"c\"}\n{\"text\":\"d\"}";
    char got[256];
    Ground g = { .text = got };
    part_put(0, "a.jsonl", lines, sizeof lines - 1);
    assert_int_equal(ground(&g, 1, 2, false), BAD_FILE);
    assert_non_null(strstr(fail_text(), "a.jsonl:3: not a JSON object at byte 8"));
    assert_int_equal(ground(&g, 1, 2, true), OK);
    assert_int_equal(g.faults, 2);
    assert_int_equal(g.bytes, 7);
    assert_memory_equal(got, "a||b|d|", 7);
    assert_non_null(strstr(g.told, "a.jsonl:3:"));
    assert_non_null(strstr(g.told, "a.jsonl:6: \"text\""));
}

/* Too long within a block, and longer than a block: the lines around them stay, with their numbers. */
static void long_lines_are_passed_over(void **state)
{
    (void)state;
    size_t bytes = 0, lengths[] = { 10, 3 << 20, 5, 101, 100, 7 << 20, 2 };
    char  *text = malloc(ROOM), got[256];
    Ground g = { .text = got };
    for (size_t i = 0; i < 7; i++) {
        memset(text + bytes, 'a' + (int)i, lengths[i]);
        bytes += lengths[i];
        text[bytes++] = '\n';
    }
    text[bytes++] = '{';
    part_put(0, "a.txt", text, bytes);
    TokenizePlan plan = plan_make(1, 1, false);
    plan.line_most = 100;
    assert_int_equal(grind(&g, &plan), OK);
    assert_int_equal(g.faults, 3);
    assert_int_equal(g.bytes, 10 + 1 + 5 + 1 + 100 + 1 + 2 + 1 + 1 + 1);
    assert_memory_equal(got, "aaaaaaaaaa|ccccc|e", 18);
    assert_non_null(strstr(g.told, "a.txt:2: a line of 3145728 bytes"));
    assert_non_null(strstr(g.told, "a.txt:4: a line of 101 bytes"));
    assert_non_null(strstr(g.told, "a.txt:6: a line of 7340032 bytes"));
    free(text);
}

static void cut_files_keep_their_lines(void **state)
{
    (void)state;
    char packed[256], got[256];
    Ground g = { .text = got };
    for (int p = 0; p < PACKS; p++) {
        char name[32];
        size_t bytes = packs[p].pack(packed, sizeof packed, "one\ntwo\nth", 10);
        bytes += packs[p].pack(packed + bytes, sizeof packed - bytes, "ree and a half", 14) - 4;
        snprintf(name, sizeof name, "a.txt%s", packs[p].ending);
        part_put(0, name, packed, bytes);
        part_put(1, "b.txt", "four", 4);
        assert_int_equal(ground(&g, 2, 1, false), BAD_FILE);
        assert_non_null(strstr(fail_text(), name));
        assert_int_equal(ground(&g, 2, 1, true), OK);
        assert_int_equal(g.faults, 1);
        assert_memory_equal(got, "one|two|", 8);
        assert_int_equal(g.bytes, 13);                  /* the line that is cut is none */
        assert_memory_equal(got + 8, "four|", 5);
    }
}

static void refusals(void **state)
{
    (void)state;
    char got[64];
    Ground g = { .text = got };
    part_put(0, "a.txt", "one\n", 4);
    TokenizePlan plan = plan_make(1, 1, false);
    plan.key = two_keys, plan.keys = 2;
    assert_int_equal(grind(&g, &plan), BAD_OPTION);
    snprintf(paths[1], sizeof paths[1], "%s/none.txt", folder);
    assert_int_equal(ground(&g, 2, 1, true), BAD_FILE);
    assert_int_equal(g.documents, 0);                   /* before anything was read */
}

/* Left in the middle, with threads at work */
static void closing_early_ends_all(void **state)
{
    (void)state;
    char *text = malloc(ROOM);
    TokenizeRun *run;
    const TokenizeBatch *batch;
    memset(text, 'x', ROOM);
    for (size_t i = 99; i < ROOM; i += 100) text[i] = '\n';
    part_put(0, "a.txt", text, ROOM);
    for (int taken = 0; taken < 4; taken++) {
        TokenizePlan plan = plan_make(1, 3, false);
        assert_int_equal(tokenize_open(&run, &plan), OK);
        for (int i = 0; i < taken; i++) assert_int_equal(tokenize_next(run, &batch), OK);
        tokenize_close(run);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_change_nothing),
        cmocka_unit_test(broken_lines_stop_or_are_passed_over),
        cmocka_unit_test(long_lines_are_passed_over),
        cmocka_unit_test(cut_files_keep_their_lines),
        cmocka_unit_test(refusals),
        cmocka_unit_test(closing_early_ends_all),
    };
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
