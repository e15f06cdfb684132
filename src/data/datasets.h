#ifndef DATA_DATASETS_H
#define DATA_DATASETS_H
/* The data of a run: its open token files and the order of their samples, for the loaders of train, valid
 * (one set or several) and test. */
#include "data/loader.h"
#include "data/token_facts.h"

/* Jotun's own order of one token file; Megatron-core's; that of its DeepSpeed forks. */
typedef enum { ORDER_JOTUN, ORDER_MEGATRON, ORDER_FORKS } OrderKind;
/* W P W P ... or P ...; or one text, a group of parts (blend_spec_group); the caller's. */
typedef struct { const char *const *text; int count; bool group; } DataPath;
typedef struct {
    OrderKind order;
    DataPath data_path;             /* --data-path, divided by the split */
    DataPath split_path[SPLITS];    /* or --train-data-path and so on, each used whole */
    /* [valid_sets] or several sets, instead of split_path of validation */
    DataPath valid_set[VALID_SETS_MAX];
    int      valid_sets;
    const char *list;               /* or a file of three columns; NULL: none */
    int64_t  mock;                  /* or made tokens of so many ids; 0: none */
    int32_t  mock_eod;              /* their end of document; -1: none */
    const char *cache;              /* directory for indices; NULL: none */
    double   final_epoch_cut, surplus;  /* as in BlendRules, like the next two */
    bool     corpus_shuffled, corpus_blended;
    SampleBreak breaks;             /* how samples are cut, in jotun's order */
} DatasetRules;

/* Samples of the run. */
typedef struct { DatasetRules rules; const char *split; int64_t wanted[DATA_SETS]; } DatasetsPlan;
/* [list.count] owned. */
typedef struct { BlendSpec list; TokenFile *token_file; } DatasetFiles;
typedef struct {
    DatasetsPlan spec;
    /* Token files of each data set; only the first, if one is divided into three. */
    DatasetFiles files[DATA_SETS];
    Blend blend[DATA_SETS];
    SampleBlocks blocks[DATA_SETS];
    char *fingerprints;             /* datasets_fingerprints, once computed; owned */
} Datasets;

/* Opens all token files. BAD_OPTION or BAD_FILE if paths, weights and order do not fit together. */
Status datasets_open  (Datasets *datasets, const DatasetsPlan *spec);
/* Whether the data set (data/split.h) has data; a split without a path has none if they have paths of their
 * own. */
bool   datasets_has   (const DatasetRules *rules, int set);
const DatasetFiles *datasets_files(const Datasets *datasets, int set);
/* Opens the loader of a data set, at most once. The loader points into *datasets, which must not
 * move. */
Status datasets_loader(Datasets *datasets, Loader *loader, int set, LoaderConfig config);
/* Computes what datasets_loader would build: numbers only, no indices; also for jotun's order,
 * which then has one Order without indices. Not to be mixed with datasets_loader on the same Datasets. */
Status datasets_measure(Datasets *datasets, int set, const LoaderConfig *config);
/* Compares the facts beside the token files with the run (data/token_facts.h); for rank 0. */
Status datasets_suit(const Datasets *datasets, const TokenReader *reader);
/* All token files, one per line: the prefix, a tab, token_file_fingerprint's text. The first call reads
 * the files; later calls give the same text, so that a run reports the data that it began with. It belongs
 * to *datasets. BAD_FILE if a file was truncated or its disk fails, NO_MEMORY. */
Status datasets_fingerprints(Datasets *datasets, const char **text);
/* The same, of a few blocks of each file and with its weight: cheap enough for every rank to read at the
 * start. The caller frees the text. */
Status datasets_brief(const Datasets *datasets, char **text);
/* Logs which token files have another fingerprint than `fingerprints` gives for the same prefix. Fails as
 * datasets_fingerprints does. */
Status datasets_compare(Datasets *datasets, const char *fingerprints);
void   datasets_close (Datasets *datasets);                /* all zeros is allowed */
#endif
