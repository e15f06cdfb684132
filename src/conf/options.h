#ifndef CONF_OPTIONS_H
#define CONF_OPTIONS_H
/* The options as C sees them, from the rows of options.def: a field a row, and where each value came from.
 *
 *     Status cmd_train(int argc, char **argv)
 *     {
 *         Options o;
 *         Status status = options_parse(&o, FOR_TRAIN, argc, argv);      environment, command line, preset
 *         if (status == OK) status = train(&o);
 *         options_close(&o);
 *         return status;
 *     }
 *     ... in train:
 *         if (o->use_checkpoint_args) TRY(options_from_json(o, manifest_options, path));
 *         TRY(options_derive(o));                         what follows from others
 *         TRY(options_judge(o));                          what does not go together is refused
 *         ...                                             from here on read-only, shared by all ranks */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* Who takes an option. `jotun config` takes whatever `jotun train` takes. */
enum {
    FOR_CONFIG = 1, FOR_TRAIN = 2 | FOR_CONFIG, FOR_EVAL = 4, FOR_GENERATE = 8, FOR_PREPARE = 16,
    FOR_TOKENIZER_ENCODE = 32, FOR_DATA_INFO = 64, FOR_CHECKPOINT = 128, /* the last two take words: a prefix, a folder */
    FOR_CHECKPOINT_ARGS = 256,
    /* of a run that goes on: has to be the checkpoint's; a line in the log where it is not */
    FOR_SHAPE = 512, FOR_SAME_RUN = 1024,
    FOR_MERGE = 2048 /* takes words as well */, FOR_TOKENIZER_TRAIN = 4096, FOR_LANGID = 8192,
    FOR_CLEAN = 16384, FOR_CLEAN_RESULT = 32768,    /* what clean's output depends on: has to be what the run was begun with */
    FOR_TOKENIZER_DECODE = 1 << 20, FOR_TOKENIZER_INFO = 1 << 21, FOR_DATA_CAT = 1 << 22 /* takes words */
};

typedef struct { int is; const char *word; } Choice;          /* is: a WORD_... constant below */
typedef struct { const char **text; int count; } TextList;
typedef int64_t     OptionINT;
typedef double      OptionREAL;
typedef const char *OptionTEXT;
typedef bool        OptionFLAG;
typedef Choice      OptionCHOICE;
typedef TextList    OptionLIST;

typedef enum { KIND_INT, KIND_REAL, KIND_TEXT, KIND_FLAG, KIND_CHOICE, KIND_LIST } OptionKind;
typedef enum {
    GROUP_MODEL, GROUP_DATA, GROUP_CLEANING, GROUP_SAMPLING, GROUP_SCHEDULE, GROUP_OPTIMIZER, GROUP_NUMBERS, GROUP_LAYOUT,
    GROUP_MACHINE, GROUP_FILES, GROUP_WORDS, OPTION_GROUPS
} OptionGroup;

typedef enum {
#define OPT(field, ...) OPTION_##field,
#include "conf/options.def"
    OPTIONS
} OptionIndex;

enum {
    WORD_NOTHING,
#define WORD(field, constant, word) WORD_##field##_##constant,
#include "conf/options.def"
    OPTION_WORDS
};

/* Weakest first. A derived value gives way to others and may be derived again; PROGRAM is options_fill. */
typedef enum {
    SOURCE_NOTHING, SOURCE_DERIVED, SOURCE_PROGRAM, SOURCE_DEFAULT, SOURCE_PRESET, SOURCE_CHECKPOINT,
    SOURCE_ENVIRONMENT, SOURCE_COMMAND_LINE
} SourceKind;
typedef struct {
    SourceKind  kind;
    const char *name;      /* as typed: "--tp", "JOTUN_LR"; else "--" and the row's name */
    const char *value;     /* as typed; "" where nothing was */
    const char *from;      /* the preset, the checkpoint's path, the options it was derived from; else "" */
} OptionSource;

typedef struct Options {
#define OPT(field, kind, ...) Option##kind field;
#include "conf/options.def"
    OptionSource source[OPTIONS];
    int          command;              /* FOR_... */
    TextList     words;                /* what stands without a name, in order */
    void        *held;                 /* memory of texts: options_close */
} Options;

typedef struct {
    const char *field, *name, *alias, *text, *value, *help;      /* text: the default */
    OptionKind  kind;
    OptionGroup group;
    double      low, high;
    int         commands;
    size_t      offset;                /* of the field in Options */
} OptionRow;
extern const OptionRow option_rows[OPTIONS];
typedef struct { OptionIndex option; const char *word; } OptionWord;
extern const OptionWord option_words[OPTION_WORDS];              /* by WORD_...; [0] is nothing */
#endif
