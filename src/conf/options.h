#ifndef CONF_OPTIONS_H
#define CONF_OPTIONS_H
/* The options as C sees them, from the rows of options.def: a field for each row and the source of its value.
 *
 *     Status cmd_train(int argc, char **argv)
 *     {
 *         Options o;
 *         Status status = setup_parse(&o, FOR_TRAIN, argc, argv);        environment, command line, preset
 *         if (status == OK) status = train(&o);
 *         options_close(&o);
 *         return status;
 *     }
 *     ... in train:
 *         if (o->use_checkpoint_args) TRY(options_from_json(o, manifest_options, path, FOR_CHECKPOINT_ARGS));
 *         TRY(options_derive(o));                         values that follow from others
 *         TRY(options_validate(o));                          combinations that cannot work are refused
 *         ...                                             from here on read-only, shared by all ranks */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* A set of commands that take an option, and of what else is done with it. `jotun config` takes whatever
 * `jotun train` takes (FOR_CONFIG), and a few options more (FOR_CONFIG_ALONE). */
typedef uint64_t CommandSet;
#define FOR_CONFIG           (UINT64_C(1) << 0)
#define FOR_CONFIG_ALONE     (UINT64_C(1) << 17)
#define FOR_CONFIG_COMMAND   (FOR_CONFIG | FOR_CONFIG_ALONE)
#define FOR_TRAIN            (UINT64_C(1) << 1 | FOR_CONFIG)
#define FOR_EVAL             (UINT64_C(1) << 2)
#define FOR_GENERATE         (UINT64_C(1) << 3)
#define FOR_PREPARE          (UINT64_C(1) << 4)
#define FOR_CLEAN            (UINT64_C(1) << 5)
#define FOR_LANGID           (UINT64_C(1) << 6)
#define FOR_TOKENIZER_TRAIN  (UINT64_C(1) << 7)
#define FOR_TOKENIZER_ENCODE (UINT64_C(1) << 8)
#define FOR_TOKENIZER_DECODE (UINT64_C(1) << 9)
#define FOR_TOKENIZER_INFO   (UINT64_C(1) << 10)
#define FOR_DATA_INFO        (UINT64_C(1) << 11)
#define FOR_DATA_CAT         (UINT64_C(1) << 12)
#define FOR_MERGE            (UINT64_C(1) << 13)
#define FOR_CHECKPOINT_INFO   (UINT64_C(1) << 14)
#define FOR_CHECKPOINT_VERIFY (UINT64_C(1) << 15)
#define FOR_BENCH_PEAK       (UINT64_C(1) << 16)
#define FOR_CONVERT          (UINT64_C(1) << 18)
#define FOR_WORDS (UINT64_C(1) << 19)
#define FOR_LINES      (UINT64_C(1) << 20)
#define FOR_DETOKENIZE    (UINT64_C(1) << 21)
#define FOR_REPORT           (UINT64_C(1) << 22)
#define FOR_COMPARE          (UINT64_C(1) << 23)
#define FOR_SPEEDRUN         (UINT64_C(1) << 24)
#define FOR_SWEEP            (UINT64_C(1) << 25)
#define FOR_SERVE            (UINT64_C(1) << 26)
#define FOR_DATA_CHECK       (UINT64_C(1) << 27)
#define FOR_RUN              (UINT64_C(1) << 28)
#define FOR_ANY              (FOR_RUN * 2 - 1)                           /* all of the above */
#define FOR_SCHEDULE         (UINT64_C(1) << 58)    /* on resume: the schedule, see conf/resume.c */
#define FOR_STATES           (UINT64_C(1) << 59)    /* on resume: which states the optimizer has */
#define FOR_CHECKPOINT_ARGS  (UINT64_C(1) << 60)    /* taken from a checkpoint */
#define FOR_SHAPE            (UINT64_C(1) << 61)    /* on resume: has to be the checkpoint's */
#define FOR_SAME_RUN         (UINT64_C(1) << 62)    /* on resume: a line in the log where it differs */
#define FOR_CLEAN_RESULT     (UINT64_C(1) << 63)    /* restart of clean: has to be what the run began with */

typedef struct { int value; const char *word; } Choice;       /* value: a CHOICE_... constant below */
typedef struct { const char **text; int count, room; } TextList;
typedef int64_t     OptionINT;
typedef double      OptionREAL;
typedef const char *OptionTEXT;
typedef bool        OptionFLAG;
typedef Choice      OptionCHOICE;
typedef TextList    OptionLIST;

typedef enum { KIND_INT, KIND_REAL, KIND_TEXT, KIND_FLAG, KIND_CHOICE, KIND_LIST } OptionKind;

/* A group has the index of its first option, so that its heading takes no number of its own. */
typedef enum {
#define GROUP(group, title)    GROUP_##group, BEFORE_##group = GROUP_##group - 1,
#define OPT_INT(field, ...)    OPTION_##field,
#define OPT_REAL(field, ...)   OPTION_##field,
#define OPT_FLAG(field, ...)   OPTION_##field,
#define OPT_CHOICE(field, ...) OPTION_##field,
#define OPT_TEXT(field, ...)   OPTION_##field,
#define OPT_PATH(field, ...)   OPTION_##field,
#define OPT_LIST(field, ...)   OPTION_##field,
#define OPT_PATHS(field, ...)  OPTION_##field,
#include "conf/options.def"
    OPTIONS
} OptionIndex;

enum {
    CHOICE_NOTHING,
#define CHOICE(field, constant, word) CHOICE_INDEX_##field##_##constant,
#include "conf/options.def"
    OPTION_CHOICES
};

/* An enum for each choice, enum ChoiceOf_device of CHOICE_device_cpu: a choice ends the enum before it. A
 * switch over one, without default, is refused by the compiler where it leaves out a word. */
enum { WORDS_BEGIN,
#define OPT_CHOICE(field, ...) }; enum ChoiceOf_##field {
#define CHOICE(field, constant, word) CHOICE_##field##_##constant = CHOICE_INDEX_##field##_##constant,
#include "conf/options.def"
};

/* After a switch over the words of a choice, which has a case for each of them and no default. */
#define NO_SUCH_CHOICE(choice) stop_world(__FILE__, __LINE__, "the word %s has no meaning here", (choice).word)

/* Weakest first. A derived value yields to all others and may be derived again; PROGRAM is options_fill. */
typedef enum {
    SOURCE_NOTHING, SOURCE_DERIVED, SOURCE_PROGRAM, SOURCE_DEFAULT, SOURCE_PRESET, SOURCE_CHECKPOINT,
    SOURCE_CONFIG_FILE, SOURCE_ENVIRONMENT, SOURCE_COMMAND_LINE
} SourceKind;

/* How a value in another unit becomes ours. */
typedef enum {
    CONVERT_NONE,
    CONVERT_MINUTES_TO_SECONDS,
    CONVERT_POWER_OF_TWO,           /* of REAL: 2 to the power of a whole number */
    CONVERT_FILE_TO_FOLDER          /* of TEXT: the folder that has the file */
} Conversion;

typedef struct {
    SourceKind  kind;
    const char *name;      /* as typed: "--tp", "JOTUN_LR"; else "--" and the row's name */
    const char *value;     /* as typed; "" where nothing was */
    const char *from;      /* "--model gpt2-124m", "run.yaml:3", options it was derived from; else "" */
    Conversion  convert;   /* the field has `value` converted */
    bool        bare;      /* typed as a name without a value, which means `value` */
} OptionSource;
static inline OptionSource option_source(SourceKind kind, const char *name, const char *value,
                                         const char *from)
{
    return (OptionSource){ kind, name, value, from, CONVERT_NONE, false };
}

/* What an option has to be beside words that were given, whatever sets it; checked with the rules. The
 * message is `before`, the option as it was typed, and `after`; or of a number `before`, it, `after`, and it
 * with `more`. */
typedef enum { DEMAND_NOT, DEMAND_AT_LEAST } DemandKind;
typedef struct {
    OptionIndex option;
    DemandKind  kind;
    const char *value;                 /* the word that it must not have, or the least number */
    const char *before, *after;
    int64_t     more;
} OptionDemand;

typedef struct Options {
#define OPT_INT(field, ...)    OptionINT    field;
#define OPT_REAL(field, ...)   OptionREAL   field;
#define OPT_FLAG(field, ...)   OptionFLAG   field;
#define OPT_CHOICE(field, ...) OptionCHOICE field;
#define OPT_TEXT(field, ...)   OptionTEXT   field;
#define OPT_PATH(field, ...)   OptionTEXT   field;
#define OPT_LIST(field, ...)   OptionLIST   field;
#define OPT_PATHS(field, ...)  OptionLIST   field;
#include "conf/options.def"
    OptionSource source[OPTIONS];
    CommandSet   command;              /* one FOR_... */
    TextList     words;                /* positional arguments, in order */
    OptionDemand *demand;              /* [demands] */
    int          demands, demand_room;
    const char  *changed;              /* what a resumed run changes (options_match_json); NULL: nothing */
    /* Of the checkpoint that --load means, which is looked for once; NULL: there is none, or it has none. */
    struct {
        const char *path, *options;        /* its step directory; its options as one JSON object */
        const char *tokenizer, *fingerprint, *change;   /* change: that of the tokenizer in a resumed run */
        const char *tokenizer_path;        /* where its tokenizer is now; NULL: at the name that it records */
        const char *given;                 /* names of options that a person gave; NULL: not known. Where they
                                              are known, `options` are all of a run of jotun train */
        const char *kernels;               /* family of kernels that computed its steps */
        double      loss_scale;            /* of its next step; 0: it has none */
        /* Its position: steps; samples as the schedules count them, 0: it does not say; how many of them each
         * step counted as (store/checkpoint_contents.h) */
        int64_t     step, updated_samples, step_samples;
        bool        foreign, whole;        /* of another program; `options` are all of its model */
        const char *continued;             /* --save, whose run began with the model of --load; or NULL */
        bool        states, position;      /* whether these are taken from it (store/checkpoint_contents.h) */
        /* whether two words of --optimizer have the same states; NULL: no two of them */
        bool      (*share_states)(const char *a, const char *b);
    } checkpoint;
    void        *held;                 /* memory of texts: options_close */
} Options;

/* One row of options.def. */
typedef struct {
    OptionKind  kind;
    bool        path;                  /* TEXT, LIST: names files or folders */
    const char *field, *name, *help;
    const char *text;                  /* the default; "": none */
    const char *value;                 /* the word for a value in help; "" of FLAG and CHOICE */
    double      low, high;             /* INT, REAL */
    CommandSet  commands;
    size_t      offset;                /* of the field in Options */
} OptionRow;
extern const OptionRow option_rows[OPTIONS];
typedef struct { OptionIndex option; const char *word; } OptionChoice;
extern const OptionChoice option_choice_rows[OPTION_CHOICES];              /* by CHOICE_...; [0] is nothing */
#endif
