#!/bin/sh
# Between two agreements no rank returns early from a function with a collective in it.
#   1  model, optim, parallel (but for its pure files, which judge options) and train/step.c, step_sums.c neither TRY nor return fail.
#   2  In train and cli, a function that talks to other ranks may TRY what was agreed, TRY(agree( or a function below that agrees before
#      it returns, and what is the same on every rank: a pure function below, or a line that says "same on every rank".
# usage: agreements.sh ROOT
cd "$1/src" || exit 1
agreed='agree_on|agree_on_text|agree_on_data|agree_on_options|agree_at_start|setup_agree|setup_agree_on|setup_options|evaluate|trainer_start|trainer_open|trainer_load|trainer_save|checkpoint_save|watchdog_open|save'
pure='mesh_make|options_parse|transport_mpi_open|comm_world|comm_world_sums'        # before the last four there is nothing to agree in
talks='agree|comm_(all_gather|reduce_scatter|all_reduce|send_begin|recv_begin|barrier)|trainer_(step|evaluate|join_flags|gradients)|loop_run'
status=0
found=$(grep -rnE '\<TRY\(|\<return fail\(' model optim parallel train/step.c train/step_sums.c --include='*.c' --include='*.h' |
        grep -vE '^parallel/(stage|stage_split|channels|schedule[a-z_]*)\.[ch]:')
if [ -n "$found" ]; then
    echo "$found" | sed 's/^/no early return within a step: /'
    status=1
fi
# cmd_generate runs on one rank
find train cli -name '*.c' ! -name cmd_generate.c | sort | xargs awk -v try="(^|[^A-Z_])TRY\\\\(" -v fine="TRY\\\\((agree|$agreed|$pure)\\\\(|same (answer )?on every rank" \
    -v talks="<->|(^|[^a-z_])($talks|$agreed)\\\\(" '
/^\{/ { inside = 1 }
inside && $0 ~ talks { speaks = 1 }
inside && $0 ~ try { seen++ }
inside && $0 ~ try && $0 !~ fine { bare[++count] = FILENAME ":" FNR ": " $0 }
/^\}/ {
    for (i = 1; speaks && i <= count; i++) { print "neither agreed nor \"same on every rank\": " bare[i]; bad = 1 }
    speaks = count = inside = 0
}
END {
    if (!seen) { print "no TRY in train and cli: nothing was looked at"; bad = 1 }
    exit bad
}' || status=1
[ $status = 0 ] && echo "no early returns between joints"
exit $status
