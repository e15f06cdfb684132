#!/bin/sh
# In model, parallel and train, a line which talks to other ranks wears the mark <->.
# usage: comm_marks.sh ROOT
cd "$1/src" || exit 1
calls='\<(comm_all_gather|comm_all_gather_begin|comm_reduce_scatter|comm_all_reduce|comm_all_reduce_max|comm_send_begin|comm_recv_begin|tp_enter_(for|back)ward|tp_leave_(for|back)ward|(ring|gather|core_attention)_(for|back)ward|core_attention_enter|ulysses_(enter|leave)|comm_all_to_all(_begin)?)\('
lines=$(grep -rnE "^ .*$calls" model parallel train --include='*.c')     # definitions begin at the margin
if [ -z "$lines" ]; then
    echo "no collectives in model, parallel and train: nothing was looked at"
    exit 1
fi
bare=$(echo "$lines" | grep -v '<->')
if [ -n "$bare" ]; then
    echo "$bare" | sed 's/^/no mark <-> on a line which talks: /'
    exit 1
fi
echo "$(echo "$lines" | wc -l) lines talk to other ranks, all marked"
