#ifndef DATA_DATASETS_H
#define DATA_DATASETS_H
/* All that feeds a run: its pairs, open, and the order of their samples, for the loaders of train, valid and test. */
#include "data/loader.h"

typedef enum { ORDER_JOTUN, ORDER_MEGATRON, ORDER_FORKS } OrderKind;
typedef struct { const char *const *text; int count; } DatasetWords;      /* W P W P ... or P ... */
typedef struct {
    OrderKind order;
    DatasetWords words, own[SPLITS];   /* of --data-path, cut by the split; or of --train-data-path and so on, each taken whole */
    const char *list, *cache;       /* a file of three columns instead of words; a folder; NULL: none */
    double   cut, surplus;
    bool     corpus_shuffled, corpus_blended;
} DatasetRules;

typedef struct { DatasetRules rules; const char *split; int64_t wanted[SPLITS]; } DatasetsPlan;       /* samples of the whole run */
typedef struct { BlendSpec list; TokenFile *token_file; } DatasetFiles;
typedef struct { DatasetsPlan spec; DatasetFiles pairs[SPLITS]; Blend blend[SPLITS]; char *prints; } Datasets;   /* pairs: one set cut in three is the first */

Status datasets_open  (Datasets *datasets, const DatasetsPlan *spec);
bool   datasets_has   (const DatasetRules *rules, SplitKind kind);      /* where splits have paths of their own, one without has no data */
const DatasetFiles *datasets_files(const Datasets *datasets, SplitKind kind);
/* Each split once. The feed stays where it is as long as the loader is used. */
Status datasets_loader(Datasets *datasets, Loader *loader, SplitKind kind, LoaderConfig config);
/* What datasets_loader would make of a split: counts alone, of our order too, whose one Order has no indices. Of a feed that only measures. */
Status datasets_measure(Datasets *datasets, SplitKind kind, const LoaderConfig *config);
/* All its pairs, a line each: the prefix, a tab, token_file_fingerprint's words. Read from the files by the first call, and kept by the feed:
 * a run tells of the data that it began with. NULL: no memory */
const char *datasets_fingerprints(Datasets *datasets);
/* Says in the log which pairs are not those that `prints` tells of under the same prefix */
Status datasets_compare(Datasets *datasets, const char *prints);
void   datasets_close (Datasets *datasets);                                                                /* of zeros too */
#endif
