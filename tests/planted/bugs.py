"""Plants bugs, one at a time, and sees that the named test fails for each. A source with a bug is compiled and linked beside the libraries
of the release build; a bug in a header or table is planted in a copy of the tree.

    bugs.py SOURCE [WORD...]        those of QUICK, all with JOTUN_FULL, or those whose name holds one of the words (a portion: whole names)
    bugs.py SOURCE --rows           plants none, only sees that every row can be planted
    bugs.py SOURCE --passing        those of QUICK, whose tests are known to pass without a bug

SOURCE/build/release has been built.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from checkpoints import CHECKPOINTS
from conversions import CONVERSIONS
from gpu_kernels import GPU_KERNELS
from optimizers import OPTIMIZERS
from options import OPTIONS
from reports import REPORTS
from rules import RULES
from transport import TRANSPORT

# name; file; what stands there (exactly once); what the bug makes of it; the test that must fail
BUGS = [
    ("an extreme of joined points at the later one's step", "src/report/run_points.c", "joined.low_at[i]  = a->low_at[i];", "joined.low_at[i]  = b->low_at[i];", "report.pages"),
    ("a report whose restart loses no step", "src/report/run_record.c", "if (loses) loses->repeated_steps += dropped.steps;", "", "report.pages"),
    ("a report that shows a text of a run as HTML", "src/base/buffer.c", "case '<':  return \"&lt;\";", "", "report.pages"),
    ("a character of HTML that stays as it is", "src/base/buffer.c", "case '>':  return \"&gt;\";", "", "base.buffer_test"),
    ("a reader that reads one byte beyond the file", "src/base/reader.h", "if (bytes > reader_left(r)) return", "if (bytes > reader_left(r) + 1) return", "base.reader_test"),
    ("a field of Protocol Buffers that ends too early", "src/base/protobuf.c", "f->bytes.end = r->at;", "f->bytes.end = r->at - 1;", "base.protobuf_test"),
    ("an array that takes more items than its count can hold", "src/base/array.c", "if (wanted <= most) {", "if (wanted) {", "base.array_test"),
    ("an item of a list that is cut", "src/base/message.c", "if (!whole && !part) out[used] = 0;", "", "base.message_test"),
    ("a surrogate that is taken for UTF-8", "src/base/utf8.h", "whole > 0x10FFFF || (whole >= 0xD800 && whole < 0xE000)", "whole > 0x10FFFF", "base.utf8_test"),
    ("a chart whose curve is upside down", "src/chart/chart.c", "SIDE * (1 - part_of(y, value))", "SIDE * part_of(y, value)", "report.pages"),
    ("a journal whose means count skipped steps", "src/train/journal/run_journal.c", "j->losses / averaged : NAN", "j->losses / (averaged + 1) : NAN", "report.pages"),
    ("a deviation over the ranks that leaves one out", "src/train/history/rank_numbers.c", "variance = d.squares / d.ranks - off * off;", "variance = d.squares / (d.ranks + 1) - off * off;", "logs.files"),
    ("a sweep's training loss over a tenth of the steps", "src/cli/sweep/sweep_state.c", "(run->steps + 19) / 20", "(run->steps + 9) / 10", "cli.sweep"),
    ("a prior of a scaling law that pushes away", "src/plan/scaling_law.c", "g[1] += pull * pull", "g[1] -= pull * pull", "plan.scaling_law_test"),
    ("a parabola's lowest point on the wrong side", "src/plan/best_value.c", "- left / bend)", "+ left / bend)", "plan.scaling_law_test"),
    ("a maximum of doubles over ranks that is their sum", "src/comm/host_sum.c", "if (wider && most) sums_largest", "if (wider && most && queue->threads < 0) sums_largest", "comm.collective_test"),
    ("a flag of a rank that is not counted", "src/train/step_sums.c", "if (flagged) write_own(t, trainer_flagged_sum(t->config), 1);", "if (flagged) write_own(t, trainer_flagged_sum(t->config), 0);", "train.replay_test"),
    ("a loss of a rank that is a sum", "src/train/step_sums.c", "own[0] / own[1] : NAN", "own[0] : NAN", "logs.files"),
    ("a line of fairseq's whose learning rate is that of the step itself", "src/train/report.c", "lr_at(&config->lr, t->run.updated_samples)", "lr_at(&config->lr, t->run.updated_samples - sums->samples)", "cli.fairseq"),
    ("sinusoidal positions that begin at number 1", "src/model/model_config.h",
     "enum { SINUSOID_FIRST = 2 };", "enum { SINUSOID_FIRST = 1 };", "cli.fairseq"),
    ("context of a window that is scored again", "src/eval/windows.c",
     "set_weight(batch->loss_weight_T, row, inside && at >= x.from);", "set_weight(batch->loss_weight_T, row, inside);", "cli.fairseq"),
    ("a window of an evaluation that begins where the one before it ends", "src/eval/windows.c",
     "first = i * (S - w->overlap);", "first = i * S;", "eval.windows_test"),
    ("a resume whose batch size changes the learning rate", "src/cli/setup/resumed_schedule.c",
     "if ((batch || sequence) && !o->override_schedule)", "if (sequence && !o->override_schedule)", "cli.schedule"),
    ("stages of equal weight that are chosen from the other end", "src/compat/megatron/partition.c",
     "best->cost >= most - least", "best->cost > most - least", "compat.partition_test"),
    ("a block whose inputs are its targets", "src/data/loader.c",
     ".at = block.first - !block.leads,", ".at = block.first,", "data.blocks_test"),
    ("words of one count in the order of their lengths", "src/text/dictionary.c",
     "return order ? order : (x->bytes > y->bytes)", "return x->bytes != y->bytes ? 0 : order ? order : (x->bytes > y->bytes)", "cli.fairseq"),
    ("parts of a foreign tensor that overlap", "src/convert/foreign.c",
     "if (overlap(piece, &tensor->piece[q]))", "if (q < 0 && overlap(piece, &tensor->piece[q]))", "convert.foreign_test"),
    ("the gain of the last norm decayed as a matrix", "src/model/params.def",
     "PARAM( FINAL_GAIN,             HEAD,    \"final.gain\",             C,     ONE,     TP_REPLICATED, ALIGNED, INIT_ONE,    false, ALWAYS )",
     "PARAM( FINAL_GAIN,             HEAD,    \"final.gain\",             C,     ONE,     TP_REPLICATED, ALIGNED, INIT_ONE,    true,  ALWAYS )",
     "convert.steps"),
    ("values of latent attention exchanged as wide as its keys", "src/model/attention/ulysses.c",
     "each = values ? at.E : at.D;", "each = at.D;", "layouts.drawn"),
    ("an evaluation of all samples that counts some twice", "src/data/loader.c",
     "if (end > 0 && at >= end) weights_clear(loader, f->batch, slot);", "if (end > 0 && at > end) weights_clear(loader, f->batch, slot);", "train.evaluation_test"),
    ("a second validation set read from the first one's files", "src/data/datasets.c",
     "r->valid_set[set - SPLITS] : (DataPath){ 0 };", "r->valid_set[0] : (DataPath){ 0 };", "train.evaluation_test"),
    ("a step left out whose samples are read again", "src/train/step.c",
     "    t->run.samples += t->run.batch;\n    t->run.step++;\n}", "    t->run.step++;\n}", "train.ramp_test"),
    ("made tokens with the end of a document within", "src/data/token_file.c",
     "eod >= 0 && id >= eod ? id + 1 : id", "id", "data.mock_tokens_test"),
    ("a skipped step that advances the learning rate", "src/train/step.c",
     "t->step_state.updates++, t->run.updated_samples += counted(t);", "t->step_state.updates++;\n    t->run.updated_samples += counted(t);", "train.ramp_test"),
    ("a resume that counts its samples by the present batch size", "src/train/trainer_checkpoint.c",
     "trainer_set_position(t, state.step, state.samples);", "trainer_set_position(t, state.step, state.step * t->config->global);", "train.ramp_test"),
    ("batches read ahead at the size of the step before", "src/data/prefetch.c",
     "int64_t samples = batch_schedule_at(p->setup.batch, first);", "int64_t samples = batch_schedule_at(p->setup.batch, first > 4 ? first - 4 : 0);", "data.prefetch_test"),
    ("WSD's decay that begins where warm-up ends", "src/optim/lr.c",
     "double begin = (double)(s->decay - s->wsd_decay);", "double begin = s->warmup;", "optim.lr_test"),
    ("a curriculum's lengths that are not rounded down", "src/base/length_schedule.c",
     "least(length - length % s->multiple, s->most)", "least(length, s->most)", "base.length_schedule_test"),
    ("a sum of lengths without the last step of each", "src/base/length_schedule.c",
     "mul_overflow(last - done, length_at", "mul_overflow(last - done - 1, length_at", "base.length_schedule_test"),
    ("samples of a curriculum that count one token more", "src/data/loader.c",
     "(!inside || i >= counted)", "(!inside || i > counted)", "cli.length_warmup"),
    ("a decay in tokens that counts samples", "src/optim/lr.c",
     "return lr_after(&own, counted(s, (double)done));", "return lr_after(&own, (double)done);", "optim.lr_test"),
    ("Megatron-LM 1's decay ends at the whole of --lr-decay-iters", "src/optim/lr.c",
     "m = fmin(n, decay - s->warmup)", "m = fmin(n, decay)", "optim.lr_test"),
    ("weight decay of the whole run in its first step", "src/train/step.c",
     "weight_decay_at(&t->config->weight_decay, t->run.updated_samples);", "weight_decay_at(&t->config->weight_decay, INT64_MAX);", "train.ramp_test"),
    ("a checksum that is stored without its mask", "src/logs/event_file.c",
     "return (c >> 15 | c << 17) + 0xa282ead8;", "return c >> 15 | c << 17;", "logs.files"),
    ("steps that a resumed run takes again left in --metrics", "src/logs/metrics_file.c",
     "<= resumed)\n            kept = (LogKept)", "<= resumed + 1)\n            kept = (LogKept)", "logs.files"),
    ("events of later steps left in TensorBoard's files", "src/logs/event_file.c",
     "later = e.step > resumed;", "later = e.step > resumed + 1;", "logs.files"),
    ("a twin's step taken for the number of steps", "src/logs/event_file.c",
     "if (!e.twin) later", "later", "logs.files"),
    ("a record over the end of a block", "src/logs/wandb_store.c",
     "size_t left = BLOCK - at % BLOCK, before", "size_t left = BLOCK - (at + 8) % BLOCK, before", "logs.files"),
    ("the row of an evaluation lost at a kill", "src/train/loop.c",
     "        report_commit(report);\n", "", "logs.files"),
    ("a bias gradient dropped", "src/model/mlp.c",
     "if (tensor_present(db_W)) bias_backward", "if (tensor_present(db_W) && T_never()) bias_backward", "train.gradient_test"),
    ("replicated gradients not summed over tp", "src/model/params.c",
     "if (ranks->sequence_parallel && tp.size > 1) p.sum", "if (ranks->sequence_parallel && tp.size > 99) p.sum", "train.layout_test"),
    ("gradients reduced over the wrong axis", "src/train/trainer_comms.c",
     "t->comms.dp_cp = open_axes(t, AXIS_DP | AXIS_CP);", "t->comms.dp_cp = open_axes(t, AXIS_DP);", "train.layout_test"),
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
    ("ring gradients not started at zero", "src/model/attention/ring.c",
     "if (i == 1) fill_zero(q", "if (i < 0) fill_zero(q", "train.layout_test"),
    ("dropout keyed by the rank's own rows", "src/model/block.c",
     "    save->x_tC  = x_tC;", "    end.dropout_index_i = tensor_flat(ctx->batch->dropout_index_i, 0, x_tC.dim[0]);\n    save->x_tC  = x_tC;", "train.layout_test"),
    ("a gradient counted twice in the norm", "src/train/step_sums.c",
     "if (!saves || from >= end) continue;", "if (from >= end) continue;", "train.layout_test"),
    ("attention recomputed with another dropout key", "src/model/block.c",
     "core_attention_forward(&again, layer, &save->core", "core_attention_forward(&again, layer + 1, &save->core", "train.recompute_test"),
    ("the mask of padded vocabulary off by one", "src/model/head.c",
     "left < held ? left : held }", "left < held ? left - 1 : held }", "train.layout_test"),
    ("a deferred weight gradient reads a save that is gone", "src/parallel/stage_executor.c",
     "deferred ? &slot->activations : executor->recomputed;", "executor->recomputed;", "train.recompute_test"),
    ("bf16 cut instead of rounded", "src/tensor/half.h",
     "rounded = bits + 0x7fff + (bits >> 16 & 1), nan", "rounded = bits, nan", "tensor.dtype_test"),
    ("the odd last number of a pair dropped", "src/tensor/cpu/gemm_kernel.inc",
     "return half[2 * k] | (2 * k + 1 < depth ? (GemmWord)half[2 * k + 1] << 16 : 0);",
     "return 2 * k + 1 < depth ? half[2 * k] | (GemmWord)half[2 * k + 1] << 16 : 0;", "tensor.gemm_test"),
    ("gradients scaled by the loss scale of the step before", "src/tensor/step_end.h",
     "    gradient_scale_set(s);\n    report[0]", "    if (s->skip) gradient_scale_set(s);\n    report[0]", "tensor.loss_scale_test"),
    ("the newest amax at a wrong place of its history", "src/tensor/fp8.c",
     "h[(length - 1) * step] = amax;", "h[length / 2 * step] = amax;", "tensor.fp8_test"),
    ("delayed scales of a rank's own amax", "src/train/trainer_fp8.c",
     "comm_all_reduce_max(t->comms.fp8, &t->queue, amax,", "if (t->run.step < 0) comm_all_reduce_max(t->comms.fp8, &t->queue, amax,", "train.precision_test"),
    ("current scales of a rank's own part", "src/model/linear.c",
     "comm_all_reduce_max(ctx->fp8->amax_comm, ctx->queue, amax_1,", "if (!ctx->queue) comm_all_reduce_max(ctx->fp8->amax_comm, ctx->queue, amax_1,", "train.precision_test"),
    ("an evaluation's amax in the history", "src/train/trainer_fp8.c",
     "if (t->fp8.rows > 0) fill_zero(", "if (t->fp8.rows < 0) fill_zero(", "train.evaluation_test"),
    ("a repeated forward without the scales of its last map", "src/model/block.c",
     "            linear_forward_scales(ctx, save, b->linear, x_TK, w_CK);", "            if (ctx->drop && !ctx->drop) linear_forward_scales(ctx, save, b->linear, x_TK, w_CK);", "train.recompute_test"),
    ("the gradient through a norm after a branch without the 1 of its gains", "src/model/block.c",
     ".residual_TC = tensor_none(),\n        .gain_offset = model_gain_offset(ctx->config) });", ".residual_TC = tensor_none() });", "train.gradient_test"),
    ("Xavier's bound without the rows of gate", "src/model/params.c",
     "(rows[row].d0 == FE ? model_mlp_gates(config) : 1)", "1", "model.params_test"),
    ("the gate of a shared expert without its part of the input's gradient", "src/model/router.c",
     "        accumulate(q, (Accumulate){ .y = dn_tC, .x = d_tC });\n    }", "    }", "train.transformers_test"),
    ("the z-loss left out where the target is", "src/tensor/cpu/xent.c",
     "(cpu_exp(of_target - lse) * more - 1)", "(cpu_exp(of_target - lse) - 1)", "tensor.ops_test"),
    ("the factor of embeddings left out of their gradient", "src/model/embed.c",
     ".id_i = ids_of(ctx, depth), .dy_TC = dx_TC, .first = first_held_token(ctx),\n        .scale = embedding_factor(ctx) });",
     ".id_i = ids_of(ctx, depth), .dy_TC = dx_TC, .first = first_held_token(ctx), .scale = 1 });", "train.gradient_test"),
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
    ("future keys seen in ring attention", "src/model/attention/ring.c",
     "static int ring_rank(CoreLayout at, int by) { return", "static int ring_rank(CoreLayout at, int by) { if (by < -1) by = -1; return", "train.layout_test"),
    ("the late parts of joined sequences in the order of ranks", "src/model/attention/core_attention.c",
     "(which == 0 ? j : 2 * n - 1 - j) * s, s)", "(which == 0 ? j : n + j) * s, s)", "model.core_attention_test"),
    ("the gradient of a copy of a key head replaces the others", "src/model/attention/ulysses.c",
     "accumulate(ctx->queue, (Accumulate){ .y = mine, .x = part });", "copy_strided(ctx->queue, (CopyStrided){ .y = mine, .x = part });", "model.core_attention_test"),
    ("a visible ring step skipped", "src/model/attention/core_attention.c",
     "return k0 < seen.end && k0 + keys > seen.first;", "return k0 + 1 < seen.end && k0 + keys > seen.first;", "model.core_attention_test"),
    ("the second part of a ring at a wrong position", "src/model/attention/core_attention.c",
     "(which == 0 ? r : 2 * at.c - 1 - r) * (at.s / 2)", "(which == 0 ? r : at.c + r) * (at.s / 2)", "model.core_attention_test"),
    ("dropout of the first heads on every Ulysses rank", "src/model/attention/core_attention.c",
     "(comm_rank(ctx->tp.comm) * u + context_rank(ulysses)) * H", "comm_rank(ctx->tp.comm) * u * H", "model.core_attention_test"),
    ("key ranges of a rank's own positions under Ulysses", "src/data/loader.c",
     "group = parts_of(config, config->cp_rank / u, u * s);", "group = parts_of(config, 0, u * s);", "data.loader_test"),
    ("gradients of keys and values rounded in each ring step", "src/model/attention/ring.c",
     "ring_buffers_new(ctx, b.dkv, ctx->precision.statistic,", "ring_buffers_new(ctx, b.dkv, b.kv.dtype,", "model.core_attention_test"),
    ("frequencies of Llama 3 between the bands divided", "src/model/attention/rope.c",
     "return (1 - s) * f / config->factor + s * f;", "return f / config->factor;", "train.transformers_attention_test"),
    ("YaRN's ramp not rounded outwards", "src/model/attention/rope.c",
     "-rounded_down(-ramp.last) };", "rounded_down(ramp.last) };", "train.transformers_attention_test"),
    ("the scaled frequencies of other layers in those with a window", "src/model/attention/rope.c",
     "bool own = local && config->local_base > 0;", "bool own = false;", "train.transformers_attention_test"),
    ("pairs of neighbours taken for halves", "src/tensor/cpu/rope.c",
     "turn_neighbours(a->x_TnD, t, at + 2 * i, c, s, n)", "turn_halves(a->x_TnD, t, at + i, half, c, s, n)", "tensor.ops_test"),
    ("the gain of QK norm summed over tp under sequence parallelism alone", "src/model/params.c",
     "if (tp.size > 1) p.sum = GRADIENT_OVER_TP;", "if (ranks->sequence_parallel && tp.size > 1) p.sum = GRADIENT_OVER_TP;", "train.random_layout_test"),
    ("QK norm over the heads of one tensor-parallel rank", "src/model/attention/qk_norm.c",
     "heads_held(ctx, kind) * comm_size(ctx->tp.comm) : 1;", "heads_held(ctx, kind) : 1;", "train.random_layout_test"),
    ("the gradient of QK norm's gain after its input's", "src/model/attention/qk_norm.c",
     "head_norm_backward_weight(q,", "head_norm_backward_input(q, (HeadNormBackwardInput){ dy_TnD, dy_TnD, x_TnD, rstd_TM, gain_ND, rstd_TM, 1, 0 }), head_norm_backward_weight(q,",
     "train.gradient_test"),
    ("the soft-cap of attention forgotten in backward", "src/model/attention/core_attention.c",
     ".rule = f.rule };", ".rule = (f.rule.softcap = 0, f.rule) };", "train.transformers_attention_test"),
    ("the gradient of the keys' shared channels of the first head alone", "src/model/attention/latent.c",
     ".x_RN = tensor_view(parts_HTR, z.H, T * z.R)", ".x_RN = tensor_slice(tensor_view(parts_HTR, z.H, T * z.R), 0, 0, 1)", "train.gradient_test"),
    ("values of a latent model at the width of keys", "src/model/attention/core_attention.c",
     "heads_at(kv, at.G * at.D, at.G, at.E)", "heads_at(kv, at.G * at.E, at.G, at.E)", "train.transformers_attention_test"),
    ("DeepSeek's scale of scores left out", "src/model/model_config.c",
     "double own = config->latent.kv_rank > 0 ? rope_score_scale(&config->rope) : 1;", "double own = 1;", "train.transformers_attention_test"),
    ("the projection to latents taken for complete on each tensor-parallel rank", "src/model/params.def",
     "KVR,   C,   TP_SHARED,", "KVR,   C,   TP_REPLICATED,", "layouts.drawn"),
    ("values cached as keys", "src/model/attention/kv_cache.c",
     "tensor_slice(qkv_TQ, 1, Q - G * (D + E), G * D);", "tensor_slice(qkv_TQ, 1, Q - G * D, G * D);", "generate.generate_test"),
    ("logits that are looked at for NaN at the first id alone", "src/generate/forward.c",
     "sample_widen(logits + r * V, (const float *)all.data + from, count);", "(sample_widen(logits + r * V, (const float *)all.data + from, count), isfinite(logits[0]));", "generate.broken_weights"),
    ("a draw among the candidates that are left in which all are as likely", "src/generate/sample.c",
     "(left -= c[pick].weight) >= 0", "(left -= weight_of(c, 0, n) / (double)n) >= 0", "generate.sample_test"),
    ("a temperature whose inverse is infinite", "src/generate/sample.c", "|| !isfinite(factor) ||", "||", "generate.sample_test"),
    ("int8 rows beyond the first tile by the first one's scales", "src/tensor/cpu/int8/int8.c", ".x_scale = p->scale + at,", ".x_scale = p->scale + t * B,",
     "tensor.generation_rows_test"),
    ("ties that are rounded away from zero", "src/tensor/cpu/gemm_kernel.inc", "rounded = bits + 0x7fff + (bits >> 16 & 1), nan", "rounded = bits + 0x8000, nan", "tensor.gemm_test"),
    ("a NaN that is rounded like a number", "src/tensor/cpu/gemm_kernel.inc", "((is_nan & nan) | (~is_nan & rounded)) >> 16", "(rounded | (is_nan & nan & 0)) >> 16", "tensor.gemm_test"),
    ("blocks of rows without the last tile", "src/tensor/cpu/gemm.c", "int64_t tiles = divide_up(p->g->M, p->f->rows);", "int64_t tiles = p->g->M / p->f->rows;", "tensor.gemm_test"),
    ("every second key-value head left out", "src/tensor/cpu/flash/flash_forward.c", "piece(r, &space, &span, of_span / pieces, first,", "piece(r, &space, &span, of_span / pieces / 2 * 2, first,", "tensor.flash_test"),
    ("tiles of the last rows read the first ones", "src/tensor/cpu/few/gemm_few.c", "p->a + m * p->a_row + k * 4, p->a_row, strip,", "p->a + (m & 12) * p->a_row + k * 4, p->a_row, strip,",
     "tensor.gemm_test"),
    ("one query's channels beyond the first registers", "src/tensor/cpu/flash/flash_kernel.inc", "single_channels(x, prob, shrink, d, 1, LANES, widened);", "single_channels(x, prob, shrink, d - LANES, 1, LANES, widened);",
     "tensor.generation_rows_test"),
    ("logits of the first shard of the vocabulary", "src/generate/forward.c",
     "int64_t from = (r * n + i) * V,", "int64_t from = i * V,", "generate.generate_test"),
    ("positions of a prompt's later chunk counted from 0", "src/generate/forward.c",
     "row_set(f, batch, t, id[n], s->position + n);", "row_set(f, batch, t, id[n], n);", "generate.generate_test"),
    ("a thread claims items of its own alone", "src/base/team.c",
     "Share *share = &team->share[(thread + i) % team->threads];", "Share *share = &team->share[thread];", "base.team_test"),
    ("a row sees one position too few", "src/generate/forward.c",
     "(int32_t)keys_held(g, position + 1);", "(int32_t)keys_held(g, position);", "generate.generate_test"),
    ("all keys in the pages of the first context-parallel rank", "src/generate/forward.c",
     "if (position % span / L == comm_rank(g->cp)) {", "if (comm_rank(g->cp) == 0) {", "generate.generate_test"),
    ("weights of 8 bits made and not used", "src/model/linear.c",
     "const Int8Matrix *m = int8_of(ctx, w_KC, 0);", "const Int8Matrix *m = ctx->queue ? NULL : int8_of(ctx, w_KC, 0);", "generate.generate_test"),
    ("all experts in 8 bits are the first one", "src/generate/int8_weights.c",
     "all.data ? tensor_slice(all, 0, i, 1) : all;", "all.data ? tensor_slice(all, 0, i - i, 1) : all;", "generate.generate_test"),
    ("a finished beam's length without its end", "src/generate/beams.c",
     "double score = sum / pow((double)length, s->length_penalty);", "double score = sum / pow((double)(length - 1), s->length_penalty);",
     "generate.transformers_texts"),
    ("random numbers by the place of a text among those that run", "src/generate/forward.c",
     "s->id, r->count, s->length, r->stream);", "s->id, r->count, s->length, (uint64_t)i);", "generate.generate_test"),
    ("the last page of forked beams is not copied", "src/generate/scheduler.c",
     "if (part && had[parent[b]]) plan_copy(", "if (part && had[parent[b]] && b < 0) plan_copy(", "generate.generate_test"),
    ("cached keys of a third context-parallel rank forgotten", "src/model/attention/kv_cache.c",
     "for (int64_t r = 1; r < R; r++) {", "for (int64_t r = 1; r < 2; r++) {", "generate.generate_test"),
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
    ("ALiBi: slopes by a rank's own heads", "src/tensor/cpu/flash/flash_run.c",
     "(float)alibi_slope(rule->head0 + h, rule->heads)", "(float)alibi_slope(h, rule->heads)", "tensor.ops_test"),
    ("ALiBi: cached keys of context-parallel ranks taken to be in order", "src/generate/forward.c",
     "*at(f->key_position_i, page * L + position % L) = (int32_t)position;", "*at(f->key_position_i, page * L + position % L) = (int32_t)keys_held(g, position);", "generate.generate_test"),
    ("the norm of the embedding without its input's gradient", "src/model/embed.c",
     "ctx->config->embedding_norm ? norm_embedding_backward(ctx, dw, save) : save->dy_tC;",
     "(ctx->config->embedding_norm ? norm_embedding_backward(ctx, dw, save) : save->dy_tC, save->dy_tC);", "train.parity_test"),
    ("the output layer with the learning rate of all", "src/train/trainer_optimizer.c",
     ".decoupled = param_of_vocabulary(param)", ".decoupled = false", "train.parity_test"),
    ("Adam's bias correction one step late", "src/tensor/ref/optimizer.c",
     "(q->step_state->updates + 1), lr = STEP_LR", "(q->step_state->updates + 2), lr = STEP_LR", "train.parity_test"),
    ("a failing rank's message broadcast from rank 0", "src/comm/agree.c",
     "comm_broadcast_bytes(world, &message, sizeof message, lowest);", "comm_broadcast_bytes(world, &message, sizeof message, 0);", "comm.agree_test"),
    ("vectors of the eigenvalue 0 as roundings leave them", "src/tensor/matrix/symmetric.c",
     "if (end > first) space_basis(", "if (end < first) space_basis(", "tensor.symmetric_test"),
    ("a state saved under the name of another", "src/train/trainer_checkpoint.c",
     "shards_add(t, list, shard, piece->state[s], held.first, 0);", "shards_add(t, list, shard, piece->state[0], held.first, 0);", "train.reshard_test"),
    ("random bits of rounding by the place in the rank's part", "src/tensor/cpu/states.h",
     "        if (p->columns > 0) {", "        if (p->columns < 0) {", "tensor.ops_law_test"),
    ("an order of samples that knows the layout", "src/data/loader.c",
     "int64_t at = f->first + first + slot, end", "int64_t at = f->first / config->cp + first + slot, end",
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
     "return !head || !executor->ctx.backward_follows ||", "return !head || executor->slots > 0 ||", "train.traffic_test"),
    ("the embedding of multi-token prediction not summed with the first stage's", "src/train/trainer_comms.c",
     "if (!model_embedding_copied(&t->config->model) ||", "if (!t->config->model.tied ||", "train.layout_test"),
    ("a target ahead counted from the wrong position", "src/data/loader.c",
     "held_at(*own, i - k) : -1;", "held_at(*own, i - 1) : -1;", "train.parity_test"),
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
     "? state.updates : 0;", "? state.updates + 1 : 0;", "layouts.drawn"),
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
     "if (ACT_GATED(ctx->config->activation))", "if (ctx->config->activation >= 0)", "train.scratch_terms_test"),
    ("a branch's output stored without a sum", "src/model/linear.c",
     "!ctx->int8 && comm_size(ctx->tp.comm) == 1)", "!ctx->int8 && comm_size(ctx->tp.comm) == 99)", "train.scratch_terms_test"),
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
     "if (took >= best || !timing_same(s, first, other, t.bytes, workspace)) continue;", "if (took >= best) continue;", "tensor.cuda_product"),
    ("the plan of a product with another stride taken", "src/tensor/cuda/product_lt.c",
     "p->c ? p->c_stride : p->d_stride);", "p->n);", "tensor.cuda_product"),
    ("learning rate and seed of a step stay on the host", "src/train/step.c",
     "    queue_state_write(&t->queue);\n", "", "train.cuda_shim"),
    ("an evaluation's batch stays on the host", "src/train/evaluation.c",
     "    host_batch_copy(&t->queue, batch, &t->input.host_batch);\n", "", "train.cuda_shim"),
    ("a batch filled again before the device has copied it", "src/data/loader.c",
     "    if (b->leaving) queue_event_wait(&b->copied);\n", "", "train.cuda_shim"),
    ("the numbers of a step read before the device has them", "src/train/step_sums.c",
     "tensor_bytes(t->sums.all));\n    comm_drain(t->comms.world, &t->queue);\n", "tensor_bytes(t->sums.all));\n", "train.cuda_shim"),
    ("a checksum without the last word", "src/tensor/cuda/basic.cu",
     "for (uint64_t i = first + threadIdx.x; i < end;", "for (uint64_t i = first + threadIdx.x; i + 1 < end;", "tensor.cuda_ops32"),
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
    ("updates counted on where the states are new", "src/train/trainer_checkpoint.c",
     "loaded & CHECKPOINT_STATES ? state.updates", "loaded & CHECKPOINT_POSITION ? state.updates", "train.weights_alone_test"),
    ("a rewind that leaves out of the run's own checkpoint what was left out of --load", "src/train/trainer_checkpoint.c",
     "t->run.has_saved ? 0 : t->config->leave", "t->config->leave", "cli.spikes"),
    ("updates counted on after a rewind to a checkpoint without states", "src/train/trainer_checkpoint.c",
     "t->step_state.updates = loaded", "if (loaded & CHECKPOINT_STATES) t->step_state.updates = loaded", "train.weights_alone_test"),
    ("a checkpoint that does not say that it lacks states", "src/train/trainer_checkpoint.c",
     ".lacks = t->config->no_save_states ? CHECKPOINT_STATES : 0,", ".lacks = 0,", "train.weights_alone_test"),
    ("a tensor published of which a part was never written", "src/store/checkpoint_writer.c",
     "if (put < all)", "if (put < all - 1)", "store.writer_test"),
    ("a damaged tensor of a checkpoint converted without a word", "src/convert/foreign.c",
     "if (sum == of->sum) return OK;", "if (sum == of->sum || of->xxh3) return OK;", "convert.hf"),
    ("a conversion that failed leaves its lock behind", "src/store/checkpoint_writer.c",
     "if (w->made) seam.remove(w->dir);", "if (!w->made) seam.remove(w->dir);", "convert.hf"),
    ("the best checkpoint removed for its age", "src/store/checkpoint_dir.c",
     "list[i].step < step && list[i].step != best;", "list[i].step < step;", "cli.run_ends"),
    ("the best loss forgotten on resume", "src/train/best.c",
     "if (known && state.step <= t->run.step", "if (known && state.step > t->run.step", "cli.run_ends"),
    ("Megatron-LM's loss taken from the last step alone", "src/compat/log_names.c",
     "\"mean_loss\", \"lm loss\", KNOWN, 0", "\"loss\", \"lm loss\", KNOWN, 0", "cli.run_ends"),
    ("a document's last tokens dropped where no end follows", "src/data/raw_tokens.c",
     "bool ends = (int32_t)id == eod || at + 1 == raw->tokens;", "bool ends = (int32_t)id == eod;", "data.raw_tokens"),
    ("a spike that counts in the running mean", "src/train/step.c",
     "if (r[3] == 0) spike_add(", "if (r[3] != 1) spike_add(", "cli.spikes"),
    ("the running mean of losses forgotten on resume", "src/train/trainer_checkpoint.c",
     "if (t->config->spike.window > 0) t->run.losses = state.losses;", "if (t->config->spike.window < 0) t->run.losses = state.losses;", "cli.spikes"),
    ("samples read again after a rewind", "src/train/loop.c",
     "trainer_set_position(t, t->run.step, samples);", "trainer_set_position(t, t->run.step, t->run.samples + 0 * samples);", "cli.spikes"),
    ("a rewind that finds no checkpoint of another program", "src/train/loop.c",
     "*found = foreign_weights_folder(holds) != NULL;", "*found = false;", "cli.spikes"),
    ("a schedule of DeepSpeed's that is not a step late", "src/optim/lr.c",
     "m = fmax(0, n - s->step);", "m = n;", "optim.lr_test"),
    ("a NaN named by the rank that sees it last", "src/train/replay.c",
     "if (!f->found) return INFINITY;", "if (!f->found) return 0;", "train.replay_test"),
    ("the unit of the step before named", "src/parallel/stage_executor.c",
     "        thread_context()->unit = (int)(first + i);\n        unit_forward(", "        thread_context()->unit = (int)(first + i) - 1;\n        unit_forward(", "train.replay_test"),
    ("the loss of the first depth of multi-token prediction for all", "src/train/step_sums.c",
     "r->mtp[k] = sum[mtp + 2 * k]", "r->mtp[k] = sum[mtp]", "train.parity_test"),
    ("slots of evaluations no larger than those of training", "src/train/measure.c",
     "sizes->shared = train > valid ? train : valid;", "sizes->shared = train;", "train.evaluation_test"),
    ("copies of a tied embedding not compared", "src/parallel/weight_copies.c",
     "return k->block.family == PARAMS_DENSE && k->block.index == 0;", "return k->block.family == PARAMS_DENSE && k->block.index < 0;", "train.replay_test"),
    ("bytes of evaluations counted by each chunk", "src/train/evaluation.c",
     "[target[i]] / config->chunks;", "[target[i]];", "cli.run_ends"),
] + CHECKPOINTS + CONVERSIONS + GPU_KERNELS + OPTIMIZERS + OPTIONS + REPORTS + RULES + TRANSPORT

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


class Failed(Exception):
    """What keeps a bug from being shown"""


def done(command, **more):
    made = subprocess.run(command, capture_output=True, text=True, **more)
    if made.returncode:
        raise Failed(made.stdout + made.stderr)
    return made.stdout


class Beside:
    """The release build, which stays as it is: an object in front of the libraries stands for the one in them."""

    def __init__(self, source, folder):
        self.build, self.folder = os.path.join(source, "build", "release"), folder
        self.commands = {}
        for c in json.load(open(os.path.join(self.build, "compile_commands.json"))):
            self.commands.setdefault(os.path.realpath(c["file"]), []).append(c["command"])
        self.tests = {t["name"]: t for t in json.loads(done(["ctest", "--test-dir", self.build, "--show-only=json-v1"]))["tests"]}

    def program(self, test):
        """The path of the program that the test is about, as its commands have it"""
        about = self.tests[test]
        variables = next((p["value"] for p in about["properties"] if p["name"] == "ENVIRONMENT"), [])
        words = [*about["command"], *(v.split("=", 1)[1] for v in variables if v.startswith("JOTUN="))]
        return next((w for w in words if os.path.dirname(w) == os.path.join(self.build, "bin")), None)

    def takes(self, test, path):
        return len(self.commands.get(os.path.realpath(path), [])) == 1 and self.program(test)

    def run(self, test, path, text):
        """How the test fails where the file has this text; None where it passes"""
        about = self.tests[test]
        more = {p["name"]: p["value"] for p in about["properties"]}
        variables = dict(v.split("=", 1) for v in more.get("ENVIRONMENT", []))
        program = self.program(test)
        made = os.path.join(os.path.dirname(program), f"planted-{os.getpid()}-{os.path.basename(program)}")      # beside what it looks for
        try:
            return self.run_as(about["command"], variables, more, program, made, path, text)
        finally:
            if os.path.exists(made):
                os.remove(made)

    def run_as(self, command, variables, more, program, made, path, text):
        if text is not None:
            source, part = os.path.join(self.folder, "planted.c"), os.path.join(self.folder, "planted.o")
            open(source, "w").write(text)
            words = shlex.split(self.commands[os.path.realpath(path)][0])
            words[words.index("-c") + 1], words[words.index("-o") + 1] = source, part
            done(words, cwd=self.build)
            target = os.path.relpath(program, self.build)
            link = done(["ninja", "-C", self.build, "-t", "commands", "-s", target]).splitlines()[-1]
            done(["sh", "-c", link.replace(f" -o {target} ", f" {part} -o {made} ", 1)], cwd=self.build)
        else:
            shutil.copy(program, made)
        words = [made if w == program else w for w in command]
        environment = {**os.environ, **{k: made if v == program else v for k, v in variables.items()}}
        try:
            ran = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=more.get("WORKING_DIRECTORY"), timeout=more.get("TIMEOUT", 1500))
        except subprocess.TimeoutExpired:
            raise Failed("the test ran out of its time") from None
        if ran.returncode == more.get("SKIP_RETURN_CODE", 77):
            raise Failed("the test was skipped")
        return None if ran.returncode == 0 else "failed" if ran.returncode > 0 else "exception"


class Copy:
    """A copy of the tree, built anew for each bug"""

    def __init__(self, source, folder):
        self.source, self.tree = source, os.path.join(folder, "tree")
        shutil.copytree(source, self.tree, ignore=shutil.ignore_patterns("build", ".git", "quickstart-out"))
        done(["cmake", "-S", self.tree, "-B", os.path.join(self.tree, "build"), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DJOTUN_CUDA=OFF",
              *(f"-DCMAKE_{x}_FLAGS_RELEASE=-O1" for x in ("C", "CXX"))])

    def run(self, test, path, text):
        path = os.path.join(self.tree, os.path.relpath(path, self.source))
        good = open(path).read()
        if text is not None:
            open(path, "w").write(text)
        try:
            done(["cmake", "--build", os.path.join(self.tree, "build"), "--target", test.replace(".", "_")])
            ran = subprocess.run(["ctest", "--test-dir", os.path.join(self.tree, "build"), "-R", "^" + re.escape(test) + "$", "--no-tests=error"],
                                 capture_output=True, text=True)
        finally:
            open(path, "w").write(good)
        how = re.search(r"[*]{3}(Failed|Exception)", ran.stdout)
        if (ran.returncode or "***Skipped" in ran.stdout) and not how:
            raise Failed(ran.stdout)
        return how[1].lower() if how else None


def no_place(path, old):
    """Why a row cannot be planted, or None."""
    times = open(path).read().count(old) if os.path.exists(path) else 0
    return None if times == 1 else f"{path} holds {times} times: {old}"


def main():
    source, words = os.path.abspath(sys.argv[1]), [word for word in sys.argv[2:] if word != "--passing"]
    passing = "--passing" in sys.argv[2:]
    whole = words or os.environ.get("JOTUN_FULL")
    rows = [b for b in BUGS if (any(w in b[0] for w in words) if words else whole or b[0] in QUICK)]
    if len({b[0] for b in BUGS} & set(QUICK)) != len(QUICK):
        sys.exit("a name of QUICK is that of no row")
    stale = [why for why in (no_place(os.path.join(source, b[1]), b[2]) for b in BUGS) if why]
    if stale:
        sys.exit("\n".join(stale) + "\nrows of tests/planted/bugs.py are out of date")
    if words == ["--rows"]:
        return 0
    with tempfile.TemporaryDirectory(prefix="jotun-planted-") as folder:
        beside, copy, passed, missed = Beside(source, folder), None, set(), []
        for name, file, old, new, test in rows:
            begin = time.monotonic()
            path = os.path.join(source, file)
            text = open(path).read().replace(old, new.replace("T_never()", "0"))
            if beside.takes(test, path):
                place = beside
            else:
                place = copy = copy or Copy(source, folder)
            try:
                if not passing and (place, test) not in passed and place.run(test, path, None):
                    sys.exit(f"{test} fails before any bug is planted")
                passed.add((place, test))
                caught = place.run(test, path, text)
            except Failed as why:
                print(f"{name}: nothing is shown:\n{str(why)[-2000:]}")
                caught = None
            missed += [name] if not caught else []
            print(f"{'caught' if caught else 'MISSED'}  {name:65} by {test} ({caught or 'passed'}, {time.monotonic() - begin:.0f} s)", flush=True)
        print(f"{len(rows) - len(missed)} of {len(rows)} planted bugs caught")
        return 1 if missed else 0


sys.exit(main())
