#!/usr/bin/env python3
"""What the kept list of published config.json files and of defaults says (tests/golden/hf/published.json, which presets_test imports) is
what the installed transformers says: numbers of parameters, and the value of each key that a config lacks."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "oracles"))
import hf_configs

try:
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
print("transformers", transformers.__version__, "torch", torch.__version__)
transformers.logging.set_verbosity_error()
differ = list(hf_configs.differences(os.path.join(HERE, "..", "golden", "hf", "published.json")))
for line in differ:
    print("DIFFERS", line)
print("the published configs and the defaults", "differ" if differ else "are those that are kept")
sys.exit(bool(differ))
