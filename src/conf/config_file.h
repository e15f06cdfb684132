#ifndef CONF_CONFIG_FILE_H
#define CONF_CONFIG_FILE_H
/* Options from YAML files (--config FILE...), and options written as one. Used by this directory and `jotun
 * config`. */
#include <stdio.h>
#include "conf/conf.h"

/* Reads the files of --config, or their texts, in their order: of a key in two of them the later one counts,
 * and a list is replaced. Their values are weaker than the environment's, so that it is called after the
 * command line is read. A key is an option's name, with - or _, or another trainer's; keys may stand in
 * groups, whose names are those of options.def in small letters (model, optimizer, ...) and say nothing else.
 * null is as if the key were not there. A key of another command's options is not read, so that train and
 * generate can share a file. BAD_FILE, BAD_OPTION and BAD_USAGE name file and line. */
Status config_files_read(Options *o, ConfigTexts *texts);
/* The bytes of the next file of the pack, of another rank's options perhaps: BAD_OPTION, naming this option.
 */
Status config_text_next(const char **text, size_t *bytes, const char *option, const char *path,
                        ConfigTexts *texts);
/* All options of a run that hold a value, by groups: those that somebody gave as keys, those that follow from
 * others or are defaults as comments, so that reading the file gives the same options. BAD_OPTION where a
 * value is not UTF-8, which YAML cannot hold. */
Status options_yaml(FILE *out, const Options *o);
#endif
