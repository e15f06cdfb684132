"""Plants bugs, one at a time, in a copy of the tree, and sees that the named test fails for each.

    bugs.py SOURCE [WORD...]        those of QUICK, all with JOTUN_FULL, or those whose name holds one of the words
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

# name; file; what stands there (exactly once); what the bug makes of it; the test that must fail
BUGS = [
    ("a bias gradient dropped", "src/model/mlp.c",
     "if (tensor_present(db_W)) bias_backward", "if (tensor_present(db_W) && T_never()) bias_backward", "train.gradient_test"),
    ("replicated gradients not summed over tp", "src/model/params.c",
     "if (ranks->sequence_parallel && tp.size > 1) p.sum", "if (ranks->sequence_parallel && tp.size > 99) p.sum", "train.layout_test"),
    ("gradients reduced over the wrong axis", "src/train/trainer_comms.c",
     "TRY(open_axes(t, &t->data_comm, AXIS_DP | AXIS_CP));", "TRY(open_axes(t, &t->data_comm, AXIS_DP));", "train.layout_test"),
    ("shards of one replica not summed with the others'", "src/parallel/background_sums.c",
     "if (final) replicas_begin(b, k);", "if (final) k->replicas_summed = true;", "train.layout_test"),
    ("gradients of a key-value head's copies not summed", "src/model/params.c",
     "p->sum   = GRADIENT_OVER_KV;", "p->sum   = GRADIENT_COMPLETE;", "train.layout_test"),
    ("the last copy of a key-value head saved as well", "src/model/params.c",
     "p->saves = place.at % copies == 0;", "p->saves = place.at % copies == 0 || place.at == 3;", "model.params_test"),
    ("a shard that begins one element early", "src/parallel/buckets.c",
     "begin[r] = r * equal;", "begin[r] = r * equal - (r == 1 && d == 2);", "train.layout_test"),
    ("the second window of gradients sent from the first's place", "src/parallel/bucket_sums.c",
     ".x_N = tensor_flat(whole, k->begin[r] + w->at, count) });", ".x_N = tensor_flat(whole, k->begin[r] + (r > 0 ? w->at : 0), count) });", "train.shards_test"),
    ("shards that end within a granule", "src/parallel/buckets.c",
     "return at - low < high - at ? low : high;", "return at - low < high - at ? at : high;", "train.shards_test"),
    ("replicas that count the same part of a shard", "src/parallel/buckets.c",
     "part * comm_rank(k->comms.replica), left", "part * (comm_rank(k->comms.replica) & k->zero_stage < 1), left", "train.layout_test"),
    ("ranks of the other order numbered as in this one", "src/comm/mesh.c",
     "return place % inner + inner * (outer / mesh->size.dp + mesh->size.pp * (outer % mesh->size.dp));",
     "return place % inner + inner * (outer % mesh->size.pp * mesh->size.dp + outer / mesh->size.pp);", "comm.mesh_test"),
    ("ranks of the dry run in the stages of the default order", "src/plan/memory.c",
     ".stage = t.mesh.at.pp,", ".stage = rank / (world / config->pp),", "plan.dry_run"),
    ("the first rank of a stage taken from the default order", "src/plan/memory.c",
     "mesh_rank(&mesh, (MeshSize){ .pp = stage })", "stage * (world / config->pp)", "plan.dry_run"),
    ("the rank with the most memory looked for without its shard", "src/plan/largest.c",
     "int r = place[k->block.family] % comm_size(k->comms.shard);", "int r = place[k->block.family] * 0;", "plan.dry_run"),
    ("the rank with the most memory looked for without Muon's matrices", "src/plan/largest.c",
     "a->work >= b->work && ", "", "plan.dry_run"),
    ("the word embedding not summed over stages", "src/parallel/bucket_sums.c",
     "if (b->tied) comm_all_reduce", "if (b->tied && b->count < 0) comm_all_reduce", "train.layout_test"),
    ("nothing progresses within an operation", "src/train/trainer.c",
     "if (!config->no_overlap && t->queue.team) team_poll_hook", "if (config->no_overlap && t->queue.team) team_poll_hook",
     "train.overlap_within_test"),
    ("a ring that sends before it computes in any case", "src/train/trainer_comms.c",
     ".overlap = !t->config->no_overlap,", ".overlap = true,", "train.overlap_delay_test"),
    ("ring gradients not started at zero", "src/model/ring.c",
     "if (i == 1) fill_zero(q", "if (i < 0) fill_zero(q", "train.layout_test"),
    ("dropout keyed by the rank's own rows", "src/model/block.c",
     "    save->x_tC  = x_tC;", "    index_t = tensor_flat(ctx->batch->dropout_index_i, 0, x_tC.dim[0]);\n    save->x_tC  = x_tC;", "train.layout_test"),
    ("a gradient counted twice in the norm", "src/train/step.c",
     "if (!saves || from >= end) continue;", "if (from >= end) continue;", "train.layout_test"),
    ("attention recomputed with another dropout key", "src/model/block.c",
     "core_attention_forward(&again, layer, &save->core", "core_attention_forward(&again, layer + 1, &save->core", "train.recompute_test"),
    ("the mask of padded vocabulary off by one", "src/model/head.c",
     "left < held ? left : held }", "left < held ? left - 1 : held }", "train.layout_test"),
    ("a deferred weight gradient reads a save that is gone", "src/parallel/stage_executor.c",
     "deferred ? &slot->activations : executor->recomputed;", "executor->recomputed;", "train.recompute_test"),
    ("bf16 cut instead of rounded", "src/tensor/half.h",
     "(bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan", "bits >> 16, nan", "tensor.dtype_test"),
    ("the odd last number of a pair dropped", "src/tensor/cpu/gemm_kernel.inc",
     "return half[2 * k] | (2 * k + 1 < depth ? (GemmWord)half[2 * k + 1] << 16 : 0);",
     "return 2 * k + 1 < depth ? half[2 * k] | (GemmWord)half[2 * k + 1] << 16 : 0;", "tensor.gemm_test"),
    ("gradients scaled by the loss scale of the step before", "src/tensor/step_end.h",
     "    gradient_scale_set(s);\n    report[0]", "    if (s->skip) gradient_scale_set(s);\n    report[0]", "tensor.loss_scale_test"),
    ("the newest amax at a wrong place of its history", "src/tensor/fp8.c",
     "h[(length - 1) * step] = amax;", "h[length / 2 * step] = amax;", "tensor.fp8_test"),
    ("delayed scales of a rank's own amax", "src/train/trainer_fp8.c",
     "comm_all_reduce_max(t->fp8_comm, &t->queue, amax,", "if (t->step < 0) comm_all_reduce_max(t->fp8_comm, &t->queue, amax,", "train.precision_test"),
    ("current scales of a rank's own part", "src/model/linear.c",
     "comm_all_reduce_max(ctx->fp8->amax_comm, ctx->queue, amax_1,", "if (!ctx->queue) comm_all_reduce_max(ctx->fp8->amax_comm, ctx->queue, amax_1,", "train.precision_test"),
    ("an evaluation's amax in the history", "src/train/trainer_fp8.c",
     "if (t->fp8.rows > 0) fill_zero(", "if (t->fp8.rows < 0) fill_zero(", "train.evaluation_test"),
    ("a repeated forward without the scales of its last map", "src/model/block.c",
     "linear_forward_scales(ctx, save, LINEAR_DOWN, save->g_TF,", "if (ctx->drop && !ctx->drop) linear_forward_scales(ctx, save, LINEAR_DOWN, save->g_TF,", "train.recompute_test"),
    ("rounded parameters saved instead of master weights", "src/train/trainer_checkpoint.c",
     "add_weight(t, k, &list, p, counted, bucket_master(k), k->own_first);",
     "add_weight(t, k, &list, p, counted, bucket_own(k, k->weights), k->own_first);", "train.reshard_test"),
    ("copies of a replicated parameter rounded apart", "src/train/trainer_optimizer.c",
     ".site = random_key(0, param->name)", ".site = random_key(param->saves ? 0 : 1, param->name)", "train.reshard_test"),
    ("ZeRO 2 and 3 forget earlier micro-batches", "src/parallel/background_sums.c",
     "accumulate(b->queue, (Accumulate){ .y = k->grads, .x = f->part });", "copy_strided(b->queue, (CopyStrided){ .y = k->grads, .x = f->part });",
     "train.layout_test"),
    ("ZeRO 2 and 3 forget the first of three micro-batches", "src/parallel/zero.c",
     "accumulate(b->queue, (Accumulate){ .y = k->grads, .x = part });", "copy_strided(b->queue, (CopyStrided){ .y = k->grads, .x = part });",
     "layouts.drawn"),
    ("future keys seen in ring attention", "src/model/ring.c",
     "static int ring_rank(CoreLayout at, int by) { return", "static int ring_rank(CoreLayout at, int by) { if (by < -1) by = -1; return", "train.layout_test"),
    ("the late parts of joined sequences in the order of ranks", "src/model/core_attention.c",
     "(which == 0 ? j : 2 * n - 1 - j) * s, s)", "(which == 0 ? j : n + j) * s, s)", "model.core_attention_test"),
    ("the gradient of a copy of a key head replaces the others", "src/model/ulysses.c",
     "accumulate(ctx->queue, (Accumulate){ .y = mine, .x = part });", "copy_strided(ctx->queue, (CopyStrided){ .y = mine, .x = part });", "model.core_attention_test"),
    ("a visible ring step skipped", "src/model/core_attention.c",
     "return k0 < seen.end && k0 + keys > seen.first;", "return k0 + 1 < seen.end && k0 + keys > seen.first;", "model.core_attention_test"),
    ("the second part of a ring at a wrong position", "src/model/core_attention.c",
     "(which == 0 ? r : 2 * at.c - 1 - r) * (at.s / 2)", "(which == 0 ? r : at.c + r) * (at.s / 2)", "model.core_attention_test"),
    ("dropout of the first heads on every Ulysses rank", "src/model/core_attention.c",
     "(comm_rank(ctx->tp.comm) * u + context_rank(ulysses)) * H", "comm_rank(ctx->tp.comm) * u * H", "model.core_attention_test"),
    ("key ranges of a rank's own positions under Ulysses", "src/data/loader.c",
     "group = parts_of(config, config->cp_rank / u, u * s);", "group = parts_of(config, 0, u * s);", "data.loader_test"),
    ("gradients of keys and values rounded in each ring step", "src/model/ring.c",
     "ring_buffers_new(ctx, b.dkv, ctx->precision.statistic,", "ring_buffers_new(ctx, b.dkv, b.kv.dtype,", "model.core_attention_test"),
    ("cached keys one position early", "src/model/kv_cache.c",
     "0, i, 1), 1, used, s) });", "0, i, 1), 1, used > 0 ? used - 1 : 0, s) });", "serve.generate_test"),
    ("logits of the first shard of the vocabulary", "src/serve/generate.c",
     "int64_t at = v / V * all.stride[0] +", "int64_t at = v / V * 0 +", "serve.generate_test"),
    ("a prompt sees the keys that documents of the last batch left", "src/serve/session.c",
     ".seen = { whole->causal[0], whole->causal[1] }", ".seen = { whole->seen[0], whole->seen[1] }", "serve.generate_test"),
    ("positions of the first prompt for a whole batch", "src/serve/session.c",
     "position = row->count + row->made - 1;", "position = x->row->count + x->row->made - 1;", "serve.generate_test"),
    ("the keys of a later token cached by all context-parallel ranks", "src/serve/session.c",
     ".write = !read || comm_rank(g->cp) == x->step % cp_ranks(g) };", ".write = !read || x->step >= 0 };", "serve.generate_test"),
    ("cached keys of a third context-parallel rank forgotten", "src/model/kv_cache.c",
     "for (int64_t r = 1; r < R; r++) {", "for (int64_t r = 1; r < 2; r++) {", "serve.generate_test"),
    ("windows of the first data rank on all", "src/eval/windows.c",
     "(int64_t)micro * w->config.dp + w->config.dp_rank) * b", "(int64_t)micro * w->config.dp) * b", "train.evaluation_test"),
    ("a file not synced before its rename", "src/base/file.c",
     "do done = seam.sync(fd);", "do done = 0 * fd;", "store.crash_test"),
    ("replicated parameters written by two ranks", "src/train/trainer_checkpoint.c",
     "if (!k->block.param[p].saves) continue;", "", "train.layout_test"),
    ("a slot used again too early", "src/parallel/schedule_rows.c",
     "taken[slot] = true;", "taken[slot] = false;", "parallel.schedule_test"),
    ("gradients of more micro-batches than there are buffers", "src/parallel/schedule_rows.c",
     "if (t.micro >= b->buffers) emit_wait(", "if (t.micro > b->buffers) emit_wait(", "parallel.schedule_test"),
    ("chunks of a group in the wrong order backward", "src/parallel/schedule_order.c",
     "if (verb != FORWARD) chunk = shape->chunks - 1 - chunk;", "if (verb != FORWARD && !shape->group) chunk = shape->chunks - 1 - chunk;",
     "parallel.schedule_test"),
    ("a V's gradient read from the wrong buffer at its turn", "src/parallel/pipeline.c",
     "buffer_of(p, p->grad_out, row->chunk + 1, row->buffer)", "buffer_of(p, p->grad_out, row->chunk + 1, 0)", "train.layout_test"),
    ("a forward that does not wait for its input", "src/parallel/schedule_rows.c",
     "if (receives(b, t.chunk)) emit_wait(b, &save->recv);", "if (receives(b, t.chunk)) save->recv = -1;", "parallel.schedule_test"),
    ("a layer of an uneven stage left out", "src/parallel/stage_split.c",
     "v >= others - (n - best) % others", "v > others - (n - best) % others", "parallel.stage_test"),
    ("activations of all stages in one queue", "src/parallel/schedule_replay.c",
     "return r->cost->one_queue ? next : 2 * verb + next;", "return next;", "parallel.schedule_test"),
    ("Adam's bias correction one step late", "src/tensor/ref/optimizer.c",
     "(q->step_state->updates + 1), lr = ", "(q->step_state->updates + 2), lr = ", "train.parity_test"),
    ("LAMB: trust ratios from a rank's own part of a tensor", "src/optim/optimizer.c",
     "    comm_all_reduce(run->stage, q, run->sums_N, run->scratch);", "    (void)run->stage;", "train.optimizers_test"),
    ("LAMB: replicated tensors counted by every tp rank", "src/train/trainer_optimizer.c",
     "param->saves ? counted.count : 0", "counted.count", "train.optimizers_test"),
    ("LAMB: the second copy of a tied embedding without a norm", "src/train/trainer_optimizer.c",
     "k->counted_first, k->share_count);", "k->counted_first, k->counted_count);", "train.optimizers_test"),
    ("Muon: a tall matrix not transposed back", "src/optim/muon.c",
     "                      .stride = { 1, p->rows, 1, 1 } };", "                      .stride = { p->columns, 1, 1, 1 } };", "train.optimizers_test"),
    ("Muon: momentum taken before it is updated", "src/tensor/ref/optimizer.c",
     "*g = a->nesterov ? a->momentum * *m + part : *m;", "*g = a->nesterov ? a->momentum * (*m - part) + part : *m;", "train.optimizers_test"),
    ("Muon: ZeRO cuts within matrices", "src/optim/optimizer.c",
     "if (!param_is_layer_matrix(param)) return 1;", "if (param->dims > 0) return 1;", "train.optimizers_test"),
    ("Muon: parts of a matrix joined in another order", "src/optim/muon.c",
     "            .x = tensor_view(tensor_flat(parts, r * part, part), p->local_rows, p->local_columns) });",
     "            .x = tensor_view(tensor_flat(parts, (ranks - 1 - r) * part, part), p->local_rows, p->local_columns) });", "train.optimizers_test"),
    ("Muon: one norm for all experts", "src/optim/muon.c",
     "group[count++] = (MuonMatrix){ p, p->first_matrix + (p->first + at) / matrix, at };", "group[count++] = (MuonMatrix){ p, p->first_matrix, at };", "optim.muon_test"),
    ("a state saved under the name of another", "src/train/trainer_checkpoint.c",
     "shards_add(t, list, shard, piece->rule->state[s].name, piece->state[s], piece->first, 0);",
     "shards_add(t, list, shard, piece->rule->state[s].name, piece->state[0], piece->first, 0);", "train.reshard_test"),
    ("random bits of rounding by the place in the rank's part", "src/tensor/cpu/states.h",
     "        if (p->columns > 0) {", "        if (p->columns < 0) {", "tensor.ops_law_test"),
    ("an order of samples that knows the layout", "src/data/loader.c",
     "loader->shift + step * config->global + first", "loader->shift + step * config->global / config->cp + first",
     "data.loader_test"),
    ("a smaller last group added as a full one", "src/comm/host_sum.c",
     "add_rows(sum, queue, out, rows, o->members, range.count);", "add_rows(sum, queue, out, rows, o->group_size, range.count);", "comm.collective_test"),
    ("groups added in the order of arrival", "src/comm/host_sum.c",
     "sum->arrived + from * own.count * sum->width", "sum->arrived + (o->group + round.along) % o->groups * own.count * sum->width", "comm.collective_test"),
    ("the last window of a part as long as the others", "src/comm/host_sum.c",
     "return (Range){ part.first + skip, left < sum->elements ? left : sum->elements };", "return (Range){ part.first + skip, sum->elements < part.count ? sum->elements : part.count };", "comm.collective_test"),
    ("unequal parts taken for equal ones", "src/comm/sum_order.h",
     "return at ? at[p] : first", "return at && p < 2 ? at[p] : first", "comm.collective_test"),
    ("a sum in the background not waited for", "src/parallel/background_sums.c",
     "    comm_wait(f->comm, f->pending);", "    if (b->count < 0) comm_wait(f->comm, f->pending);", "train.layout_test"),
    ("gradients overwritten while they are summed", "src/parallel/zero.c",
     "buckets_wait_sums(b, b->turn);", "buckets_wait_sums(b, 2);", "train.layout_test"),
    ("the head's weights gathered for a forward that reads none", "src/parallel/stage_executor.c",
     "!= UNIT_HEAD || !executor->ctx.backward_follows;", "!= UNIT_HEAD || executor->slots > 0;", "train.traffic_test"),
    ("sums over replicas left for the end of the step", "src/parallel/background_sums.c",
     "if (final) replicas_begin(b, k);", "if (final && k->zero_stage == 0) replicas_begin(b, k);", "train.overlap_delay_test"),
    ("an embedding summed before the last unit that uses it", "src/parallel/background_sums.c",
     "k->zero_stage >= 2 || k->last_unit != unit) continue;", "k->zero_stage >= 2) continue;", "train.overlap_test"),
    ("gradients summed in the background of the last unit alone", "src/parallel/stage_executor.c",
     "if (executor->final) buckets_reduce_begin", "if (executor->final && unit == 0) buckets_reduce_begin", "train.overlap_delay_test"),
    ("weights not gathered ahead", "src/parallel/zero.c",
     "if (b->overlap && unit_sharded(b, unit, 3)) gather_unit", "if (b->overlap && unit < 2 && unit_sharded(b, unit, 3)) gather_unit",
     "train.overlap_delay_test"),
    ("updated weights waited for one by one", "src/train/step.c",
     "if (!t->buckets.overlap) bucket_gathered(k);", "if (i >= 0) bucket_gathered(k);", "train.overlap_delay_test"),
    ("sums of tensor parallelism waited for before the weight gradients", "src/model/mlp.c",
     "    mlp_backward_weight(ctx, ctx->beside, save);                                       /* <-> tp */\n    comm_wait(ctx->tp.comm, pending);",
     "    comm_wait(ctx->tp.comm, pending);\n    mlp_backward_weight(ctx, ctx->beside, save);", "train.overlap_delay_test"),
    ("weights read before they are gathered", "src/parallel/zero.c",
     "if (k) bucket_gathered(k);", "if (k && b->count < 0) bucket_gathered(k);", "train.layout_test"),
    ("gradients summed before the last micro-batch", "src/parallel/pipeline.c",
     "row->verb != FORWARD && again == s->rows;", "row->verb != FORWARD;", "train.layout_test"),
    ("the input's gradient used before tp has summed it", "src/model/mlp.c",
     "    comm_wait(ctx->tp.comm, pending);", "    if (!ctx->beside) comm_wait(ctx->tp.comm, pending);", "train.layout_test"),
    ("reductions in flight with one tag", "src/comm/host_sum.c",
     "(int)(call->number % (TRANSPORT_TAGS - TAG_SUM))", "(int)(call->number % 1)", "comm.collective_test"),
    ("results of experts sent back twice", "src/model/dispatch.c",
     "    return begun(ctx, comm_all_to_all_begin(ctx->moe->dispatch, ctx->queue,       /*",
     "    comm_all_to_all(ctx->moe->dispatch, ctx->queue, rows_NC, offsets(ctx, z, true, q), y_MC, offsets(ctx, z, false, q));\n"
     "    return begun(ctx, comm_all_to_all_begin(ctx->moe->dispatch, ctx->queue,       /*", "layouts.drawn"),
    ("Muon: one rank iterates all matrices", "src/optim/muon.c",
     "most = cut ? comm_size(cut) : 1;", "most = cut ? 1 : 1;", "layouts.drawn"),
    ("Muon: shards of a block without those before it", "src/parallel/buckets.c",
     "at = share - ahead[r];", "at = share;", "layouts.drawn"),
    ("gradients reduced one row early", "src/parallel/pipeline.c",
     "        run_row(p, schedule, i, calls);",
     "        int early = i + 1 < schedule->rows && schedule->row[i + 1].verb == REDUCE ? 1 : schedule->row[i].verb == REDUCE ? -1 : 0;\n"
     "        run_row(p, schedule, i + early, calls);", "layouts.drawn"),
    ("micro-batches read in the reverse order", "src/train/trainer.c",
     "micro[count++] = s->row[i].micro;", "micro[count++] = s->shape.micros - 1 - s->row[i].micro;", "layouts.drawn"),
    ("an output recomputed that nobody reads", "src/parallel/stage_executor.c",
     "if (!last) y = hidden_new(&again,", "y = hidden_new(&again,", "layouts.drawn"),
    ("updated weights of one parameter block not gathered", "src/parallel/background_sums.c",
     "if (k->zero_stage == 0 || k->zero_stage == 3 || k->block.count == 0) return;",
     "if (k->zero_stage == 0 || k->zero_stage == 3 || k->block.count == 0 || (k->block.index == 1 && k->weights.dtype == BF16)) return;",
     "layouts.drawn"),
    ("gradients of 16 bits not summed over replicas", "src/parallel/bucket_sums.c",
     "comm_all_reduce(replica, b->queue, narrow, b->scratch);", "if (b->window < 0) comm_all_reduce(replica, b->queue, narrow, b->scratch);",
     "layouts.drawn"),
    ("the weights of 16 bits of a block's second parameter not rounded from the updated ones", "src/train/trainer_optimizer.c",
     "if (tensor_present(k->master)) piece.param", "if (tensor_present(k->master) && p != 1) piece.param", "layouts.drawn"),
    ("an update more after a resume", "src/train/trainer_checkpoint.c",
     "t->step_state.updates = state.updates;", "t->step_state.updates = state.updates + 1;", "layouts.drawn"),
    ("a difference after a NaN taken for the largest", "tests/layouts/compare.c",
     "dtype_width(x->dtype) && !isnan(d->off); n++", "dtype_width(x->dtype); n++", "layouts.compare_test"),
    ("tensors and files that the other side alone has", "tests/layouts/compare.c",
     "TRY(files_within(NULL, other, mine, states));", "", "layouts.compare_test"),
    ("sums passed on within a group not recorded", "src/comm/host_sum.c",
     "elements += part_of(g, call, sum_first(o, from) + m) * (o->members - 1);", "elements += part_of(g, call, sum_first(o, from) + m) * (o->members - 2);", "comm.payload_test"),
    ("the part of an all-to-all that stays recorded as sent", "src/comm/host_data.c",
     "(call->in_at[n] - call->in_at[0] - (call->in_at[me + 1] - call->in_at[me])) * width;", "(call->in_at[n] - call->in_at[0] - 0 * me) * width;", "comm.payload_test"),
    ("rows of another rank under sequence parallelism", "src/comm/region.c",
     "return tensor_slice(x_T, 0, comm_rank(tp->comm) * t, t);", "return tensor_slice(x_T, 0, 0, t);", "train.layout_test"),
    ("documents of later blocks sought in the first", "src/corpus/clean/document_store.c",
     "row[i].block += s->size.bytes[STORE_TEXTS];", "", "corpus.document_store_test"),
    ("near duplicates a little below the threshold go", "src/corpus/dedup/minhash_resolve.c",
     "c->document >= s->first || c->jaccard < s->minhash->plan.threshold", "c->document >= s->first || c->jaccard < 0.95 * s->minhash->plan.threshold",
     "corpus.minhash_test"),
    ("text that is not composed stays so", "src/corpus/quality/charset.c",
     "MAY_NORMALIZE_ALL) < text->bytes) TRY(nfc", "MAY_NORMALIZE_ALL) < 0) TRY(nfc", "corpus.charset_test"),
    ("test sets sought as they are written", "src/corpus/dedup/contamination.c",
     "status = normalized_query_take(n, text.text, text.bytes);",
     "n->text.bytes = 0, status = buffer_add(&n->text, text.text, text.bytes);", "corpus.contamination_test"),
    ("a copy of a token dropped", "src/tensor/ref/route.c",
     "if (a->capacity <= 0) return true;", "if (a->capacity <= 0) return t != 3 || k != 1;", "train.moe_parity_test"),
    ("a copy of a token sent twice", "src/tensor/ref/experts.c",
     "int32_t slot = int1(a->slot_N, n);", "int32_t slot = int1(a->slot_N, n == 5 ? 4 : n);", "train.moe_parity_test"),
    ("no gradient of the weights of a token's experts", "src/model/router.c",
     "route_backward(q, (RouteBackward)", "fill_zero(q, (FillZero){ .y = dweight_tK });\n    route_backward(q, (RouteBackward)", "train.moe_parity_test"),
    ("numbers of copies of the wrong rank", "src/model/dispatch.c",
     "rows_NC, offsets(ctx, z, true, q), y_MC, offsets(ctx, z, false, q)", "rows_NC, offsets(ctx, z, false, q), y_MC, offsets(ctx, z, true, q)", "train.moe_test"),
    ("biases updated from the counts of one rank", "src/train/trainer_moe.c",
     "    if (t->moe.rows > 0)\n        comm_all_reduce", "    if (t->moe.rows > 99)\n        comm_all_reduce", "train.moe_test"),
    ("sequences balanced by the counts of one rank", "src/model/router.c",
     "comm_all_reduce(ctx->moe->sequence, q, count_GE, ctx->scratch);", "fill_zero(q, (FillZero){ .y = tensor_slice(count_GE, 0, 0, 0) });", "train.moe_test"),
    ("a gradient of the shared expert forgotten", "src/model/moe.c",
     "if (has_shared(ctx)) mlp_backward_weight(ctx, dw, block);", "if (has_shared(ctx) && !block) mlp_backward_weight(ctx, dw, block);", "train.moe_parity_test"),
    ("a token of the last chunk sent by nobody", "src/model/dispatch.c",
     "return least(q * z->each, z->T); }", "return least(q * z->each, q == z->Q && q > 1 ? z->T - 1 : z->T); }", "train.moe_test"),
    ("weight gradients of experts of the first chunk alone", "src/model/experts.c",
     "if (z->chunked) weight_gradient(ctx, z, q, dw, save, v->dy_MC, v->x_MC);",
     "if (z->chunked && q == 0) weight_gradient(ctx, z, q, dw, save, v->dy_MC, v->x_MC);", "train.moe_test"),
    ("loads of the first chunk alone counted", "src/model/router.c",
     "for (int64_t c = 0; c < z->Q; c++)", "for (int64_t c = 0; c < 1; c++)", "train.moe_test"),
    ("counts of chunks in the order of a message", "src/model/dispatch.c",
     ".x = exchanged(save->sent_QRX) });", ".x = tensor_view(save->sent_QRX, z->R, z->Q, z->X) });", "train.moe_test"),
    ("rows of all chunks saved, which grow with the parts of experts", "src/model/experts.c",
     "return z->chunked ? ctx->scratch : save_arena(ctx, RECOMPUTE_MOE | modules, arena);",
     "return save_arena(ctx, RECOMPUTE_MOE | modules, arena);", "train.moe_memory_test"),
    ("logits and their gradient beside each other in one type", "src/model/head.c",
     "if (backward && activation != statistic)", "if (backward)", "train.scratch_terms_test"),
    ("the activation's gradient in memory of its own without a gate", "src/model/mlp.c",
     "if (ctx->config->activation == ACT_SWIGLU)", "if (ctx->config->activation >= 0)", "train.scratch_terms_test"),
    ("a branch's output stored without a sum", "src/model/linear.c",
     "if (!is_fp8(save) && comm_size(ctx->tp.comm) == 1)", "if (!is_fp8(save) && comm_size(ctx->tp.comm) == 99)", "train.scratch_terms_test"),
    ("the biases of one layer saved for all", "src/train/trainer_moe.c",
     "shard.local = tensor_flat(t->moe.bias_nE, t->moe.row[layer] * E, E);", "shard.local = tensor_flat(t->moe.bias_nE, 0 * E, E);", "train.moe_resume_test"),
    ("no chunk of tokens sent while experts compute", "src/model/dispatch.c",
     "if (ctx->moe->overlap) return pending;", "if (!ctx) return pending;", "train.overlap_delay_test"),
    ("experts' activation not computed again", "src/model/moe.c",
     "else if (modules & RECOMPUTE_MOE_ACT) experts_activation_forward(ctx, &z, &block->moe);", "", "train.recompute_test"),
    ("gradients read by experts before they have come", "src/model/experts.c",
     "    comm_wait(comm, v->dy); ", "    comm_poll(comm); ", "train.overlap_test"),
    ("of equal scores the later expert taken", "src/tensor/cpu/route.c",
     "x[i] > x[index[at - 1]]", "x[i] >= x[index[at - 1]]", "tensor.ops_test"),
    ("a GPU's second channel of a pair rotated the other way", "src/tensor/cuda/rope.cu",
     "y2[j] = x1[j] * s[j] + x2[j] * c[j];", "y2[j] = x2[j] * c[j] - x1[j] * s[j];", "tensor.cuda_ops32"),
    ("on a GPU a weight gradient replaced instead of added to", "src/tensor/cuda/matmul.c",
     ".d = a->dw_KC.data, .c = a->dw_KC.data,", ".d = a->dw_KC.data,", "tensor.cuda_ops32"),
    ("a faster algorithm of a matrix product with other bits", "src/tensor/cuda/product_lt.c",
     "if (took >= best || !timing_same(s, first, other, bytes, workspace)) continue;", "if (took >= best) continue;", "tensor.cuda_product"),
    ("the plan of a product with another stride taken", "src/tensor/cuda/product_lt.c",
     "p->c ? p->c_stride : p->d_stride);", "p->n);", "tensor.cuda_product"),
    ("learning rate and seed of a step stay on the host", "src/train/step.c",
     "    queue_state_write(&t->queue);\n", "", "train.cuda_shim"),
    ("an evaluation's batch stays on the host", "src/train/step.c",
     "    if (host != batch) batch_copy(&t->queue, batch, host);\n", "", "train.cuda_shim"),
    ("a GPU's AdamW without weight decay", "src/tensor/cuda/optimizer.cu",
     "w[k] = w[k] * shrink - rate", "w[k] = w[k] - rate", "tensor.cuda_ops32"),
    ("a GPU's sliding window one key short", "src/tensor/cuda/attention/rule.h",
     "first < window) first = window;", "first < window) first = window + 1;", "tensor.cuda_ops32"),
    ("a GPU's sum of keys not rescaled to a larger score", "src/tensor/cuda/attention/tiled.cu",
     "sum = sum * shrink + lanes_sum", "sum = sum + lanes_sum", "tensor.cuda_ops64"),
    ("a tensor core's attention without the rescaling of its sum", "src/tensor/cuda/attention/flash_forward.cu",
     "sum  = sum * shrink + more;", "sum  = sum + more;", "tensor.cuda_ops32"),
    ("a tensor core's tile of keys overwritten while another warp reads it", "src/tensor/cuda/attention/flash_forward.cu",
     "        __syncthreads();                   /* the tile is there", "        /* the tile is there", "tensor.cuda_ops32"),
    ("a tensor core's gradient of scores without delta", "src/tensor/cuda/attention/flash_backward.cu",
     "(EXTRAS ? factor * y : y) - delta)", "(EXTRAS ? factor * y : y))", "tensor.cuda_ops32"),
    ("the first tile of queries left out for heads that share keys", "src/tensor/cuda/attention/flash_backward.cu",
     "if (s0 >= seeing.end) s0 = begin, h++;", "if (s0 >= seeing.end) s0 = begin + N, h++;", "tensor.cuda_ops32"),
    ("a tensor core's operand of other rows", "src/tensor/cuda/attention/flash.h",
     "(row + lane % 8 + lane / 16 * 8) * FLASH_ROW<D>", "(row + lane % 8) * FLASH_ROW<D>", "tensor.cuda_ops32"),
    ("a bias lost where rows on a GPU are not aligned", "src/tensor/cuda/matmul.c",
     "cuda_copy_strided(q, &(CopyStrided){ .y = y_TK, .x = as_rows(bias_K, y_TK) });",
     "cuda_fill_zero(q, &(FillZero){ .y = y_TK });", "tensor.cuda_ops32"),
    ("the rows of padded weights of the head moved", "src/model/head.c",
     ".y = tensor_slice(padded, 0, 0, V), .x = w_VC", ".y = tensor_slice(padded, 0, columns - V, V), .x = w_VC", "train.cuda_shim"),
    ("a GPU's two elements with the same random bits", "src/tensor/cuda/random.h",
     "to[i + 2] = bits.z >= mask.threshold", "to[i + 2] = bits.y >= mask.threshold", "tensor.cuda_ops64"),
    ("a group of rows left out of a GPU's norm gradient", "src/tensor/cuda/norm.cu",
     "for (int g = 0; g < GROUPS; g++) sum", "for (int g = 1; g < GROUPS; g++) sum", "tensor.cuda_ops32"),
    ("padding in a GPU's softmax where it shares a vector with ids", "src/tensor/cuda/xent.cu",
     "if (N > 1 && c + i >= a.valid) x[i]", "if (N > 1 && c + i > a.valid) x[i]", "tensor.cuda_ops32"),
]

# Planted in ./check: one of each kind of parallelism and of what keeps it right.
QUICK = [
    "shards of one replica not summed with the others'",
    "future keys seen in ring attention",
    "the gradient of a copy of a key head replaces the others",
    "a slot used again too early",
    "LAMB: trust ratios from a rank's own part of a tensor",
    "groups added in the order of arrival",
    "a sum in the background not waited for",
    "sums of tensor parallelism waited for before the weight gradients",
    "a copy of a token sent twice",
    "cached keys of a third context-parallel rank forgotten",
]


def build(folder, targets):
    done = subprocess.run(["cmake", "--build", os.path.join(folder, "build"), "--target", *targets], capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def test_fails(folder, test):
    """How a test fails, a crash and a time-out apart from a failure; or None."""
    done = subprocess.run(["ctest", "--test-dir", os.path.join(folder, "build"), "-R", "^" + re.escape(test) + "$", "--no-tests=error"],
                          capture_output=True, text=True)
    how = re.search(r"[*]{3}(Failed|Timeout|Exception)", done.stdout)
    return None if done.returncode == 0 else how[1].lower() if how else "not run", done.stdout


def planted(path, old, new):
    text = open(path).read()
    if text.count(old) != 1:
        sys.exit(f"{path} holds {text.count(old)} times: {old}\nthe row has gone stale; mend tests/planted/bugs.py")
    return text, text.replace(old, new.replace("T_never()", "0"))


def main():
    source, words = sys.argv[1], sys.argv[2:]
    whole = words or os.environ.get("JOTUN_FULL")
    rows = [b for b in BUGS if (any(w in b[0] for w in words) if words else whole or b[0] in QUICK)]
    if len({b[0] for b in BUGS} & set(QUICK)) != len(QUICK):
        sys.exit("a name of QUICK is that of no row")
    for b in BUGS:
        planted(os.path.join(source, b[1]), b[2], b[3])                     # no row has gone stale
    tests = sorted({b[4] for b in rows})
    targets = [t.replace(".", "_") for t in tests]
    with tempfile.TemporaryDirectory(prefix="jotun-planted-") as folder:
        shutil.copytree(source, os.path.join(folder, "tree"), ignore=shutil.ignore_patterns("build", ".git", "quickstart-out"))
        tree = os.path.join(folder, "tree")
        subprocess.run(["cmake", "-S", tree, "-B", os.path.join(tree, "build"), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DJOTUN_CUDA=OFF"],
                       check=True, stdout=subprocess.DEVNULL)
        good, words = build(tree, targets)
        if not good:
            sys.exit(words)
        for test in tests:
            failed, words = test_fails(tree, test)
            if failed:
                sys.exit(f"{test} fails before any bug is planted:\n{words}")
        missed = []
        for name, file, old, new, test in rows:
            begin = time.monotonic()
            path = os.path.join(tree, file)
            good_text, bad = planted(path, old, new)
            open(path, "w").write(bad)
            good, words = build(tree, [test.replace(".", "_")])
            if not good:
                sys.exit(f"{name}: does not build, so nothing is shown\n{words[-2000:]}")
            caught, _ = test_fails(tree, test)
            open(path, "w").write(good_text)
            print(f"{'caught' if caught else 'MISSED'}  {name:65} by {test} ({caught or 'passed'}, {time.monotonic() - begin:.0f} s)", flush=True)
            if caught in (None, "not run"):
                missed.append(name)
        print(f"{len(rows) - len(missed)} of {len(rows)} planted bugs caught")
        return 1 if missed else 0


sys.exit(main())
