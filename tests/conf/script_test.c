/* What a bash script would give its program, found without running it. Where bash is installed it runs the same scripts,
 * with programs that print their arguments, and must give the same words. */
#include "line.h"
#include <stdlib.h>
#include <unistd.h>
#include "conf/script/script.h"

static const char *put(const char *text, size_t bytes)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/jotun_script_%d.sh", (int)getpid());
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, bytes, out), bytes);
    assert_int_equal(fclose(out), 0);
    return path;
}

/* "12:--lr 12:3|..." without unknown marks */
static const char *words_of(const Script *s, bool lines)
{
    static char out[4096];
    char text[2048];
    size_t used = 0;
    for (int i = 0; i < s->arguments.count && used < sizeof out; i++) {
        script_plain(text, sizeof text, s->arguments.word[i].text);
        if (lines) used += (size_t)snprintf(out + used, sizeof out - used, "%s%d:%s", i ? "|" : "", s->arguments.word[i].line, text);
        else       used += (size_t)snprintf(out + used, sizeof out - used, "%s%s", i ? "|" : "", text);
    }
    if (!s->arguments.count) out[0] = 0;
    return out;
}

/* The last line that the script prints where python and torchrun print what follows the .py. */
static const char *words_of_bash(const char *script)
{
    static char line[4096];
    char command[512], last[4096] = "", folder[64];
    snprintf(folder, sizeof folder, "/tmp/jotun_script_%d", (int)getpid());
    snprintf(command, sizeof command, "mkdir -p %s && cat > %s/python && chmod +x %s/python && cp %s/python %s/torchrun", folder, folder, folder, folder, folder);
    FILE *stub = popen(command, "w");
    fputs("#!/bin/bash\nwhile [ $# -gt 0 ]; do a=$1; shift; case \"$a\" in *.py) break;; esac; done\nIFS='|'; printf '%s\\n' \"$*\"\n", stub);
    pclose(stub);
    snprintf(command, sizeof command, "cd %s && PATH=%s:$PATH bash %s one two 2>&1; rm -r %s", folder, folder, put(script, strlen(script)), folder);
    FILE *out = popen(command, "r");
    while (fgets(line, sizeof line, out)) strcpy(last, line);
    pclose(out);
    last[strcspn(last, "\n")] = 0;
    return strcpy(line, last);
}

static void scripts_give_words(void **state)
{
    (void)state;
    static const struct { const char *script, *words; } row[] = {
        { "python t.py --a 1", "--a|1" },
        { "A=3\npython t.py --a $A --b ${A} --c \"$A x\" '$A'", "--a|3|--b|3|--c|3 x|$A" },
        { "A=(--x 1 # one\n  --y \"2 3\"\n)\ntorchrun t.py ${A[@]} \"${A[@]}\" ${A[1]} ${#A[@]}", "--x|1|--y|2|3|--x|1|--y|2 3|1|4" },
        { "A=\"--x 1 \\\n --y 2\"\nB=\"$A --z\"\npython t.py $B \"$B\"", "--x|1|--y|2|--z|--x 1  --y 2 --z" },
        { "A=${NOT_SET_HERE:-7}\npython t.py ${A:-8} ${NOT_SET_HERE:+x} ${A:+y} ${Q:=5} $Q", "7|y|5|5" },
        { "G=8; N=$((G*2+1)); python t.py $N $(( (G-2)/3 )) $((G%3)) $((2**10)) $((-G)) $((G>7&&1))", "17|2|2|1024|-8|1" },
        { "F=/a/b/c.tar.gz; python t.py ${F%.*} ${F%%.*} ${F#*/} ${F##*/} ${#F}", "/a/b/c.tar|/a/b/c|a/b/c.tar.gz|c.tar.gz|13" },
        { "X=abC; python t.py ${X^^} ${X,,} ${X^}", "ABC|abc|AbC" },
        { "if [ \"$X\" = y ]; then A=1; else A=2; fi\npython t.py $A", "2" },
        { "X=y\nif [[ $X == y && ! -z $X ]]; then\n A=1\nelif [ 1 -eq 1 ]; then A=3\nelse A=2; fi\npython t.py $A", "1" },
        { "N=13\nif [ $N -eq 7 ]; then L=1\nelif [ $N -eq 13 ]; then if true; then L=2; fi\nelse L=3; fi; python t.py $L", "2" },
        { "case 7B in\n 1B) A=1;;\n 7*|8B) A=2 ;;\n *) A=3;; esac\npython t.py $A", "2" },
        { "for i in 1 2; do A=9; done; while false; do A=8; done; f() { A=7; }\nfunction g { A=6; }\nA=1\npython t.py $A", "1" },
        { "set_model() { H=1536; A=\"--n 24\"; }\nH=1\nset_model; python t.py $A --h $H", "--n|24|--h|1536" },
        { "f() { local X=$1 Y; shift; declare Z=$#; Y=5; A+=(\"$X\" \"$@\" $# $Z); }\nX=9 Z=8\nf 1 '2 3'; f 4\npython t.py \"${A[@]}\" $X $Z $1", "1|2 3|1|1|4|0|0|9|8|one" },
        { "g() { [ $1 -eq 0 ] && return 1; A=\"$A $1\"; g $(($1-1)); }\nfunction h () {\n if [ $1 = y ]; then B=2; return; fi\n B=3\n}\ng 3 || C=4\nh y\nif h n; then D=$B; fi\npython t.py $A $B $C $D",
          "3|2|1|3|4|3" },
        { "run() { python t.py \"$@\"; }\nf() { A=1; }\nf() { A=2; }\nf\nrun --a $A", "--a|2" },
        { "f() (\n A=7\n)\nA=1\nf\n{ B=2; }\npython t.py $A $B", "1|2" },
        { "[ -z \"$U\" ] && A=1\n[ -n \"$U\" ] && A=2\n[ 1 -eq 2 ] || B=3\npython t.py $A $B", "1|3" },
        { "export A=1 B=\"2 3\"\ndeclare -a C=(4 5)\nreadonly D=6; python t.py $A $B ${C[@]} $D", "1|2|3|4|5|6" },
        { "A=(1)\nA+=(2 3)\nB=x\nB+=y\npython t.py ${A[*]} $B", "1|2|3|xy" },
        { "CMD=\"torchrun --n 8 t.py --a 1\"\necho $CMD\neval $CMD", "--a|1" },
        { "CMD='python t.py --a \"1 2\"'\nbash -c \"$CMD\"", "--a|1 2" },
        { "srun -N 2 bash -c \"python -u t.py --a 1\" 2>&1 | tee log", "--a|1" },
        { "python a.py --x\npython pretrain_gpt.py --y\npython b.py --z", "--y" },
        { "python t.py --a 1 > out 2>&1 &\nwait", "--a|1" },
        { "cat <<EOF > f\n--no \"$A\"\nEOF\npython t.py --a 1", "--a|1" },
        { "python t.py \\\n  --a 1 \\\n  --b 2 # end\n", "--a|1|--b|2" },
        { "# words alone\n--a 1 \\\n--b '2 3'\n# more\n --c ([0]*3) ", "--a|1|--b|2 3|--c|([0]*3)" },
        { "A=--x\r\npython t.py $A\r\n", "--x" },
        { "P=${1:-none}; python t.py $P $2 \"$@\"", "one|two|one|two" },
        { "A=\"\"; python t.py $A \"$A\" x''y \"\"", "|xy|" },
        { "python t.py a\\ b \"c\\\"d\" e\\$A $'x' ", "a b|c\"d|e$A|x" },
        { "V=/usr\npython $V/x/t.py --v ${V}/lib", "--v|/usr/lib" },
        { "((N = 3)); python t.py x; (A=1; echo); { B=2; }; python t2.py $B", "2" },
        { "OPT=1 python t.py --a; time python t.py --b", "--b" },
        { "A='a b'; python t.py ${A// /_}", "${A// /_}" },
        { "M=\"--n 4 --h 64\"; A=( $M --s 64 '5 6' )\nbash -c \"python -u t.py ${A[*]} --save x\"", "--n|4|--h|64|--s|64|5|6|--save|x" },
        { "A=(1 \"2 3\"); python t.py \"${A[*]}\" \"$*\" \"x${A[@]}y\" ${A[*]}", "1 2 3|one two|x1|2 3y|1|2|3" },
        { "S=small\ndeclare -A Z=([small]=\"--n 4 --h 64\"\n [\"big\"]='--n 8' )\nZ[huge]=\"--n 9\"\npython t.py ${Z[$S]} \"${Z[big]}\" ${Z[huge]} ${Z[no]:-7} ${#Z[@]}",
          "--n|4|--h|64|--n 8|--n|9|7|3" },
    };
    static const char *const given[] = { "one", "two" };
    static const char *const other[] = { "srun", "# words alone", "a.py", "// /", "\r", "2>&1", "torchrun --n 8", "time " };   /* bash's is another */
    bool bash = system("bash -c true") == 0;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        Script s;
        assert_ok(script_read(&s, put(row[i].script, strlen(row[i].script)), 2, given));
        if (strcmp(words_of(&s, false), row[i].words)) fail_msg("%s\ngives %s, not %s", row[i].script, words_of(&s, false), row[i].words);
        script_close(&s);
        bool same = bash;
        for (size_t k = 0; k < sizeof other / sizeof other[0]; k++) same &= !strstr(row[i].script, other[k]);
        if (same) assert_string_equal(words_of_bash(row[i].script), row[i].words);
    }
    if (!bash) print_message("bash is not installed: not compared with it\n");
}

static void words_keep_their_lines(void **state)
{
    (void)state;
    static const char text[] = "A=(\n  --x 1\n  --y 2\n)\nB=\"--z 3\"\n\ntorchrun \\\n  t.py ${A[@]} $B \\\n  --w";
    Script s;
    assert_ok(script_read(&s, put(text, sizeof text - 1), 0, NULL));
    assert_string_equal(words_of(&s, true), "2:--x|2:1|3:--y|3:2|5:--z|5:3|9:--w");
    assert_string_equal(s.program, "t.py");
    assert_int_equal(s.launcher.count, 1);
    script_close(&s);
}

static void unknown_parts(void **state)
{
    (void)state;
    static const char text[] = "SAVE=$1\nDAY=$(date +%F)\nX=\"$X more\"\nN=$((NOBODY_SETS_IT*2))\npython t.py $SAVE/x $DAY `hostname` $X $N $EXTRA\n"
                               "if grep -q x y; then Z=1; fi\n. other.sh\n";
    static const bool unknown[] = { true, true, true, false, true, true };
    char part[64], plain[64];
    Script s;
    assert_ok(script_read(&s, put(text, sizeof text - 1), 0, NULL));
    assert_int_equal(s.arguments.count, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(script_unknown(s.arguments.word[i].text), unknown[i]);
    assert_string_equal(script_plain(plain, sizeof plain, s.arguments.word[0].text), "SAVE/x");
    assert_string_equal(script_unknown_part(part, sizeof part, s.arguments.word[1].text), "$(date +%F)");
    assert_string_equal(s.arguments.word[3].text, "more");
    assert_true(script_unset(s.arguments.word[5].text) && !script_unset(s.arguments.word[0].text));
    assert_int_equal(s.notes.count, 2);                                     /* grep's answer; other.sh */
    assert_int_equal(s.notes.word[0].line, 6);
    script_close(&s);
}

static void elements_that_are_not_there(void **state)
{
    (void)state;
    static const char text[] = "declare -A Z=([a]=1)\npython t.py ${Z[b]}\n";
    char part[64];
    Script s;
    assert_ok(script_read(&s, put(text, sizeof text - 1), 0, NULL));
    assert_int_equal(s.arguments.count, 1);
    assert_false(script_unset(s.arguments.word[0].text));       /* so that it is not left out */
    assert_string_equal(script_unknown_part(part, sizeof part, s.arguments.word[0].text), "${Z[b]}");
    script_close(&s);
}

static void values_that_loops_make(void **state)
{
    (void)state;
    static const char text[] = "B=\"\"\nA=(1)\nD=x\nfor f in a b; do B=\"$B 1 $f\"; if true; then A+=($f); fi; D=y; C+=z; done\npython t.py $B ${A[@]} $C $D\n";
    static const char *const parts[] = { "${B}, made by a loop,", "${A}, made by a loop,", "${C}, made by a loop," };
    char part[64];
    Script s;
    assert_ok(script_read(&s, put(text, sizeof text - 1), 0, NULL));
    assert_int_equal(s.arguments.count, 4);
    for (int i = 0; i < 3; i++) {
        assert_false(script_unset(s.arguments.word[i].text));
        assert_string_equal(script_unknown_part(part, sizeof part, s.arguments.word[i].text), parts[i]);
    }
    assert_string_equal(s.arguments.word[3].text, "x");
    script_close(&s);
}

/* A condition that is not known is taken as false; what its branches set is not known behind them. */
static void values_under_unknown_conditions(void **state)
{
    (void)state;
    static const char text[] = "H=1 A=(--a 1) S='--s 2' K=3 E=4\nf() { H=2; }\n"
                               "if grep -q x y; then f; A+=(--b); export S=\"$S --t\"; else E=5; I=$E; fi\n"
                               "if [[ $H == 2 ]]; then K=4; fi\nif [ \"$(hostname)\" = x ]; then L=1; fi\n"
                               "python t.py $I $H ${A[@]} $S $K $E $L\n";
    static const struct { int word; const char *part; } row[] = {
        { 1, "${H}, set under a condition that is not known," }, { 4, "${A}, set under a condition that is not known," },
        { 7, "${S}, set under a condition that is not known," }, { 8, "${K}, set under a condition that is not known," },
        { 9, "${E}, set under a condition that is not known," }, { 10, "${L}, set under a condition that is not known," },
    };
    char part[64];
    Script s;
    assert_ok(script_read(&s, put(text, sizeof text - 1), 0, NULL));
    assert_int_equal(s.arguments.count, 11);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        assert_string_equal(script_unknown_part(part, sizeof part, s.arguments.word[row[i].word].text), row[i].part);
    assert_string_equal(s.arguments.word[3].text, "1");                     /* what was there before stays */
    assert_string_equal(s.arguments.word[6].text, "2");
    assert_true(!strncmp(s.arguments.word[4].text, "--", 2) && !strncmp(s.arguments.word[7].text, "--", 2));
    script_close(&s);
    static const char loop[] = "f() { A=\"$A x\"; }\nA=1\nfor i in 1 2; do f; done\npython t.py $A\n";
    assert_ok(script_read(&s, put(loop, sizeof loop - 1), 0, NULL));
    assert_string_equal(script_unknown_part(part, sizeof part, s.arguments.word[0].text), "${A}, made by a loop,");
    script_close(&s);
}

static void files_of_here_documents(void **state)
{
    (void)state;
    static const char text[] = "Z=1\nCFG=ds.json\ncat <<EOT > $CFG\n{ \"stage\": $Z, \"x\": \"$Z\" }\nEOT\ncat > q <<'E'\n$Z\nE\npython t.py --c $CFG\n";
    Script s;
    assert_ok(script_read(&s, put(text, sizeof text - 1), 0, NULL));
    assert_int_equal(s.files, 2);
    assert_string_equal(s.file[0].name, "ds.json");
    assert_string_equal(s.file[0].text, "{ \"stage\": 1, \"x\": \"1\" }\n");
    assert_string_equal(s.file[1].text, "$Z\n");
    script_close(&s);
}

static char *repeated(const char *what, int times, const char *then)
{
    size_t letters = strlen(what);
    char *text = malloc(letters * (size_t)times + strlen(then) + 1);
    for (int i = 0; i < times; i++) memcpy(text + letters * (size_t)i, what, letters);
    strcpy(text + letters * (size_t)times, then);
    return text;
}

static void wrong_and_hostile(void **state)
{
    (void)state;
    static const struct { const char *what; int times; const char *then, *says; } row[] = {
        { "", 0, "echo hello\n",                     ":1: no command line of a .py program is found" },
        { "", 0, "\npython t.py \"a\n",              ":2: a \" is not closed" },
        { "", 0, "python t.py 'a\n",                 "a ' is not closed" },
        { "", 0, "python t.py --a 1 \\\n --b \\ \t\n --c\n", ":2: a blank follows the \\ at the end of this line" },
        { "", 0, "A=( --a 1 \\ \r\n --b )\npython t.py\n", ":1: a blank follows the \\ at the end of this line" },
        { "", 0, "python t.py $(a\n",                "a $( is not closed" },
        { "", 0, "python t.py ${a\n",                "a ${ is not closed" },
        { "", 0, "A=(1 2\npython t.py\n",            "the ( of an array is not closed" },
        { "", 0, "if true; then\npython t.py\n",     "what begins here has no end" },
        { "", 0, "fi\npython t.py\n",                "fi has no beginning" },
        { "", 0, "case x\npython t.py\n",            "case has no in" },
        { "", 0, "cat <<E\npython t.py\n",           "<<E has no end" },
        { "", 0, "python t.py \x01$A\x02\n",         "it is no text: byte 1" },
        { "( ", 100, "\n",                           "nested more than 64 deep" },
        { "if ", 100, "\n",                          "nested more than 64 deep" },
        { "$(", 5000, "\n",                          "nested more than 24 deep" },
        { "A=${A:-", 5000, "\n",                     "nested more than 24 deep" },
        { "A=\"$A$A\"\n", 0, "A=xxxxxxxx\nA=$A$A$A$A$A$A$A$A\nA=$A$A$A$A$A$A$A$A\nA=$A$A$A$A$A$A$A$A\nA=$A$A$A$A$A$A$A$A\nA=$A$A$A$A$A$A$A$A\nA=$A$A$A$A$A$A$A$A\n"
                             "A=$A$A$A$A$A$A$A$A\n", "more than 1048576 bytes" },
        { "A+=(\"${A[@]}\" x)\n", 40, "python t.py\n", "arrays hold more than 32 MiB" },
        { "A+=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", 9000, "\n",
          "variables hold more than 32 MiB" },
        { "A='eval $A'\neval $A\n", 1, "python t.py\n", "nested more than 24 deep" },
        { "f() { f; }\n", 1,  "f\npython t.py\n",   "calls of functions are nested more than 24 deep" },
        { "", 0, "a() { :; :; :; }\nb() { a;a;a;a;a;a;a;a; }\nc() { b;b;b;b;b;b;b;b; }\nd() { c;c;c;c;c;c;c;c; }\ne() { d;d;d;d;d;d;d;d; }\n"
                 "f() { e;e;e;e;e;e;e;e; }\nf\npython t.py\n", "its functions are called too often" },
        { "x", 1100000, "\n",                        "a script has at most 1 MiB" },
    };
    Script s;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char *text = repeated(row[i].what, row[i].times, row[i].then);
        assert_says(script_read(&s, put(text, strlen(text)), 0, NULL), BAD_FILE, row[i].says);
        free(text);
    }
    assert_says(script_read(&s, put("python t.py\0x", 13), 0, NULL), BAD_FILE, "byte 0");
    assert_says(script_read(&s, "/nowhere/x.sh", 0, NULL), BAD_FILE, "/nowhere/x.sh");
    char names[16000] = "", *at = names;
    for (int i = 0; i < 1100; i++) at += sprintf(at, "A%d=1\n", i);
    assert_says(script_read(&s, put(names, strlen(names)), 0, NULL), BAD_FILE, "more than 1024 variables");
    static const char stars[] = "A=${B:-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}\n"
                                "case $A in *a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b) ;; esac\npython t.py ${A%*a*a*a*a*a*a*b}\n";
    assert_ok(script_read(&s, put(stars, sizeof stars - 1), 0, NULL));
    script_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_give_words), cmocka_unit_test(words_keep_their_lines), cmocka_unit_test(unknown_parts),
        cmocka_unit_test(elements_that_are_not_there), cmocka_unit_test(values_that_loops_make),
        cmocka_unit_test(values_under_unknown_conditions),
        cmocka_unit_test(files_of_here_documents), cmocka_unit_test(wrong_and_hostile),
    };
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    remove(put("", 0));
    return status;
}
