#!/usr/bin/env python3
"""Makes tests/golden/partitions.txt for tests/compat/partition_test.c: the layers of each stage by DeepSpeed's own functions (numpy is needed).

    partitions.py DeepSpeed/deepspeed/runtime/utils.py > tests/golden/partitions.txt

A line is --pp-partition-method, layers, stages, whether numbers have 16 bits, and the layers of the stages, none where one has no layer. The modules
are those of BigScience's GPTModelPipe (megatron/model/gpt_model.py)."""
import ast
import re
import sys

import numpy

tree = ast.parse(open(sys.argv[1]).read())
theirs = {"numpy": numpy}
for node in tree.body:
    if isinstance(node, ast.FunctionDef) and node.name in ("partition_uniform", "partition_balanced"):
        exec(compile(ast.Module([node], []), sys.argv[1], "exec"), theirs)

LAYER = "ParallelTransformerLayerPipe"
for method in "uniform", "type:transformer", "type:transformer|embedding", "type:embedding|layernorm|transformer":
    for layers, stages in ((2, 2), (4, 3), (5, 2), (5, 3), (6, 4), (7, 4), (10, 4), (12, 5), (13, 4), (24, 7), (30, 4), (40, 16), (70, 12), (96, 11), (3, 3), (4, 4)):
        for half in 0, 1:
            names = ["_to_float16", "EmbeddingPipe", "<lambda>"] + [LAYER] * layers + ["undo", "MixedFusedLayerNorm", "EmbeddingPipe"] + ["float16_to_fp32"] * half
            if method == "uniform":
                parts = theirs["partition_uniform"](len(names), stages)
            else:
                regex = re.compile(method.split(":")[1].lower(), re.IGNORECASE)
                parts = theirs["partition_balanced"]([1 if regex.search(name) else 0 for name in names], stages)
            counts = [names[a:b].count(LAYER) for a, b in zip(parts, parts[1:])]
            print(method, layers, stages, half, *(counts if all(counts) else []))
