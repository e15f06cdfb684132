"""Fills tests/golden/hf/published.json, for tests/cli/presets_test.c:   python hf_configs.py FILE   (needs torch and transformers)

models    config.json as publishers have it, kept by hand (a new one is a line "NAME": {"preset": ..., "config": ...}), with the number of
          parameters that transformers counts for it on the meta device, where no memory is taken; preset: the name of the same model in
          --model, null where there is none; refused: a word of the message where it cannot be imported
defaults  the values of all keys of a configuration that nobody gave a value, which is what a missing key means

    python hf_configs.py --check FILE    compares with the transformers that is installed instead of writing
"""
import json
import sys

# What the classes' own defaults lack to be a model.
NEEDED = {"deepseek_v2": {"num_experts_per_tok": 6}}


def config_of(keys):
    import transformers
    plain = {k: v for k, v in keys.items() if k not in ("quantization_config", "auto_map")}
    return transformers.CONFIG_MAPPING[keys["model_type"]].from_dict(plain)


def parameters_of(keys):
    import torch
    from transformers import AutoModelForCausalLM
    with torch.device("meta"):
        return sum(p.numel() for p in AutoModelForCausalLM.from_config(config_of(keys)).parameters())


def defaults_of(model_type):
    import transformers
    config = transformers.CONFIG_MAPPING[model_type](**NEEDED.get(model_type, {}))
    return json.loads(config.to_json_string(use_diff=False))


def made(kept):
    """What the file should be."""
    import transformers
    models = {name: dict(model, parameters=parameters_of(model["config"])) for name, model in kept["models"].items()}
    types = dict.fromkeys(model["config"]["model_type"] for model in models.values())
    return {"transformers": transformers.__version__, "models": models, "defaults": {t: defaults_of(t) for t in types}}


def write(facts, path):
    rows = lambda table: ",\n".join(f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in table.items())
    with open(path, "w") as out:
        out.write('{"transformers": %s,\n"models": {\n%s\n},\n"defaults": {\n%s\n}}\n' % (
            json.dumps(facts["transformers"]), rows(facts["models"]), rows(facts["defaults"])))


def differences(path):
    """Lines that say where the kept file is not what the installed transformers says; its version may differ."""
    kept = json.load(open(path))
    now = made(kept)
    for name, model in now["models"].items():
        if model != kept["models"][name]:
            yield f"{name} has {model['parameters']} parameters, the kept file says {kept['models'][name].get('parameters')}"
    for model_type, keys in now["defaults"].items():
        for key in sorted(set(keys) | set(kept["defaults"].get(model_type, {}))):
            was = kept["defaults"].get(model_type, {}).get(key, "absent")
            if key != "transformers_version" and keys.get(key, "absent") != was:
                yield f"{model_type}: {key} is {keys.get(key, 'absent')} where nobody gives it, the kept file says {was}"


if __name__ == "__main__":
    if "--check" in sys.argv:
        found = list(differences(sys.argv[-1]))
        print("\n".join(found))
        sys.exit(bool(found))
    write(made(json.load(open(sys.argv[1]))), sys.argv[1])
