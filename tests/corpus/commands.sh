#!/bin/sh
# prepare, data and tokenizer as a person types them. commands.sh JOTUN
set -u
jotun=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

check() { [ "$2" = "$3" ] || { printf '%s\n  wanted: %s\n  got:    %s\n' "$1" "$2" "$3"; failed=1; }; }
# refused NAME EXIT WORDS command...: the exit code, and words of its message
refused()
{
    name=$1 code=$2 words=$3
    shift 3
    said=$("$@" 2>&1 < /dev/null)
    check "$name: exit" "$code" $?
    case $said in *"$words"*) ;; *) check "$name: message" "$words" "$said" ;; esac
}

# ---- text to pairs and back ----
printf 'r\303\244v\n\nhare\n' > a.txt
printf '{"text": "en\\nrad"}\n{"text": ""}\n{"text": "b", "body": "c"}\n' > b.jsonl
"$jotun" prepare --input a.txt b.jsonl --append-eod --output-prefix both 2> log || { cat log; failed=1; }
check "documents" "$(printf 'r\303\244v\nhare\nen\nrad\n\nb')" "$("$jotun" data cat both_text_document)"
check "counts" "documents  5 (1 empty)" "$("$jotun" data info both_text_document | grep documents)"
check "tokens" "19" "$("$jotun" data info both_text_document | sed -n 's/^tokens *\([0-9]*\).*/\1/p')"
check "ends of documents" "256 104" "$(od -An -v -tu2 -j8 -N4 both_text_document.bin | xargs)"
check "a word in the log" "1" "$(grep -c '5 documents (1 empty), 19 tokens' log)"

"$jotun" prepare --input a.txt --output-prefix plain 2> log
check "no ends unless asked" "8" "$(($(wc -c < plain_text_document.bin) / 2))"
printf '{"body": "x"}\n' | "$jotun" prepare --input - --json-keys body --output-prefix body 2> log
check "standard input, another key" "x" "$("$jotun" data cat body_body_document)"
printf 'x\ny\n' | "$jotun" prepare --input - --output-prefix lines 2> log
check "standard input, lines" "$(printf 'x\ny')" "$("$jotun" data cat lines_text_document)"

# ---- refusals: nothing of a pair is left behind ----
printf '{"text": "a"}\n{"text": \n' > broken.jsonl
refused "broken line" 1 "broken.jsonl:2" "$jotun" prepare --input a.txt broken.jsonl --output-prefix no
refused "missing file" 1 "none.txt: cannot be read" "$jotun" prepare --input none.txt --output-prefix no
refused "packed file" 1 "zstd -dc a.txt.zst" "$jotun" prepare --input a.txt.zst --output-prefix no
refused "no documents" 1 "no documents" "$jotun" prepare --input - --output-prefix no
refused "no input" 2 "--input" "$jotun" prepare --output-prefix no
refused "unknown tokenizer" 1 "--tokenizer gpt2" "$jotun" prepare --input a.txt --output-prefix no --tokenizer gpt2
refused "no folder" 1 "a.txt" "$jotun" prepare --input a.txt --output-prefix a.txt/no
check "no pair, no scaffolding" "" "$(find . -name 'no*')"
refused "no prefix" 2 "PREFIX" "$jotun" data info
refused "no pair" 1 "none.idx" "$jotun" data cat none
printf 'MMIDIDX' > cut.idx
refused "cut index" 1 "cut.idx: 7 bytes" "$jotun" data info cut

# ---- the tokenizer ----
printf 'hej\n\303\245' > text
check "encode" "104 101 106 10 195 165" "$("$jotun" tokenizer encode --tokenizer bytes --input text)"
for format in text u16 i32; do
    "$jotun" tokenizer encode --input text --format $format --output ids || failed=1
    "$jotun" tokenizer decode --input ids --format $format --output back || failed=1
    cmp text back || failed=1
done
check "i32 is four bytes" "104 101 106 10 195 165" "$(od -An -v -td4 ids | xargs)"
refused "no id" 1 'byte 3: "x"' sh -c "echo '10 x' | $jotun tokenizer decode"
refused "id outside" 1 "id 257 at place 1" sh -c "echo 1 257 | $jotun tokenizer decode"
refused "half an id" 1 "whole number" sh -c "printf abc | $jotun tokenizer decode --format u16"
refused "two inputs" 2 "one --input" "$jotun" tokenizer encode --input text text
exit $failed
