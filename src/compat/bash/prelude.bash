# Read by every bash of a run before its script (BASH_ENV), behind a line that sets
#   JOTUN_RUN      the private folder
#   JOTUN_LENIENT  failures and exits are skipped
#   JOTUN_HOST     the name of the host
#   JOTUN_FILE     what readers say of files that are not there, where none can be made
#   JOTUN_ANSWERS  which answers programs give; others than 0 have other times and random numbers, too
#   JOTUN_TRACE    -x, or +x in a run that is not traced
# It finds programs that this machine lacks, and traces each command with its process, file and line.
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 401)); then
  printf 'OLD\0' >>"$JOTUN_RUN/calls"
  exit 99
fi
command_not_found_handle() { exec "$JOTUN_RUN/missing" "$@"; }
# A function is found whatever PATH the script sets, and also where that has a real program of the name.
for JOTUN_WORD in "$JOTUN_RUN"/bin/*; do
  [ ! -x "$JOTUN_WORD" ] || eval "${JOTUN_WORD##*/}() { $JOTUN_WORD \"\$@\"; }"
done
for JOTUN_WORD in ${JOTUN_FILE:+cat head tail jq wc sed awk}; do
  eval "$JOTUN_WORD() { command $JOTUN_WORD \"\$@\" || echo $JOTUN_FILE; }"
done
[ -z "$JOTUN_HOST" ] || HOSTNAME=$JOTUN_HOST
if ((JOTUN_ANSWERS)); then
  for JOTUN_WORD in RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME; do
    unset "$JOTUN_WORD"
    eval "$JOTUN_WORD=$((1000000 + JOTUN_ANSWERS))"
  done
  eval "date() { command date -d @$((500000001 * JOTUN_ANSWERS)) \"\$@\"; }"
  # which seeds by the second, and all runs lie in one
  eval "awk() { command awk \"\${@//srand()/srand($JOTUN_ANSWERS)}\" ${JOTUN_FILE:+|| echo $JOTUN_FILE}; }"
fi
env() {                                     # env -i has no PATH by which it finds a recorder
  local JOTUN_I
  for ((JOTUN_I = 1; JOTUN_I <= $#; JOTUN_I++)); do
    case ${!JOTUN_I} in
    -u | -C) ((JOTUN_I++)) ;;
    -* | *=*) ;;
    *) break ;;
    esac
  done
  if ((JOTUN_I <= $#)) && [ -f "$JOTUN_RUN/bin/${!JOTUN_I##*/}" ]; then
    set -- "${@:1:JOTUN_I-1}" "$JOTUN_RUN/bin/${!JOTUN_I##*/}" "${@:JOTUN_I+1}"
  fi
  command -p env "$@"
}
eval "jotun_trace() { set $JOTUN_TRACE; }"
# Before each command, in one line, since each line has a number. A script's own `set +x` would end the trace,
# and its PATH hide the recorders. A program by its path (/opt/x/bin/python, $PYTHON) is not here or is a real
# one: a function of that name starts its recorder; `exec`, which looks for no functions, is done here.
# $JOTUN_LEAD are the assignments before the program, of which each ends at a blank, or behind a quote or closed
# expansion; $JOTUN_WORD is the path, as far as that can be known without running anything. $_ stays as it is.
JOTUN_TRAP='JOTUN_LAST=$_; set +x;
  case ${PATH-$JOTUN_RUN/bin:} in "$JOTUN_RUN/bin":*) ;; *) PATH=$JOTUN_RUN/bin:$PATH ;; esac;
  case $BASH_COMMAND in *[/\$]* | *"exec "*)
    JOTUN_REST=$BASH_COMMAND JOTUN_WORD=;
    while
      JOTUN_FIRST=${JOTUN_REST%%[[:space:]]*};
      case $JOTUN_FIRST in
      [A-Za-z_]*=[\"\'\'']*)
        JOTUN_REST=${JOTUN_REST#*=}; JOTUN_FIRST=${JOTUN_REST:0:1};
        JOTUN_REST=${JOTUN_REST#?};
        JOTUN_REST=${JOTUN_REST#*"$JOTUN_FIRST"} ;;
      [A-Za-z_]*=*[\(\{]*) JOTUN_FIRST=${JOTUN_FIRST##*[\(\{]}; [ "$JOTUN_FIRST" != "${JOTUN_FIRST%[\)\}]*}" ] ;;
      [A-Za-z_]*=*) ;;
      *) false ;;
      esac;
    do
      JOTUN_REST=${JOTUN_REST#"${JOTUN_REST%%[[:space:]]*}"};
      JOTUN_REST=${JOTUN_REST#[[:space:]]};
    done;
    JOTUN_LEAD=${BASH_COMMAND%"$JOTUN_REST"};
    JOTUN_REST=${JOTUN_REST#exec };
    JOTUN_FIRST=${JOTUN_REST%%[[:space:]]*};
    JOTUN_REST=${JOTUN_REST#"$JOTUN_FIRST"};
    case $JOTUN_FIRST in
    *[\(\`\;\<\>\&\|]* | -*) ;;
    *) eval "JOTUN_WORD=$JOTUN_FIRST" 2>/dev/null || : ;;
    esac;
    JOTUN_WORD=${JOTUN_WORD%%[[:space:]]*};
    JOTUN_AT=$JOTUN_RUN/bin/${JOTUN_WORD##*/};
    case ${JOTUN_WORD##*/} in
    python[0-9.]*) [ -f "$JOTUN_AT" ] || JOTUN_AT=$JOTUN_RUN/bin/python ;;
    env) JOTUN_AT=env ;;
    esac;
    case $JOTUN_WORD in
    "" | "$JOTUN_RUN"/* | *[!A-Za-z0-9_./+@%,-]*) ;;
    *)
      case ${BASH_COMMAND#"$JOTUN_LEAD"} in
      "exec "*) [ ! -f "$JOTUN_AT" ] || eval "jotun_trace; $JOTUN_LEAD exec $JOTUN_AT $JOTUN_REST" ;;
      *) case $JOTUN_WORD in */*)
          [ ! -f "$JOTUN_AT" ] && [ "$JOTUN_AT" != env ] ||
            eval "function $JOTUN_WORD { $JOTUN_AT \"\$@\"; }" ;;
        esac ;;
      esac ;;
    esac ;;
  esac;
  jotun_trace "$JOTUN_LAST"'
[ -z "$JOTUN_LENIENT" ] || JOTUN_TRAP=${JOTUN_TRAP/set +x;/set +x; set +eu;}
JOTUN_TRAP=${JOTUN_TRAP//$'\n'/ }
if [ -n "$JOTUN_LENIENT" ]; then
  exit() { return 0; }                      # the trace has each call of it
  cd() { builtin cd "$@" || : JOTUN_FAILED $? "cd $*"; }
  shopt -s execfail
  set -E
fi
exec {BASH_XTRACEFD}>>"$JOTUN_RUN/trace"
# Copies of the first letter tell how deep a substitution is; then process, file and line.
PS4=$'\1$BASHPID\2$BASH_SOURCE\2$LINENO\2'
set -T
trap ': JOTUN_FAILED $? "$BASH_COMMAND"' ERR
trap "$JOTUN_TRAP" DEBUG
unset JOTUN_TRAP JOTUN_WORD JOTUN_HOST JOTUN_FILE JOTUN_ANSWERS JOTUN_TRACE
jotun_trace
