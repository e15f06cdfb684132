# The program in the place of python, torchrun, srun, docker and their like in a run, read by bash -p behind a
# line that sets
#   JOTUN_RUN      the private folder, in whose bin/ all names are links to this file
#   JOTUN_ANSWERS  which answers it gives: 0 a line, 1 and what the script looks for, 2 none, 3 a large number
# It writes down its words and starts nothing, but the program that a wrapper (srun, docker run, uv run) was
# to start, which is a recorder again or bash. A call of the file `missing` is for a program that nobody has,
# whose name is the first word.
#
# A record is a list of texts that end with NUL: CALL, name, folder, bytes of the trace, processes from this
# one upward, number of words, the words, number of files, and of each file its path and text. Variables have
# names that no script exports, since what a wrapper starts would see them.
JOTUN_NAME=${0##*/}
if [[ $JOTUN_NAME == missing && $# -gt 0 ]]; then
  JOTUN_NAME=${1##*/}
  shift
fi
JOTUN_PASSING=" bash env nohup timeout nice time stdbuf setsid xargs taskset " # they are themselves otherwise
# These start a program of ours only where a word says that it is no Python program.
JOTUN_ENDS=" ipython torchrun deepspeed accelerate horovodrun pip pip3 wget curl scp rsync aria2c module ml "
JOTUN_ENDS+="nvidia-smi rocm-smi amd-smi xpu-smi scontrol sinfo squeue sacct scancel "

is_python() { [[ $1 =~ ^python[0-9.]*$ ]]; }
is_recorded() { [[ -n $1 && -L $JOTUN_RUN/bin/$1 ]]; }
starts() { is_python "$1" || is_recorded "$1" || [[ $JOTUN_PASSING == *" $1 "* ]]; }

record() {
  local LC_ALL=C JOTUN_PID=$$ JOTUN_PIDS='' JOTUN_TEXT JOTUN_FILES=()
  while ((JOTUN_PID > 1 && ${#JOTUN_PIDS} < 200)); do
    JOTUN_PIDS+="$JOTUN_PID "
    JOTUN_TEXT=''
    read -r JOTUN_TEXT <"/proc/$JOTUN_PID/stat"
    if [[ $JOTUN_TEXT =~ \)\ [A-Za-z]\ ([0-9]+)\ [^\)]*$ ]]; then
      JOTUN_PID=${BASH_REMATCH[1]}
    else # of others it is closed in some places
      ((JOTUN_PID == $$)) && JOTUN_PID=$PPID || break
    fi
  done
  for JOTUN_AT; do # JSON files as they are now
    [[ $JOTUN_AT == -*=* ]] && JOTUN_AT=${JOTUN_AT#*=}
    [[ $JOTUN_AT =~ \.(json|ya?ml)$ && -f $JOTUN_AT && -r $JOTUN_AT ]] || continue
    ((${#JOTUN_FILES[@]} < 32)) || break
    JOTUN_TEXT=''
    IFS= read -r -d '' -n 1048577 JOTUN_TEXT <"$JOTUN_AT"
    ((${#JOTUN_TEXT} > 1048576)) || JOTUN_FILES+=("$JOTUN_AT" "$JOTUN_TEXT")
  done
  JOTUN_TEXT=$(command -p wc -c <"$JOTUN_RUN/trace")
  {
    command -p flock 9
    printf '%s\0' CALL "$JOTUN_NAME" "$PWD" "${JOTUN_TEXT:-0}" "$JOTUN_PIDS" $# "$@" \
      $((${#JOTUN_FILES[@]} / 2)) "${JOTUN_FILES[@]}"
  } 9>>"$JOTUN_RUN/calls" >&9
} 2>/dev/null

become() { # NAME WORD...: a recorder, or the program itself where it is here
  JOTUN_AT=$1
  shift
  [[ $JOTUN_AT == sh ]] && JOTUN_AT=bash
  is_python "$JOTUN_AT" && ! is_recorded "$JOTUN_AT" && JOTUN_AT=python
  is_recorded "$JOTUN_AT" && exec "$JOTUN_RUN/bin/$JOTUN_AT" "$@"
  type -P -- "$JOTUN_AT" >/dev/null && exec "$JOTUN_AT" "$@"
}

is_script() {
  [[ -f $1 ]] || return
  [[ $1 =~ \.(sh|bash|sbatch|slurm|lsf|pbs|job)$ ]] && return
  read -r -n 64 JOTUN_AT <"$1"
  [[ $JOTUN_AT == '#!'*sh* ]]
} 2>/dev/null

is_command() { # a word that is a whole command: of ssh, of --wrap
  local IFS=$' \t\n;&|('
  [[ $1 == *' '* ]] || return
  set -f
  for JOTUN_AT in $1; do
    starts "${JOTUN_AT##*/}" && return
    [[ $JOTUN_AT == *.sh ]] && return
  done
  return 1
}

go_on() { # what a wrapper starts
  case $JOTUN_NAME in
  sbatch | qsub | bsub) # a script that is not in a job submits itself; other runs have other numbers
    JOTUN_KIND=queue
    export SLURM_JOB_ID=${SLURM_JOB_ID-1} SLURM_JOBID=${SLURM_JOBID-1}
    export PBS_JOBID=${PBS_JOBID-1} LSB_JOBID=${LSB_JOBID-1}
    ;;
  ssh | pdsh | clush) JOTUN_KIND=remote ;;
  *) JOTUN_KIND='' ;;
  esac
  for ((JOTUN_I = 1; JOTUN_I <= $#; JOTUN_I++)); do
    JOTUN_WORD=${!JOTUN_I}
    case $JOTUN_KIND$JOTUN_WORD in
    queue--wrap=*) exec "$BASH" -c "${JOTUN_WORD#--wrap=}" ;;
    queue--wrap) exec "$BASH" -c "${*:JOTUN_I+1:1}" ;;
    esac
    if [[ $JOTUN_KIND ]] && is_command "$JOTUN_WORD"; then exec "$BASH" -c "$JOTUN_WORD"; fi
    if starts "${JOTUN_WORD##*/}"; then become "${JOTUN_WORD##*/}" "${@:JOTUN_I+1}"; fi
    if [[ $JOTUN_WORD == *.py ]]; then become python "${@:JOTUN_I}"; fi
    if [[ $JOTUN_WORD != -* ]] && is_script "$JOTUN_WORD"; then exec "$BASH" "${@:JOTUN_I}"; fi
  done
  if [[ $JOTUN_KIND == queue ]]; then exec "$BASH"; fi # a script on its standard input
}

case $JOTUN_NAME in
sh | bash) exec "$BASH" "$@" ;;
sleep) exit 0 ;;
esac
record "$@"
JOTUN_ALL=" $* "
is_python "$JOTUN_NAME" && JOTUN_ENDS=" $JOTUN_NAME "
[[ $JOTUN_ENDS == *" $JOTUN_NAME "* && $JOTUN_ALL != *" --no"[-_]"python "* ]] || go_on "$@"
case $JOTUN_ANSWERS$JOTUN_NAME in # those that list GPUs or hosts say as many lines as there are
1nvidia-smi | 1rocm-smi | 1amd-smi | 1xpu-smi | 1scontrol | 1sinfo | 1squeue | 1lspci) printf '6\n%.0s' {1..8} ;;
3nvidia-smi | 3rocm-smi | 3amd-smi | 3xpu-smi | 3sinfo | 3squeue | 3lspci) printf '4097\n%.0s' {1..1000} ;;
3scontrol) printf '4097\n%.0s' {1..64} ;; # in which loops start something on each host
0*) echo 4 ;; 1*) echo 6 ;; 3*) echo 4097 ;;
esac
((JOTUN_ANSWERS != 1)) || command -p cat "$JOTUN_RUN/patterns"
((JOTUN_ANSWERS != 2)) || [[ $JOTUN_ALL == *.py\ * ]] # a training ends well, whatever comes after it
