/* Which program a script starts, by its path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "compat/megatron/megatron.h"
#include <cmocka.h>             /* last: its fail() is a macro */

static void programs_are_known_by_their_path(void **state)
{
    (void)state;
    static const struct { const char *path; ProgramKind kind; const char *words; } row[] = {
        { "pretrain_gpt.py", PROGRAM_TRAINS_GPT, "" },
        { "/code/Megatron-LM/pretrain_gpt.py", PROGRAM_TRAINS_GPT, "" },
        { "../../pretrain_gpt_deepspeed.py", PROGRAM_TRAINS_GPT, "" },
        { "pretrain_bert.py", PROGRAM_IS_OTHER, "BERT" },
        { "./pretrain_t5.py", PROGRAM_IS_OTHER, "T5" },
        { "a/pretrain_mamba.py", PROGRAM_IS_OTHER, "Mamba" },
        { "pretrain_vision_classify.py", PROGRAM_IS_OTHER, "images" },
        { "examples/multimodal/train.py", PROGRAM_IS_OTHER, "images and text" },
        { "pretrain_vlm.py", PROGRAM_IS_OTHER, "images and text" },
        { "train_rl.py", PROGRAM_IS_OTHER, "reinforcement" },
        { "pretrain_retro.py", PROGRAM_IS_OTHER, "retrieves" },
        { "finetune_t0.py", PROGRAM_IS_OTHER, "--finetune" },
        { "tasks/main.py", PROGRAM_IS_OTHER, "jotun eval perplexity" },
        { "../tasks/main.py", PROGRAM_IS_OTHER, "jotun eval perplexity" },
        { "tools/preprocess_data.py", PROGRAM_IS_TOOL, "jotun prepare" },
        { "tools/merge_datasets.py", PROGRAM_IS_TOOL, "jotun data merge" },
        { "tools/run_text_generation_server.py", PROGRAM_IS_TOOL, "jotun serve" },
        { "examples/text_generation/generate_samples_gpt.py", PROGRAM_IS_TOOL, "jotun generate" },
        { "tools/checkpoint/convert.py", PROGRAM_IS_TOOL, "jotun convert" },
        { "main.py", PROGRAM_UNKNOWN, "" },                       /* of any folder but tasks */
        { "other_tasks/main.py", PROGRAM_UNKNOWN, "" },
        { "train.py", PROGRAM_UNKNOWN, "" },
        { "my_pretrain_gpt.py", PROGRAM_UNKNOWN, "" },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        Program p = program_of(row[i].path);
        if (p.kind != row[i].kind) fail_msg("%s is of kind %d", row[i].path, (int)p.kind);
        if (!strstr(p.what, row[i].words) && !strstr(p.instead, row[i].words)) fail_msg("%s: no %s in %s; %s", row[i].path, row[i].words, p.what, p.instead);
    }
}

static void one_of_several_is_taken(void **state)
{
    (void)state;
    static const char *const path[] = { "tools/preprocess_data.py", "train.py", "pretrain_gpt.py", "tasks/main.py" };
    int chosen = -1;
    assert_int_equal(program_choose(&chosen, 4, path, false), OK);
    assert_int_equal(chosen, 2);
    assert_int_equal(program_choose(&chosen, 4, path, true), OK);
    assert_int_equal(chosen, 2);
    assert_int_equal(program_choose(&chosen, 2, path, true), OK);
    assert_int_equal(chosen, 1);
    assert_int_equal(program_choose(&chosen, 2, path, false), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "tools/preprocess_data.py makes tokens of text; use jotun prepare"));
    assert_non_null(strstr(fail_text(), "train.py is not known as a program that pretrains a GPT; give --program-is-gpt"));
    assert_int_equal(program_choose(&chosen, 1, path, true), BAD_OPTION);       /* nobody's word makes a tool a training */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(programs_are_known_by_their_path), cmocka_unit_test(one_of_several_is_taken) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
