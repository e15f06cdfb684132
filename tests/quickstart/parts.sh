#!/bin/sh
# The parts of quickstart behind its downloads, on pages made here: markup goes, half of each language's pages become
# lessons, what is Swedish is found by the model that learnt from them, and stays once; of that a model is made in few
# seconds, and the last lines name its page and its report.
# parts.sh QUICKSTART JOTUN
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export QUICKSTART_OUT="$work" QUICKSTART_JOTUN="$2"
html=$work/unpacked/usr/share/libreoffice/help/sv/text
help=$work/unpacked/usr/share/help
mkdir -p "$html" "$help/sv/gnome-help" "$help/C/gnome-help"
failed=0
check() { [ "$2" = "$3" ] || { printf '%s\n  wanted: %s\n  got:    %s\n' "$1" "$2" "$3"; failed=1; }; }

# ---- pages to JSON lines ----
{
    printf '<html><head><title>Titel som inte ska med</title><script>var det = "och som";</script></head>\n'
    printf '<div id="DisplayArea" itemprop="x">\n<h1>Rubriken f\303\266r sidan</h1>\n'
    printf '<p>Tryck p\303\245 <span class="MAC">Kommando</span><span>Ctrl</span>+Z om du &quot;vill&quot;&#160;\303\245ngra det.</p>\n'
    printf '<p>H&#228;r &auml;r \\ &#xE4;ven\nen <b>ny</b> rad &amp; mer.</p><pre>Dim och As</pre>\n<div id="SearchFrame"></div><p>foten</p></html>\n'
} > "$html/a.html"
printf '<page><info><desc>info</desc></info>\n<!-- <p>dolt</p> --><p>Ett stycke.</p><p>Och <gui>ett</gui> till.</p></page>\n' > "$help/sv/gnome-help/0.page"
"$1" pages > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
wanted='"text": "Rubriken för sidan\nTryck på Ctrl+Z om du \"vill\" ångra det.\nHär  r \\ även en ny rad & mer."}'
check "a page of LibreOffice" "$wanted" "$(sed 's/.*", "text"/"text"/; s/\xc2\xa0/ /g' "$work/pages/libreoffice.jsonl")"
check "a page of GNOME" '"text": "Ett stycke.\nOch ett till."}' "$(sed 's/.*", "text"/"text"/' "$work/pages/sv.jsonl")"
check "lessons" "__label__sv Ett stycke.|__label__sv Och ett till.|" "$(tr '\n' '|' < "$work/lessons.txt")"

# ---- two languages, of words of their own ----
if ! command -v fasttext > /dev/null; then
    echo "fasttext is not installed: the model is not tested"
    [ $failed = 0 ] && exit 77
    exit 1
fi
awk -v help="$help" '
    function word(set, part, n) { n = split(set, part, " "); return part[1 + int(rand() * n)] part[1 + int(rand() * n)] }
    BEGIN {
        srand(3)
        sets["sv"] = "ök kå lä rä sy yt tu un ne ej jo ål"; sets["C"] = "th hw wh hi iq qu uo ou ut te ex xa"
        for (language in sets) for (page = 1; page <= 120; page++) {
            file = help "/" language "/gnome-help/" (100 + page) ".page"
            printf "<page>" > file
            for (p = 0; p < 6; p++) {
                text = ""
                for (w = 0; w < 14; w++) text = text word(sets[language]) " "
                printf "<p>%sslut.</p>\n", text > file
            }
            printf "<p>Samma rad som alla andra sidor av det slaget har.</p></page>\n" > file
            close(file)
        }
    }'
"$1" pages language > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
QUICKSTART_MINIMUM=1000 "$1" clean > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
check "others"  1 "$(grep -c 'language filter: kept 0 of 60 pages in other languages' "$work/log")"
found=$(sed -n 's/language filter: kept \([0-9]*\) of 60 Swedish.*/\1/p' "$work/log")
[ "${found:-0}" -ge 57 ] || { echo "of 60 Swedish pages ${found:-none} were found"; cat "$work/log"; failed=1; }
check "a line that all pages have" 1 "$(grep -c 'Samma rad' "$work/texts.txt")"

# The model of these texts, within a budget that anyone can give
made=$work/speedrun-0.2
"$1" --minutes 0.2 speedrun words page > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
check "bits per byte" 1 "$(grep -c '^bits per byte: [0-9.]* on [1-9][0-9]* documents held out' "$work/log")"
check "generated text" 1 "$(grep -c '^Om du vill ' "$work/log")"
check "the report's path" "Report of the run: $made/report.html" "$(tail -n 2 "$work/log" | head -n 1)"
check "the page's address" "Try the model at http://127.0.0.1:8000/ after   $2 serve --load $made/checkpoint" "$(tail -n 1 "$work/log")"
[ -s "$made/report.html" ] && [ -s "$made/hf/config.json" ] || { echo "no report or no folder for transformers in $made"; failed=1; }
"$1" --minutes 0.2 speedrun > "$work/log" 2>&1
check "a run that is done is kept" 9 "$(grep -c 'done before, kept' "$work/log")"
QUICKSTART_MINIMUM=1000 "$1" clean > "$work/log" 2>&1
[ -d "$made" ] || { echo "the model of the same texts was removed"; failed=1; }
echo "and more" >> "$work/texts.txt"
QUICKSTART_MINIMUM=1000 "$1" clean > "$work/log" 2>&1
[ ! -d "$made" ] || { echo "the model of other texts was kept"; failed=1; }
for minutes in ten "" -1; do
    "$1" --minutes "$minutes" speedrun > "$work/log" 2>&1 && { echo "--minutes $minutes was accepted"; failed=1; }
    grep -q -e '--minutes .*give the minutes' "$work/log" || { cat "$work/log"; failed=1; }
done

# Less than the minimum is said, and so is a part that does not exist
QUICKSTART_MINIMUM=100000000 "$1" clean > "$work/log" 2>&1 && { echo "too little text was accepted"; failed=1; }
grep -q 'less than 100000000 bytes' "$work/log" || { cat "$work/log"; failed=1; }
"$1" nonsense > "$work/log" 2>&1 && { echo "an unknown part was accepted"; failed=1; }
grep -q 'unknown part nonsense' "$work/log" || { cat "$work/log"; failed=1; }
exit $failed
