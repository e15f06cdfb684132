#!/bin/sh
# Man pages of the program and of each of its commands, of what their --help says:   man_pages.sh JOTUN FOLDER HELP2MAN
set -eu
PATH=$(dirname "$1"):$PATH
folder=$2
rm -rf "$folder"
mkdir -p "$folder"

page() { # "jotun-train" "pretrain a model" HELP2MAN "jotun train"
    "$3" --no-info --name "$2" --version-string "$(jotun --version)" --output "$folder/$1.1" "$4"
    # lines break behind the bars of a choice, and nowhere within a word
    sed -i "s/^\.TH JOTUN \(.*\)/.TH $(echo "$1" | tr a-z A-Z) \1\n.nh\n.ad l/
        s/^jotun \\\\- /$(echo "$1" | sed 's/-/\\\\-/g') \\\\- /
        s/|/|\\\\:/g" "$folder/$1.1"
}

page jotun "pretrain language models" "$3" jotun
jotun --help | sed -nE '/^exit code/q; s/^  ([a-z]+(-[a-z]+)*( [a-z]+)?)(  .*)?$/\1/p' | while read -r command; do
    page "jotun-$(echo "$command" | tr ' ' -)" "$(jotun $command --help | sed -n '3s/^ *//p')" "$3" "jotun $command"
done
