# Read by every bash of a run before its script (BASH_ENV), after lines that set the private folder and
# whether the run is lenient. It finds programs that this machine lacks, and traces each command with its
# process, file and line.
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 401)); then
  printf 'OLD\0' >>"$JOTUN_RUN/calls"
  exit 99
fi
command_not_found_handle() {
  local name=${1##*/}
  if [ -e "$JOTUN_RUN/bin/$name" ]; then
    shift
    exec "$JOTUN_RUN/bin/$name" "$@"        # the script has set a PATH without ours
  fi
  exec "$JOTUN_RUN/missing" "$@"
}
# A function is found whatever PATH the script sets, and also where that has a real program of the name.
for JOTUN_NAME in "$JOTUN_RUN"/bin/*; do
  eval "${JOTUN_NAME##*/}() { $JOTUN_NAME \"\$@\"; }"
done
unset JOTUN_NAME
exec {BASH_XTRACEFD}>>"$JOTUN_RUN/trace"
# Copies of the first letter tell how deep a substitution is; then process, file and line.
PS4=$'\1$BASHPID\2$BASH_SOURCE\2$LINENO\2'
set -T
JOTUN_TRAP='set -x'                         # before each command: a script's own `set +x` would end the trace
if [ -n "$JOTUN_LENIENT" ]; then
  exit() { return 0; }                      # the trace has each call of it
  cd() { builtin cd "$@" || : JOTUN_FAILED $? "cd $*"; }
  shopt -s execfail
  set -E
  JOTUN_TRAP='set +eu -x'
fi
if [ -n "$JOTUN_EXEC" ]; then               # real programs are not covered here: exec starts their recorders
  JOTUN_TRAP='set +x
  case $BASH_COMMAND in "exec "[a-zA-Z/\$\"]*)
    JOTUN_REST=${BASH_COMMAND#exec }
    JOTUN_WORD=${JOTUN_REST%% *}
    JOTUN_REST=${JOTUN_REST#"$JOTUN_WORD"}
    eval "JOTUN_WORD=$JOTUN_WORD"
    [ -e "$JOTUN_RUN/bin/${JOTUN_WORD##*/}" ] && eval "exec $JOTUN_RUN/bin/${JOTUN_WORD##*/} $JOTUN_REST" ;;
  esac
  '$JOTUN_TRAP
fi
trap ': JOTUN_FAILED $? "$BASH_COMMAND"' ERR
trap "$JOTUN_TRAP" DEBUG
unset JOTUN_TRAP JOTUN_EXEC
set -x
