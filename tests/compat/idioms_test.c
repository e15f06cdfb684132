/* Ways in which scripts make a value, each compared with bash itself, which runs the same lines with a function in the place of python. All of
 * them are parts of one script, each in a subshell of its own, so that three runs answer for all. */
#include "launch.h"

/* Each leaves a value in N; given: one two 'three 3'. */
static const char *const idioms[] = {
    /* assignments */
    "N=3", "N='3 4'", "N=\"a $1\"", "N=$1$2", "N+=7", "N=1; N+=2", "declare -i N=2; N+=3", "declare -i N=\"2*3\"", "export N=5", "readonly N=6", "typeset N=7",
    "local_in() { local N=1; M=$N; }; local_in; N=$M", "N=$(echo 4)", "N=`echo 5`", "N=$(( 2 + 3 ))", "N=$[2+4]", "let N=3+4", "let 'N = 3 * 4'", "((N = 9))", "N=4; ((N++))",
    "N=4; ((N += 3, N *= 2))", "N=4; : $((N = N * 2))", "N=${M:=8}", ": ${N:=11}", "unset N; N=${N:-6}", "N=4; unset N; N=${N-9}", "N=; N=${N:-7}", "N=; N=${N-7}",
    "N=x; N=${N:+set}", "printf -v N '%03d' 7", "read N <<< 12", "read -r A N <<< '1 13'", "IFS=, read -r A N <<< '1,14'", "read -ra A <<< '1 2 15'; N=${A[2]}",
    "mapfile -t A < <(printf '1\\n2\\n16\\n'); N=${A[2]}", "readarray -t A <<< 17; N=$A", "while read -r x; do N=$x; done < <(seq 3)", "seq 3 | while read -r x; do N=$x; done",
    "shopt -s lastpipe; seq 3 | while read -r x; do N=$x; done", "N=$(cat <<< 18)", "N=$(cat << E\n19\nE\n)", "N=$(cat <<'E'\n$HOME\nE\n)", "N=$(cat <<-E\n\t20\n\tE\n)",
    "declare N=21 M=22", "eval N=23", "eval 'N=\"2 4\"'", "V=N; eval \"$V=25\"", "V=N; declare \"$V=26\"", "V=N; printf -v \"$V\" 27", "declare -n V=N; V=28", "M=29; V=M; N=${!V}",
    "N=$(bash -c 'echo 30')", "N=$(sh -c 'echo 31')", "source <(echo N=32)", ". /dev/stdin <<< N=33", "exec 3<<< 34; read -u 3 N; exec 3<&-", "M=35 eval 'N=$M'", "N=36 true; N=${N:-none}",
    /* expansions */
    "A=/a/b/c.tar.gz; N=${A##*/}", "A=/a/b/c.tar.gz; N=${A%%.*}", "A=/a/b/c.tar.gz; N=${A%.*}", "A=/a/b/c.tar.gz; N=${A#*/}", "A=hello; N=${A:1:3}", "A=hello; N=${A: -2}", "A=hello; N=${#A}",
    "A=hello; N=${A/l/L}", "A=hello; N=${A//l/L}", "A=hello; N=${A/#h/H}", "A=hello; N=${A/%o/O}", "A=2_000_000; N=${A//_}", "A=hello; N=${A^}", "A=hello; N=${A^^}", "A=HELLO; N=${A,,}", "A=Hello; N=${A~~}",
    "A=(1 2 3); N=${A[1]}", "A=(1 2 3); N=${A[-1]}", "A=(1 2 3); N=${#A[@]}", "A=(1 2 3); N=${A[@]:1}", "A=(1 2 3); N=\"${A[*]}\"", "A=(1 2 3); IFS=,; N=\"${A[*]}\"", "A=([5]=x [2]=y); N=${!A[*]}",
    "declare -A A=([a]=1 [b]=2); N=${A[b]}", "declare -A A; A[k]=3; k=k; N=${A[$k]}", "A=(1 2); A+=(3); N=${A[*]}", "N=$'a\\tb'", "N=\"a\\$b\"", "N=a\\ b", "N={1..3}", "N=$(echo {1..3})", "N=$(echo a{b,c}d)",
    "N=~; N=${N:+home}", "N=$#", "N=\"$*\"", "N=${@: -1}", "N=${*:2:1}", "shift; N=$1", "set -- 7 8; N=$2", "N=$((16#ff))", "N=$((2**10))", "N=$((7/2))", "N=$((-7%3))", "N=$((1<<4|1))", "A=3; N=$((A>2?10:20))", "A=08; N=$((10#$A+1))",
    "N=${1@Q}", "N=$(printf '%q' 'a b')", "N=$(printf '%.2f' 1.5)", "A='x y'; N=$(echo $A)", "A='x   y'; N=$(echo \"$A\")",
    /* conditions and loops */
    "if [ 1 -eq 1 ]; then N=1; else N=2; fi", "if [[ abc == a* ]]; then N=1; fi", "if [[ abc =~ ^a(b)c$ ]]; then N=${BASH_REMATCH[1]}; fi", "[ -z \"\" ] && N=1 || N=2", "if ! false; then N=1; fi", "if false; then N=1; elif true; then N=2; fi",
    "if grep -q x <<< xyz; then N=1; fi", "if [ -f run.sh ]; then N=file; fi", "if [[ -d / && ! -e none ]]; then N=1; fi", "test 3 -gt 2 && N=1", "((3 > 2)) && N=1", "case 7B in 7*) N=1 ;; *) N=2 ;; esac", "case x in a|x) N=1 ;;& *) N=$N.2 ;; esac", "case x in x) N=1 ;& y) N=$N.3 ;; esac",
    "for i in 1 2 3; do N=$i; done", "for i in one; do N=6; done", "for ((i = 0; i < 4; i++)); do N=$i; done", "for i; do N=$i; done", "i=0; while [ $i -lt 3 ]; do i=$((i+1)); N=$N$i; done", "i=0; until [ $i -eq 3 ]; do ((i++)); N=$i; done || true; N=$i",
    "for i in 1 2 3; do [ $i = 2 ] && break; N=$i; done", "for i in 1 2 3; do [ $i = 3 ] && continue; N=$i; done", "while [ $# -gt 0 ]; do case $1 in two) N=$2; shift 2 ;; *) shift ;; esac; done", "while getopts a:b o -a 5 -b; do case $o in a) N=$OPTARG ;; esac; done",
    "N=1; ( N=2 )", "N=1; { N=2; }", "N=1; N=2 | cat", "N=1; (N=2) & wait", "N=$( (exit 3); echo $? )", "f() { N=$1; }; f 5", "f() { echo $1; }; N=$(f 6)", "f() { [ $1 -le 1 ] && { echo 1; return; }; echo $(( $1 * $(f $(($1-1))) )); }; N=$(f 5)",
    "f() { return 3; }; f; N=$?", "f() { local -n r=$1; r=9; }; f N", "function f { N=${FUNCNAME[0]}; }; f", "set -e; N=1; false || N=2", "N=1; set -u; N=${M-2}", "trap 'N=8' USR1; kill -USR1 $BASHPID; N=$N", "select_one() { N=$1; }; select_one \"$@\"",
    "for f in r*.sh; do N=$f; done", "N=$(ls r*.sh | head -1)", "N=$(echo a,b,c | cut -d, -f2)", "N=$(echo 3 4 | awk '{print $1 * $2}')", "N=$(echo abc | sed 's/b/X/')", "N=$(echo abc | tr a-c A-C)", "N=$(seq -s, 3)", "N=$(expr 3 + 4)", "N=$(printf '3\\n1\\n2\\n' | sort -n | tail -1)",
    "N=$(basename /a/b.sh .sh)", "N=$(dirname /a/b.sh)", "echo '{\"a\": 5}' > a.json; N=$(grep -o '[0-9]*' a.json)", "echo M=6 > m.inc; . ./m.inc; N=$M", "N=$(wc -l < run.sh); N=${N:+lines}", "N=$(date +%Y); N=${#N}", "N=$(xargs echo <<< '1 2')",
    "coproc cat; echo 5 >&${COPROC[1]}; read -u ${COPROC[0]} N", "N=$(cat <(echo 1) <(echo 2) | paste -sd+)", "N=$(tee /dev/null <<< 7)", "N=$(env X=8 bash -c 'echo $X')", "X=9; export X; N=$(bash -c 'echo $X')", "N=$( { echo out; echo err >&2; } 2>&1 | paste -sd-)",
    "N=$(cd / && pwd)", "pushd / > /dev/null; N=$PWD; popd > /dev/null", "N=$(type -t cd)", "N=$BASH_SUBSHELL; N=${N:+set}", "set -o noglob; N='*'; set -- $N; N=$1", "N=1,2,3; IFS=,; set -- $N; N=$#", "A='--x 1'; set -- $A; N=$#", "alias z=true; N=${BASH_ALIASES[z]}",
    "N=5 # a comment", "N=$(echo 1; # comment\necho 2)", "N=\"1\n2\"; N=${N//$'\\n'/+}", "N=1 M=$N; N=$M", "A=1; B=A; C=B; N=${!C}", "shopt -s extglob; A=aab; N=${A##+(a)}", "shopt -s nullglob; set -- none*; N=$#",
};
enum { IDIOMS = sizeof idioms / sizeof idioms[0] };

static char *script(void)
{
    char  *text;
    size_t bytes;
    FILE  *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    for (int i = 0; i < IDIOMS; i++) fprintf(out, "(\n%s\npython t.py --id %d --n \"$N\" -- $N\n) 2> /dev/null\n", idioms[i], i);
    fclose(out);
    return text;
}

/* What bash prints: a line for each, with words behind bars; in the folder and environment that a run has. */
static void run_bash(char lines[IDIOMS][512])
{
    char line[4096];
    put("plain.sh", "python() { printf '%s|' \"${@//$'\\n'/ }\"; echo; } >&9\n. ./run.sh\n");
    FILE *out = popen("env -i HOME=/ USER=root PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 bash plain.sh one two 'three 3' 9>&1 > /dev/null 2>&1", "r");
    assert_non_null(out);
    while (fgets(line, sizeof line, out)) {
        int id;
        if (sscanf(line, "t.py|--id|%d|", &id) == 1 && id >= 0 && id < IDIOMS) snprintf(lines[id], 512, "%.*s", (int)strcspn(line, "\n"), line);
    }
    pclose(out);
}

static void words_are_those_of_bash(LaunchWay way)
{
    static char lines[IDIOMS][512];
    static const char *const given[] = { "one", "two", "three 3" };
    char *text = script();
    LaunchRecord r;
    int seen = 0, wrong = 0;
    Status status = launch(&r, way, text, 3, given);
    if (status == BAD_OPTION) print_message("not tested: %s\n", fail_text());
    else {
        assert_int_equal(status, OK);
        memset(lines, 0, sizeof lines);
        run_bash(lines);
        for (int c = 0; c < r.calls; c++) {
            char words[4096] = "t.py|";
            int  id = atoi(r.call[c].word[1].text);
            for (int i = 0; i < r.call[c].words; i++) {
                snprintf(words + strlen(words), sizeof words - strlen(words), "%s|", r.call[c].word[i].text);
                for (char *n = words; *n; n++) if (*n == '\n') *n = ' ';
                if (!r.call[c].word[i].agreed) print_error("%s\n%s is decided by %s\n", idioms[id], r.call[c].word[i].text, r.call[c].word[i].decided_by), wrong++;
            }
            if (strcmp(words, lines[id])) print_error("%s\ngives %s, and not %s\n", idioms[id], words, lines[id]), wrong++;
            seen++;
        }
        for (int i = 0; i < IDIOMS; i++)
            if (!lines[i][0]) print_error("bash itself does not reach: %s\n", idioms[i]), wrong++;
        assert_int_equal(seen, IDIOMS);
        assert_int_equal(wrong, 0);
        print_message("%d idioms give bash's words\n", IDIOMS);
    }
    launch_close(&r);
    free(text);
}

static void in_namespaces(void **state) { (void)state, words_are_those_of_bash(LAUNCH_NAMESPACES); }
static void in_landlock(void **state) { (void)state, words_are_those_of_bash(LAUNCH_LANDLOCK); }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(in_namespaces), cmocka_unit_test(in_landlock) };
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    assert_int_equal(chdir("/"), 0);
    folder_remove(test_folder());
    return status;
}
