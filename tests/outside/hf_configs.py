#!/usr/bin/env python3
"""What the kept list of published config.json files and of defaults says (tests/golden/hf/published.json, which presets_test imports) is
what the installed transformers says: numbers of parameters, and the value of each key that a config lacks."""
import os

import comparison

comparison.packages("torch", "transformers")
import hf_configs
differ = list(hf_configs.differences(os.path.join(comparison.TESTS, "golden", "hf", "published.json")))
print("the published configs and the defaults", "differ" if differ else "are those that are kept")
comparison.failures += differ
comparison.end()
