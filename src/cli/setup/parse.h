#ifndef CLI_SETUP_PARSE_H
#define CLI_SETUP_PARSE_H
/* The options of a command line, from all that it is written for and with. */
#include "compat/compat.h"
#include "conf/conf.h"

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
/* Whether the command line was one of another program; then a line in the log has the same as one of jotun.
 * */
bool   setup_is_foreign(CommandSet command, int argc, char **argv);
void   setup_tell_command(const Options *o);
#endif
