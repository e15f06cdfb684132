#ifndef CONF_CONFIG_FILE_H
#define CONF_CONFIG_FILE_H
/* Options from YAML files (--config FILE...), and options written as one. */
#include <stdio.h>
#include "conf/words.h"

/* The keys of a file of --config as words, from the file or its text. A key is an option's name, with - or
 * _; keys may stand in groups, whose names are those of options.def in small letters (model, optimizer, ...)
 * and say nothing else. null is as if the key were not there. A key of another command's options is passed
 * over, so that train and generate can share a file. BAD_FILE where the file is no YAML. */
Status words_config_file(OptionWords *words, const char *path, ConfigTexts *texts);
/* A line in the log where options_take has left out words of the file. */
void   words_tell_left_out(const OptionWords *words, const char *path, CommandSet command);
/* The bytes of the next file of the pack, of another rank's options perhaps: BAD_OPTION, naming this option.
 */
Status config_text_next(const char **text, size_t *bytes, const char *option, const char *path,
                        ConfigTexts *texts);
/* All options of a run that hold a value, by groups: those that somebody gave as keys, those that follow from
 * others or are defaults as comments, so that reading the file gives the same options. BAD_OPTION where a
 * value is not UTF-8, which YAML cannot hold. */
Status options_yaml(FILE *out, const Options *o);
#endif
