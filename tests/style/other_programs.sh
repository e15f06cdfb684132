#!/bin/sh
# Other programs have one room: outside of compat and convert no identifier and no string names fairseq, DeepSpeed, Argonne, BigScience, metaseq
# or NeMo. Comments may, and so may includes of compat's headers. Megatron stands only for a file format, for an order of samples, and in the
# names of the models of its papers (presets).
# usage: other_programs.sh ROOT
cd "$1/src" || exit 1
find . \( -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cpp' \) ! -path './compat/*' ! -path './convert/*' | sed 's|^\./||' | sort |
    xargs awk '
FNR == 1 { inside = 0; files++ }
{
    code = ""; rest = $0
    while (rest != "") {                                        # what is left of the line without its comments
        if (inside) {
            end = index(rest, "*/")
            if (!end) break
            rest = substr(rest, end + 2); inside = 0
        }
        begin = index(rest, "/*")
        if (!begin) { code = code rest; break }
        code = code substr(rest, 1, begin - 1); rest = substr(rest, begin + 2); inside = 1
    }
    if (code ~ /^ *# *include/) next
    if (tolower(code) ~ /fairseq|deep_?speed|argonne|alcf|bigscience|metaseq|nemo/) { print FILENAME ":" FNR ": names another program: " code; bad = 1 }
    left = code
    gsub(/Megatron(-LM)?.s (\.bin|checkpoint|older format|log lines?|orders?|tags|names)/, "", left)
    gsub(/(TOKEN_FILE|ORDER|LINES|(CHOICE_)?(data_order|convert_from|log_format|wandb_names))_MEGATRON/, "", left)
    gsub(/LINE_megatron(_evaluation)?|CHOICE_(data_order|convert_from|log_format|wandb_names)_megatron/, "", left)
    gsub(/(convert_from|data_order|log_format|wandb_names), *megatron, *"megatron"/, "", left)
    gsub(/(data_order|log_format|wandb_names), *"(megatron or )?megatron(-forks)?"/, "", left)
    gsub(/--data-order"?( |$)|" megatron blends|name\[\] = \{ "Megatron-LM"|--data-order megatron(-forks)?|megatron-forks|megatron:FOLDER|"megatron-[0-9.]+[bt]"/, "", left)
    if (tolower(left) ~ /megatron/) { print FILENAME ":" FNR ": Megatron stands for something else than a format or an order: " code; bad = 1 }
}
END {
    if (!files) { print "no files in src: nothing was looked at"; bad = 1 }
    if (!bad) print files " files name no other program"
    exit bad
}' || exit 1
