/* Samples cut as fairseq cuts them: the blocks of tests/golden/data/fairseq_blocks.txt, which tests/oracles/fairseq_goldens.py made with
 * fairseq's code, and the inputs, targets and loss weights that batches have of them, on one rank and on context-parallel ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/dictionary.h"
#include "base/random.h"
#include "data/loader.h"
#include <cmocka.h>

enum { MOST = 400, VOCABULARY = 1000 };
static char prefix[] = "/tmp/jotun-blocks-XXXXXX";
static const char *const modes[] = { [BREAK_NONE] = "none", [BREAK_COMPLETE] = "complete", [BREAK_COMPLETE_DOC] = "complete_doc", [BREAK_EOS] = "eos" };

/* The numbers that follow a word at the start of a line. */
static int numbers(int64_t *out, const char *line)
{
    int count = 0, used;
    long long x;
    for (line += strcspn(line, " "); sscanf(line, " %lld%n", &x, &used) == 1; line += used) out[count++] = x;
    return count;
}

/* Ids are their own places, but for the ends of sentences. Returns their number. */
static int64_t file_make(int32_t *stream, const int64_t *size, int sentences, bool fairseq)
{
    TokenFileWriter *w;
    int64_t at = 0;
    assert_int_equal(fairseq ? token_file_create_items(&w, prefix, VOCABULARY) : token_file_create(&w, prefix, VOCABULARY), OK);
    for (int s = 0; s < sentences; s++) {
        for (int64_t i = 0; i < size[s]; i++) stream[at + i] = i + 1 < size[s] ? (int32_t)(at + i) + 10 : DICTIONARY_EOS;
        assert_int_equal(token_file_add(w, stream + at, size[s]), OK);
        assert_int_equal(token_file_end_document(w), OK);
        at += size[s];
    }
    assert_int_equal(token_file_finish(w), OK);
    return at;
}

/* Every sample of an epoch on each of cp ranks. */
static void check_batches(const SampleBlocks *blocks, const int32_t *stream, int cp)
{
    LoaderConfig config = { .sequence = blocks->sequence, .micro = 1, .global = 1, .dp = 1, .cp = cp, .seed = 3, .eod = -1, .loss_weight = F64 };
    for (config.cp_rank = 0; config.cp_rank < cp; config.cp_rank++) {
        Loader loader;
        Arena host;
        assert_int_equal(loader_open_blocks(&loader, blocks, SPLIT_TRAIN, config), OK);
        assert_int_equal(arena_open(&host, "host", 1 << 16), OK);
        Batch batch = loader_batch_new(&config, &host);
        uint64_t key = random_mix(random_key(config.seed, "train"), 0);
        for (int64_t s = 0; s < blocks->samples; s++) {
            SampleBlock b = block_at(blocks, (int64_t)random_permute(key, (uint64_t)blocks->samples, (uint64_t)s));
            assert_int_equal(loader_fill(&loader, &batch, s, 0, VOCABULARY), OK);
            for (int64_t row = 0; row < config.sequence / cp; row++) {
                int64_t i = ((int32_t *)batch.position_i.data)[row], at = b.first + i;
                assert_float_equal(((double *)batch.loss_weight_T.data)[row], i < b.tokens, 0);
                if (i >= b.tokens) continue;
                assert_int_equal(((int32_t *)batch.target_i.data)[row], stream[at]);
                assert_int_equal(((int32_t *)batch.token_i.data)[row], at == 0 ? DICTIONARY_EOS : stream[at - 1]);
            }
        }
        arena_close(&host);
    }
}

static void check_case(SampleBreak mode, int64_t block, const TokenFile *file, const int32_t *stream, const int64_t *wanted, int numbers_wanted)
{
    SampleBlocks blocks;
    int64_t kept = 0, longer = 0;
    Status status = blocks_open(&blocks, file, 0, file->sequences, mode, block, -1);
    for (int w = 0; w < numbers_wanted; w += 2) {
        if (wanted[w + 1] - wanted[w] > block) {
            longer++;
            continue;
        }
        assert_int_equal(status, OK);
        assert_true(kept < blocks.samples);
        SampleBlock b = block_at(&blocks, kept++);
        assert_int_equal(b.first, wanted[w]);
        assert_int_equal(b.tokens, wanted[w + 1] - wanted[w]);
        assert_int_equal(b.leads, b.first == 0 || stream[b.first - 1] == DICTIONARY_EOS);
    }
    if (kept == 0) assert_int_equal(status, BAD_FILE);
    if (kept == 0) return;
    assert_int_equal(blocks.samples, kept);
    assert_int_equal(blocks.longer, longer);
    check_batches(&blocks, stream, 1);
    if (block % 4 == 0) check_batches(&blocks, stream, 2);
    blocks_close(&blocks);
}

static void blocks_are_fairseqs(void **state)
{
    (void)state;
    char    line[4096];
    int64_t size[MOST], wanted[2 * MOST], block = 0;
    int32_t stream[20 * MOST];
    int     sentences = 0, cases = 0;
    FILE   *in = fopen(TESTS_DIR "/golden/data/fairseq_blocks.txt", "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) {
        int count = numbers(wanted, line);
        if (!strncmp(line, "block", 5)) block = wanted[0];
        else if (!strncmp(line, "sizes", 5)) memcpy(size, wanted, sizeof size), sentences = count;
        else
            for (int m = BREAK_NONE; m <= BREAK_EOS; m++) {
                TokenFile file;
                size_t letters = strlen(modes[m]);
                if (strncmp(line, modes[m], letters) || line[letters] != ' ') continue;
                file_make(stream, size, sentences, true);
                assert_int_equal(token_file_open(&file, prefix), OK);
                check_case((SampleBreak)m, block, &file, stream, wanted, count);
                token_file_close(&file);
                cases++;
            }
    }
    fclose(in);
    assert_int_equal(cases, 48);
}

/* A token file of Megatron's has the end of a document of its tokenizer in its place, and is refused without one. */
static void other_files_need_an_end(void **state)
{
    (void)state;
    int32_t stream[64];
    TokenFile file;
    SampleBlocks blocks;
    file_make(stream, (int64_t[]){ 5, 3, 9 }, 3, false);
    assert_int_equal(token_file_open(&file, prefix), OK);
    assert_int_equal(file.kind, TOKEN_FILE_MEGATRON);
    assert_int_equal(blocks_open(&blocks, &file, 0, 3, BREAK_NONE, 4, -1), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "--sample-break-mode"));
    assert_int_equal(blocks_open(&blocks, &file, 0, 3, BREAK_COMPLETE, 8, 7), OK);
    assert_int_equal(blocks.lead, 7);
    assert_int_equal(blocks.samples, 1);                     /* the sentence of nine tokens is left out */
    blocks_close(&blocks);
    assert_int_equal(blocks_open(&blocks, &file, 1, 2, BREAK_EOS, 2, 7), BAD_FILE);
    token_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(blocks_are_fairseqs), cmocka_unit_test(other_files_need_an_end) };
    int fd = mkstemp(prefix);
    if (fd < 0) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char path[64];
    for (int i = 0; i < 3; i++) snprintf(path, sizeof path, "%s%s", prefix, (const char *[]){ "", ".bin", ".idx" }[i]), remove(path);
    return failed;
}
