/* Programs that launch scripts start, and which of them is taken. */
#include "compat/megatron/megatron.h"
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include "base/array.h"
#include "base/message.h"
#include "compat/dialects.h"

typedef struct {
    const char *names;
    Program     program;
} ProgramRow;

/* Programs by the end of their path; * matches any letters of a name. The first row that fits counts: one
 * that pretrains a language model of the kind that jotun train has, or what another one or a tool does, and
 * what does it here. A program without a row is refused as well, unless the user says what it is
 * (--program-is-gpt). */
#define NOT_BUILT "use the program that has it"
static const ProgramRow program_rows[] = {
    { "multimodal/*.py mimo/*.py pretrain_vlm.py",
      { PROGRAM_IS_OTHER, "trains a model of images and text, which is not built", NOT_BUILT } },
    { "pretrain_gpt.py pretrain_gpt2.py pretrain_gpt_core.py pretrain_gpt_deepspeed.py pretrain_gpt_alcf.py",
      { PROGRAM_TRAINS_GPT, "", "" } },
    { "pretrain_bert*.py", { PROGRAM_IS_OTHER, "pretrains BERT, which is not built", NOT_BUILT } },
    { "pretrain_t5.py",
      { PROGRAM_IS_OTHER, "pretrains T5: models with an encoder and a decoder are not built", NOT_BUILT } },
    { "pretrain_mamba.py pretrain_hybrid.py",
      { PROGRAM_IS_OTHER, "pretrains a model with Mamba's layers, which are not built", NOT_BUILT } },
    { "pretrain_retro.py pretrain_ict.py pretrain_realm.py retro/*.py msdp/*.py",
      { PROGRAM_IS_OTHER, "trains a model that retrieves texts, which is not built", NOT_BUILT } },
    { "pretrain_vision_*.py pretrain_vit.py",
      { PROGRAM_IS_OTHER, "trains a model of images, which is not built", NOT_BUILT } },
    { "pretrain_prefix_lm.py",
      { PROGRAM_IS_OTHER, "trains a model that sees a prefix in both directions, which is not built",
        NOT_BUILT } },
    { "train_rl.py", { PROGRAM_IS_OTHER, "is reinforcement learning, which is not built", NOT_BUILT } },
    { "finetune*.py sft*.py rlhf*.py",
      { PROGRAM_IS_OTHER, "trains on instructions or on a task, which is not built",
        "give jotun train --load FOLDER --finetune, which trains all weights further on all tokens" } },
    { "tasks/main.py",
      { PROGRAM_IS_OTHER, "finetunes or evaluates on a task",
        "use jotun eval perplexity for the perplexity of a text" } },
    { "eval_harness/*.py evaluate*.py",
      { PROGRAM_IS_TOOL, "evaluates a model", "use jotun eval perplexity for the perplexity of a text" } },
    { "preprocess_data*.py preprocess_mmdata.py",
      { PROGRAM_IS_TOOL, "makes tokens of text", "use jotun prepare" } },
    { "merge_datasets.py merge_preprocessed_data.py",
      { PROGRAM_IS_TOOL, "merges token files", "use jotun data merge" } },
    { "*text_generation_server.py",
      { PROGRAM_IS_TOOL, "answers requests with a model", "use jotun serve" } },
    { "text_generation*.py generate*.py *generate_text*.py generate_samples*.py "
      "run_text_generation.py",
      { PROGRAM_IS_TOOL, "continues texts with a model", "use jotun generate" } },
    { "checkpoint/*.py checkpoint_util.py convert*.py hf2*.py *_converter.py merge_mp_partitions.py "
      "checkpoint_reshaping_and_interoperability.py",
      { PROGRAM_IS_TOOL, "converts a checkpoint", "use jotun convert" } },
    { "tools/*.py",
      { PROGRAM_IS_TOOL, "is a tool beside the training",
        "use jotun --help, which lists jotun's commands" } },
};
enum { PROGRAM_ROWS = COUNT(program_rows) };

/* The end of a path that has as many folders as a pattern: tasks/main.py of ../tasks/main.py. */
static const char *path_end(const char *path, const char *pattern)
{
    int slashes = 0;
    for (const char *c = pattern; *c; c++) slashes += *c == '/';
    const char *at = path + strlen(path);
    while (at > path && (at[-1] != '/' || slashes-- > 0)) at--;
    return at;
}

static bool fits(const char *names, const char *path)
{
    char pattern[96];
    while (name_next(pattern, sizeof pattern, &names))
        if (!fnmatch(pattern, path_end(path, pattern), FNM_PATHNAME)) return true;
    return false;
}

Program program_of(const char *path)
{
    for (int i = 0; i < PROGRAM_ROWS; i++)
        if (fits(program_rows[i].names, path)) return program_rows[i].program;
    return (Program){PROGRAM_UNKNOWN, "", ""};
}

static Status none_trains(int count, const char *const *path)
{
    char line[1024] = "";
    for (int i = 0; i < count; i++) {
        Program p = program_of(path[i]);
        if (p.kind != PROGRAM_UNKNOWN)
            message_item(line, sizeof line, "; ", "%s %s; %s", path[i], p.what, p.instead);
        else
            message_item(line, sizeof line, "; ", "%s is not known as a program that pretrains a GPT; give "
                         "--program-is-gpt if it is one", path[i]);
    }
    return fail(BAD_OPTION, "%s", line);
}

Status program_choose(int *chosen, int count, const char *const *path, bool is_gpt)
{
    for (int kind = PROGRAM_TRAINS_GPT; kind >= (is_gpt ? PROGRAM_UNKNOWN : PROGRAM_TRAINS_GPT); kind--)
        for (int i = 0; i < count; i++)
            if (program_of(path[i]).kind == (ProgramKind)kind) {
                *chosen = i;
                return OK;
            }
    return none_trains(count, path);
}
