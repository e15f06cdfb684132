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

printf '\357\273\277{"text": "a"}\n{"text": "b"}\n' > mark.jsonl && printf '\357\273\277a\nb\n' > mark.txt
for input in mark.jsonl mark.txt -; do
    "$jotun" prepare --input $input --output-prefix mark 2> log < mark.jsonl || { cat log; failed=1; }
    check "a mark of the order of bytes: $input" "$(printf 'a\nb')" "$("$jotun" data cat mark_text_document)"
done

printf 'The river had been low all summer, and nobody who lived near it\ncould remember a year like that.\n\n%.0s' 1 2 3 4 5 6 7 8 > wrapped.txt
check "lines of one text are told" "1" "$("$jotun" prepare --input wrapped.txt --output-prefix wrapped 2>&1 | grep -c 'wrapped.txt looks like one text')"
check "and when a tokenizer is learnt" "1" "$("$jotun" tokenizer train --input a.txt wrapped.txt --vocab-size 300 --output w.json 2>&1 | grep -c 'wrapped.txt looks like one text')"
check "lines of documents are not" "0" "$("$jotun" prepare --input a.txt --output-prefix lines 2>&1 | grep -c 'looks like')"

# ---- packed, many keys, many threads ----
gzip -c b.jsonl > b.jsonl.gz && bzip2 -c a.txt > a.txt.bz2
"$jotun" prepare --input a.txt.bz2 b.jsonl.gz --append-eod --output-prefix packed --workers 3 2> log || { cat log; failed=1; }
cmp both_text_document.bin packed_text_document.bin && cmp both_text_document.idx packed_text_document.idx || failed=1
gzip -c b.jsonl | "$jotun" prepare --input - --output-prefix piped 2> log
check "packed standard input" "$(printf 'en\nrad\n\nb')" "$("$jotun" data cat piped_text_document)"
printf '{"text": "a", "title": ""}\n{"title": "c", "text": "d"}\n' > c.jsonl
"$jotun" prepare --input c.jsonl --json-keys text title --output-prefix keys 2> log
check "first key" "$(printf 'a\nd')" "$("$jotun" data cat keys_text_document)"
check "second key" "$(printf '\nc')" "$("$jotun" data cat keys_title_document)"
"$jotun" data merge keys_text_document keys_title_document --output-prefix merged
check "what is merged is told" "1" "$("$jotun" data merge keys_text_document --output-prefix single 2>&1 | grep -c 'data merge: 1 token file: single.bin, .idx')"
check "merged" "$(printf 'a\nd\n\nc')" "$("$jotun" data cat merged)"
printf '{"text": "a"}\n{"text": \n{"text": "a long one"}\n{"text": "b"}\n' > mixed.jsonl
"$jotun" prepare --input mixed.jsonl --on-error skip --max-document-bytes 14 --output-prefix skip 2> log
check "broken and long lines skipped" "$(printf 'a\nb')" "$("$jotun" data cat skip_text_document)"
check "and named" "2" "$(grep -c 'skipped: mixed.jsonl:[23]: ' log)"
check "and the option that is met" "1" "$(grep -c '3: .*--max-document-bytes 14 is the most' log)"
check "and counted" "1" "$(grep -c '2 lines or files were skipped' log)"
"$jotun" prepare --input mixed.jsonl --on-error skip --output-prefix silent 2>&-
check "no stream for messages: none in the pair" "$(printf 'a\na long one\nb')" "$("$jotun" data cat silent_text_document)"
check "no stream to write to is told" "3" "$("$jotun" data cat silent_text_document 2> log >&-; echo $?)"
mkfifo pipe.txt
cat a.txt > pipe.txt &
check "a named pipe is opened once" "0" "$(sleep 0.3 | timeout 5 "$jotun" prepare --input - pipe.txt --output-prefix fifo 2> log; echo $?)"
check "and read" "$(printf 'r\303\244v\nhare')" "$("$jotun" data cat fifo_text_document)"
head -c 40 b.jsonl.gz > cut.jsonl.gz            # for below

# ---- fairseq's pairs: ids 5 2 and 2 ----
printf 'MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\2\0\0\0\0\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0' > fair.idx
printf '\5\0\2\0\2\0' > fair.bin
check "fairseq's ids" "$(printf '5 2\n2')" "$("$jotun" data cat fair)"
check "fairseq's name" "format     words of a dictionary, mmap" "$("$jotun" data info fair | grep format)"
check "Megatron's name" "format     Megatron-LM" "$("$jotun" data info merged | grep format)"

# ---- refusals: nothing of a pair is left behind ----
printf '{"text": "a"}\n{"text": \n' > broken.jsonl
refused "broken line" 1 "broken.jsonl:2" "$jotun" prepare --input a.txt broken.jsonl --output-prefix no
refused "missing file" 1 "none.txt: cannot be read" "$jotun" prepare --input none.txt --output-prefix no
refused "packed file" 1 "xz -dc a.txt.xz" "$jotun" prepare --input a.txt.xz --output-prefix no
refused "cut file" 1 "cut.jsonl.gz: byte 40: the file ends in the middle" "$jotun" prepare --input cut.jsonl.gz --output-prefix no
refused "a key twice" 1 "text is named twice" "$jotun" prepare --input a.txt --json-keys text text --output-prefix no
refused "a key that is a path" 1 "../x" "$jotun" prepare --input a.txt --json-keys ../x --output-prefix no
refused "two keys of plain text" 1 "names 2 keys" "$jotun" prepare --input a.txt --json-keys text title --output-prefix no
refused "nothing to merge" 2 "PREFIX" "$jotun" data merge --output-prefix no
refused "merged into nothing" 1 "--output-prefix" "$jotun" data merge merged
refused "no documents" 1 "no documents" "$jotun" prepare --input - --output-prefix no
refused "no documents of standard input" 1 "standard input: no documents in it" "$jotun" prepare --input - --output-prefix no
refused "standard input given twice" 1 "standard input can be read once" "$jotun" prepare --input - a.txt - --output-prefix no
refused "standard input given twice to clean" 1 "standard input can be read once" "$jotun" clean --input - - --output no.txt
refused "a pair merged into itself" 1 "the output ./merged.bin is also an input (merged.bin)" "$jotun" data merge plain_text_document merged --output-prefix ./merged
refused "no input" 2 "--input" "$jotun" prepare --output-prefix no
refused "unknown tokenizer" 1 "--tokenizer gpt2" "$jotun" prepare --input a.txt --output-prefix no --tokenizer gpt2
refused "no folder" 1 "a.txt" "$jotun" prepare --input a.txt --output-prefix a.txt/no
# a pattern whose matching takes exponentially many backtracking steps on a a a a b
"$jotun" tokenizer train --input a.txt --vocab-size 300 --output evil.json 2> log
split='{"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": false}'
bytes='{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}'
sed -i "s/^\"pre_tokenizer\": .*/\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [$split, $bytes]},/" evil.json
printf 'x\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\n' > evil.txt
refused "a pattern without end names the line" 1 "evil.txt:2: the tokenizer's pattern" "$jotun" prepare --input evil.txt --tokenizer evil.json --output-prefix no
mkdir folder.json
train() { "$jotun" tokenizer train --vocab-size 300 --output t.json "$@"; }
refused "plain text read once for each key" 1 "asks for 2" train --input a.txt --json-keys text title
refused "standard input read twice" 1 "standard input can be read once" train --input - --json-keys text title
refused "standard input named twice" 1 "standard input can be read once" train --input - a.txt -
refused "no folder for what is learnt, told before reading" 1 "there is no directory nowhere" train --input none.txt --output nowhere/t.json
refused "a folder for what is learnt" 1 "it is a directory" train --input none.txt --output folder.json
cp a.txt kept.txt && ln -s kept.txt link.txt
refused "a corpus under its tokenizer" 1 "the output kept.txt is also an input" train --input a.txt kept.txt --output kept.txt
refused "nor through a link" 1 "the output link.txt is also an input (kept.txt)" train --input kept.txt --output link.txt
refused "a text under its ids" 1 "is also an input" "$jotun" tokenizer encode --input kept.txt --output kept.txt
refused "a tokenizer under ids" 1 "the output evil.json is also an input" "$jotun" tokenizer encode --tokenizer evil.json --input kept.txt --output evil.json
touch bytes
check "bytes are no file" "0" "$("$jotun" tokenizer encode --tokenizer bytes --input kept.txt --output bytes; echo $?)"
check "the corpus stays" "0" "$(cmp a.txt kept.txt; echo $?)"
check "nothing learnt" "" "$(find . -name 't.json*')"
check "two keys learnt" "0" "$(train --input c.jsonl --json-keys text title --output two.json 2> log; echo $?)"
head -c 100000 /dev/zero | tr '\0' x > big.txt
refused "a file above the limit" 3 "File too large" sh -c 'ulimit -f 1 && exec "$@"' - "$jotun" prepare --input big.txt --output-prefix no
check "no pair, no scaffolding" "" "$(find . -name 'no*')"
info() { "$jotun" data info --train-data-path merged --valid-data-path merged --seq-length 2 2> log | grep -c '^valid'; }
check "what is evaluated on is shown" "1" "$(info)"
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
refused "id outside" 1 "id 257 at position 1" sh -c "echo 1 257 | $jotun tokenizer decode"
refused "half an id" 1 "cannot be divided into ids" sh -c "printf abc | $jotun tokenizer decode --format u16"
refused "a packed text" 1 "a.txt.bz2: it is compressed by bzip2" "$jotun" tokenizer encode --input a.txt.bz2
refused "two inputs" 2 "one --input" "$jotun" tokenizer encode --input text text
exit $failed
