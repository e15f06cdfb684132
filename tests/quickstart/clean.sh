#!/bin/sh
# The text part of quickstart, on pages made here: markup, code, English and what is said twice go, Swedish prose stays.
# clean.sh QUICKSTART
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
html=$work/unpacked/usr/share/libreoffice/help/sv/text
page=$work/unpacked/usr/share/help/sv/gnome-help
mkdir -p "$html" "$page"
failed=0

long='Det h&#228;r &auml;r ett stycke som &#xE4;r s&#229; l&#229;ngt att sidan blir kvar, och det handlar om n&#229;got som du vill veta.'
{
    printf '<html><head><title>Titel som inte ska med</title><script>var det = "och som";</script></head>\n'
    printf '<div id="DisplayArea" itemprop="x">\n<h1>Rubriken f\303\266r sidan som visas</h1>\n'
    printf '<p>Tryck p\303\245 <span class="MAC">Kommando</span><span>Ctrl</span>+Z om du &quot;vill&quot;&nbsp;\303\245ngra det du gjorde.</p>\n'
    printf '<p>%s</p>\n<p>%s</p>\n' "$long" "$long"
    printf '<p>This page is not translated and the reader of it is left with English.</p>\n'
    printf '<pre>Dim och As Integer, som inte ska med i det</pre>\n<p>A2=SUMMA(B2) och det som st\303\245r i den</p>\n'
    printf '<p>Och det sista stycket p\303\245 sidan,\nsom <b>fortsätter</b> p\303\245 en ny rad med de ord som beh\303\266vs.</p>\n'
    printf '<div id="SearchFrame"></div><p>Detta \303\244r foten som inte ska med.</p></html>\n'
} > "$html/a.html"
printf '<html><div id="DisplayArea"><p>Kort, och det \303\244r allt.</p></div></html>\n' > "$html/short.html"
{
    printf '<page><info><desc>Det som st\303\245r i info ska inte med.</desc></info>\n<!-- <p>och inte det h\303\244r som \303\244r dolt</p> -->\n'
    for i in 1 2 3 4 5; do printf '<p>Stycke nummer %s handlar om att du kan \303\266ppna <gui>Inst\303\244llningar</gui> och v\303\244lja.</p>\n' $i; done
    printf '</page>\n'
} > "$page/b.page"

QUICKSTART_OUT=$work QUICKSTART_MINIMUM=100 "$1" clean > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cat "$work/train.txt" "$work/valid.txt" > "$work/all"

check() { [ "$2" = "$3" ] || { printf '%s\n  wanted: %s\n  got:    %s\n' "$1" "$2" "$3"; failed=1; }; }
has()   { check "$1" "$2" "$(grep -c -F -- "$1" "$work/all")"; }
check "documents" 2 "$(wc -l < "$work/all")"
check "markup and entities" 0 "$(grep -c '[<>&]' "$work/all")"
has 'Rubriken för sidan som visas Tryck på Ctrl+Z om du "vill" ångra det du gjorde.' 1
has "på sidan, som fortsätter på en ny rad" 1
has "att du kan öppna Inställningar och välja." 1
for gone in Titel script Kommando translated Integer SUMMA foten info dolt Kort; do has "$gone" 0; done
check "once" 1 "$(grep -o 'ett stycke som' "$work/all" | wc -l)"

# Less than the minimum is said, and so is a part that does not exist
QUICKSTART_OUT=$work QUICKSTART_MINIMUM=100000 "$1" clean > "$work/log" 2>&1 && { echo "too little text was accepted"; failed=1; }
grep -q 'less than 100000 bytes' "$work/log" || { cat "$work/log"; failed=1; }
QUICKSTART_OUT=$work "$1" nonsense > "$work/log" 2>&1 && { echo "an unknown part was accepted"; failed=1; }
grep -q 'nonsense is no part' "$work/log" || { cat "$work/log"; failed=1; }

# The curve, from lines as train writes them
printf '{"step":1,"loss":5.5,"lr":0}\n{"step":1,"split":"valid","loss":9}\n{"step":2,"loss":2.5,"lr":0}\n' > "$work/metrics.jsonl"
QUICKSTART_OUT=$work "$1" curve > "$work/log" 2>&1 || { cat "$work/log"; failed=1; }
check "two points" 1 "$(grep -c 'd="M50.0 50.8L620.0 ' "$work/loss.svg")"
exit $failed
