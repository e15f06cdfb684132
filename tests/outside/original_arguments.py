"""The arguments of a launch script as the program's own arguments.py reads them, with torch and all else that is not installed in the place of
nothing: modules that take every name and every call.

    original_arguments.py FOLDER      FOLDER is a checkout that has megatron/arguments.py or megatron/training/arguments.py

Each line of standard input is a JSON list of words; its answer is a line {"values": {...}} after checks, {"values": {...}, "checks": why} where
the checks of the program fail, or {"error": why} where it does not read the words."""
import argparse
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import inspect
import io
import json
import os
import sys
import types
import typing


class Base:
    """What classes are made from that torch has a base for."""
    apply = staticmethod(lambda *_: None)


class Anything:
    """Has every attribute, is every base, and gives another one where it is called, indexed or combined."""
    def __init__(self, name="value"):
        self.__dict__["__name__"] = self.__dict__["__qualname__"] = name

    def __getattr__(self, name):
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        return "2.6.0" if name == "__version__" else made(name)

    def __call__(self, *words, **named):
        if len(words) == 1 and not named and isinstance(words[0], (types.FunctionType, type)):
            return words[0]                                                  # a decorator
        return made("value")

    def __mro_entries__(self, bases):
        return (Base,)

    def __instancecheck__(self, other):
        return False
    __subclasscheck__ = __lt__ = __gt__ = __contains__ = __instancecheck__

    def __le__(self, other):
        return True
    __ge__ = __le__

    def __add__(self, other):
        return self
    __radd__ = __or__ = __ror__ = __getitem__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __mod__ = __floordiv__ = __add__

    def __setitem__(self, key, value):
        pass

    def __iter__(self):
        return iter((made("first"), made("second")))

    def __len__(self):
        return 1

    def __int__(self):
        return 1

    def __float__(self):
        return 1.0

    def __fspath__(self):
        return "/nothing"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def made(name):
    return Anything(name)


class Nothing(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        value = "2.6.0" if name == "__version__" else made(name)
        if name == "add_config_arguments":                                    # deepspeed's, by its documentation
            value = add_deepspeed
        setattr(self, name, value)
        return value


def add_deepspeed(parser):
    group = parser.add_argument_group("DeepSpeed")
    group.add_argument("--deepspeed", default=False, action="store_true")
    group.add_argument("--deepspeed_config", default=None, type=str)
    group.add_argument("--deepscale", default=False, action="store_true")
    group.add_argument("--deepscale_config", default=None, type=str)
    return parser


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: what nobody else has is a module of nothing."""
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("megatron", "readline", "sitecustomize", "usercustomize"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = Nothing(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def without_its_init(name, folder):
    """A package of which only the parts that are asked for are loaded."""
    package = types.ModuleType(name)
    package.__path__ = [folder]
    package.__getattr__ = lambda attribute: made(attribute)
    sys.modules[name] = package


def load(folder):
    if not hasattr(typing, "override"):                                       # of Python 3.12, which the newest version asks for
        typing.override = lambda function: function
    sys.path.insert(0, folder)
    sys.meta_path.append(Finder())
    own = {os.path.splitext(n)[0] for n in os.listdir(folder)}
    sys.meta_path.insert(0, Hide(own | {"packaging"} | set(sys.stdlib_module_names)))
    import torch.nn.functional                                                # noqa: F401  (of nothing)
    name = "megatron.training" if os.path.exists(os.path.join(folder, "megatron/training/arguments.py")) else "megatron"
    without_its_init("megatron", os.path.join(folder, "megatron"))
    if name != "megatron":
        without_its_init(name, os.path.join(folder, "megatron/training"))
    return importlib.import_module(name + ".arguments")


class Hide(importlib.abc.MetaPathFinder):
    """What is installed here is not loaded either, but for these."""
    def __init__(self, seen):
        self.seen = seen

    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in self.seen else Finder().find_spec(name)


def plain(value):
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(value) if isinstance(value, Anything) else str(getattr(value, "name", value))


def world_of(words):
    """A number of processes that every layout of these sizes divides."""
    def number(name):
        return next((int(words[i + 1]) for i, w in enumerate(words[:-1]) if w == name and words[i + 1].isdigit()), 1)
    world = 1
    for name in ("--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size", "--ds-sequence-parallel-size",
                 "--expert-model-parallel-size"):
        world *= number(name)
    return max(world, 1)


def parse(module, words):
    os.environ.update(RANK="0", WORLD_SIZE=str(world_of(words)), LOCAL_RANK="0", OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE=str(world_of(words)), OMPI_COMM_WORLD_LOCAL_RANK="0", CUDA_DEVICE_MAX_CONNECTIONS="1")
    sys.argv = ["pretrain_gpt.py", *words]
    defaults = {"tokenizer_type": "GPT2BPETokenizer"}
    said, answer = io.StringIO(), {}
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            if hasattr(module, "validate_args"):
                args = module.parse_args()
                answer["values"] = {k: plain(v) for k, v in vars(args).items()}
                try:
                    takes = inspect.signature(module.validate_args).parameters
                    module.validate_args(args, *[defaults] * (len(takes) > 1))
                    answer["values"] = {k: plain(v) for k, v in vars(args).items()}
                except BaseException as why:                                  # whatever its checks meet without torch
                    answer["checks"] = f"{type(why).__name__}: {why}"[:300]
                    answer["values"] = {k: plain(v) for k, v in vars(args).items()}
            else:
                answer["values"] = {k: plain(v) for k, v in vars(module.parse_args(defaults=defaults)).items()}
        except SystemExit:
            answer["error"] = said.getvalue().strip().splitlines()[-1:][0][:300] if said.getvalue().strip() else "exit"
        except BaseException as why:
            answer["error"] = f"{type(why).__name__}: {why}"[:300]
    return answer


def main():
    out = sys.stdout
    if len(sys.argv) < 2:
        print("no checkout is given")
        sys.exit(77)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            module = load(sys.argv[1])
    except BaseException as why:
        print(json.dumps({"unusable": f"{type(why).__name__}: {why}"}), file=out, flush=True)
        return
    print(json.dumps({"usable": module.__file__}), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(parse(module, json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
