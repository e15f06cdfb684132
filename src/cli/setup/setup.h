#ifndef CLI_SETUP_H
#define CLI_SETUP_H
/* Where options become the configuration structs of the modules below, one function for each struct, and
 * where ranks start. */
#include "compat/compat.h"
#include "conf/conf.h"
#include "data/tokenize.h"
#include "generate/generate.h"
#include "text/bpe/bpe_train.h"
#include "train/trainer.h"

/* ---- the options of a command line, from all that it is written for and with ---- */

/* Defaults, environment (JOTUN_NUM_LAYERS=4), command line (--num-layers 4, --num-layers=4), files of
 * --config, preset, files of other programs. argv is what follows the command's name. Wrong words are
 * BAD_USAGE, wrong values BAD_OPTION; all of them are named at once. Names of other programs count, in the
 * environment and in files as well. Of an option given twice the last one counts, and a line in the log
 * names both where they differ; a list appends. After a failure options_close may be called and need not be.
 * */
Status setup_parse(Options *o, CommandSet command, int argc, char **argv);
/* The same, with files of options as in ConfigTexts, and with what one process has found of its machine for
 * all: run->known. Otherwise *run gets what is found. NULL: of no interest. */
Status setup_parse_found(Options *o, CommandSet command, ConfigTexts texts, AgptRun *run, int argc,
                         char **argv);
/* Whether the command line was one of another program. */
bool   setup_is_foreign(CommandSet command, int argc, char **argv);

/* ---- complete options ---- */

/* The options of a command, complete: parsed, joined with a checkpoint's where it gives them, ranks taken
 * from the launcher, derived, validated. *mpi: this process's rank where an MPI started us, else NULL. */
Status setup_options(Options *o, Transport **mpi, CommandSet command, int argc, char **argv);
/* The options of a second model beside that of setup_options: the same command line, but the checkpoint of
 * --compare in the place of that of --load. Not under MPI. */
Status setup_compared(Options *o, CommandSet command, int argc, char **argv);
/* Collective under MPI: the ranks' agreement (comm/agree.h) on what each of them has set up alone; mine where
 * mpi is NULL. *mpi is closed on failure. */
Status setup_agree  (Transport *mpi, Status mine);
/* Of a command line that names no command for this rank: `status` and its message, which the ranks of an MPI
 * agree on, so that it is logged once. Does nothing without a launcher. */
Status setup_refused(Status status, int argc, char **argv);
/* Collective under MPI: BAD_OPTION where the text differs between ranks (agree_on_text of comm/agree.h). *mpi
 * is closed on failure. */
Status setup_agree_on(Transport *mpi, const char *mine, const char *what_to_do);
/* The two halves of setup_options, for a caller that looks between them: joined with the checkpoint's and
 * derived; validated, alone and against the checkpoint that a run resumes from. */
Status setup_values (Options *o);
/* Of a run whose --load names another program's checkpoint: where --save holds a run that began with it, that
 * run is continued, as by --load of that directory, so that a job can be submitted again as it is. */
Status setup_continue(Options *o);
/* What foreign_weights_facts says of the checkpoint of --load, on each rank. BAD_FILE: it has optimizer
 * states that cannot be read, and they are wanted. */
Status setup_take_foreign(Options *o, const char *packed, size_t bytes);
/* A line in the log of settings that the reader of a format does not know (ForeignFile.unknown), if any. */
void   setup_tell_unknown(const char *path, const char *names);
Status setup_validate  (Options *o);

/* Of a run that resumes, after options_match_json: BAD_OPTION where the same options mean other rates than in
 * the checkpoint's run (resumed_schedule.c); a line in the log where others do. */
Status setup_compare_rates(const Options *o);

/* Options are read-only from here on, and outlive the structs, which point into them. */
ModelConfig      setup_model   (const Options *o);
LrSchedule setup_lr      (const Options *o);
WeightDecaySchedule setup_weight_decay(const Options *o);
PrecisionChoice setup_precision(const Options *o);
LossScaling     setup_scaling  (const Options *o);
OptimizerSettings setup_optimizer(const Options *o);
/* BAD_OPTION: a group of --train-weighted-split-paths and its kin is none; files are not read. */
Status     setup_groups  (const Options *o);
/* BAD_OPTION, BAD_FILE: the groups of --train-weighted-split-paths and its kin. */
Status     setup_datasets(DatasetRules *rules, Options *o);
/* Of the validation sets; NULL: their numbers. */
Status     setup_valid_names(const char *const **names, const DatasetRules *rules, Options *o);
Sampling   setup_sampling(const Options *o);
TokenizePlan   setup_tokenize    (const Options *o, const Tokenizer *tokenizer);       /* jotun prepare */
BpePlan    setup_bpe     (const Options *o, Team *team);                       /* jotun tokenizer train */
/* Of train, eval and generate. Opens the tokenizer for its end of document; BAD_OPTION where the device
 * cannot be had. */
Status     setup_train_config  (TrainConfig *config, Options *o);
/* The device of --device auto, which setup_train_config leaves at the CPU: a GPU where each rank has one that
 * works and the run has all of its kernels, else the CPU, with a line in the log that says why where a GPU is
 * to be seen. With --gpu a dry run is on that GPU; BAD_OPTION: it is not known, or has no kernels. Of train
 * and eval perplexity. Collective under MPI; *mpi is not closed. */
Status     setup_device        (TrainConfig *config, const Options *o, Transport *mpi);

/* Calls body once for each rank: threads of this process, or this process's own rank under MPI. */
Status setup_run    (const Options *o, Transport *mpi, RankBody *body, void *context);
/* <-> world. Of commands that do not train: the weights of --load; its directory and step. */
Status setup_load   (Trainer *trainer, char path[1024], int64_t *step);
#endif
