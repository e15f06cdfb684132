"""Writes files of torch.save with Python's own library alone: zip archives, the older format, and the lists of torch_dist.

    tensor = Tensor([1.0, 2.0], (2,), "float32")
    save(path, {"weight": tensor, "args": Namespace(hidden_size=8)})
"""
import argparse
import binascii
import io
import pickle
import struct
import sys
import types
from collections import OrderedDict

Namespace = argparse.Namespace
TYPES = {                                                # dtype: class of the storage, bytes, struct's code
    "float64": ("DoubleStorage", 8, "d"), "float32": ("FloatStorage", 4, "f"), "float16": ("HalfStorage", 2, "e"),
    "bfloat16": ("BFloat16Storage", 2, None), "int64": ("LongStorage", 8, "q"), "uint8": ("ByteStorage", 1, "B"),
    "int32": ("IntStorage", 4, "i"),
}


def module(name):
    """A stand-in for a package's module: pickle asks that the names which it writes exist."""
    if "." in name:
        module(name.rpartition(".")[0])
    if name not in sys.modules:
        sys.modules[name] = types.ModuleType(name)
    return sys.modules[name]


def named(path, name):
    """A class of that module and name."""
    home = module(path)
    if not hasattr(home, name):
        made = type(name, (), {"__module__": path})
        made.__qualname__ = name
        setattr(home, name, made)
    return getattr(home, name)


def function(path, name):
    home = module(path)
    if not hasattr(home, name):
        def made(*words):
            raise AssertionError("nothing is called")
        made.__module__, made.__name__, made.__qualname__ = path, name, name
        setattr(home, name, made)
    return getattr(home, name)


def encode(values, dtype):
    if dtype == "bfloat16":                               # the upper half of a float32; values must be exact
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack("<%d%s" % (len(values), TYPES[dtype][2]), *values)


class Storage:
    def __init__(self, values, dtype):
        self.bytes, self.dtype, self.count = encode(values, dtype), dtype, len(values)


class Tensor:
    """Elements in row-major order; or a view, by `storage`, `offset` and `stride`."""
    def __init__(self, values, shape, dtype="float32", storage=None, offset=0, stride=None):
        self.storage = storage or Storage(values, dtype)
        self.shape, self.offset, self.stride = tuple(shape), offset, stride
        if stride is None:
            step, steps = 1, []
            for size in reversed(self.shape):
                steps.append(step)
                step *= size
            self.stride = tuple(reversed(steps))


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor


class Pickler(pickle._Pickler):
    """Python's own pickler in Python, which a subclass may make write what it likes."""
    def __init__(self, out, protocol=2, legacy=False):
        super().__init__(out, protocol)
        self.storages, self.legacy = {}, legacy

    def key(self, storage):
        return self.storages.setdefault(id(storage), (str(len(self.storages)), storage))[0]

    def persistent_id(self, thing):
        if not isinstance(thing, Storage):
            return None
        id = ("storage", named("torch", TYPES[thing.dtype][0]), self.key(thing), "cpu", thing.count)
        return id + (None,) if self.legacy else id

    def reducer_override(self, thing):
        if isinstance(thing, Tensor):
            return (function("torch._utils", "_rebuild_tensor_v2"),
                    (thing.storage, thing.offset, thing.shape, thing.stride, False, OrderedDict()))
        if isinstance(thing, Parameter):
            return function("torch._utils", "_rebuild_parameter"), (thing.tensor, True, OrderedDict())
        return NotImplemented


def pickled(value, protocol=2, legacy=False):
    """The pickle, and its storages in order."""
    out = io.BytesIO()
    pickler = Pickler(out, protocol, legacy)
    pickler.dump(value)
    return out.getvalue(), [storage for _, storage in pickler.storages.values()]


SUMS = True                                              # False: without CRC-32, so that a fuzzer's changes are not refused by it


def zipped(entries, zip64=False, method=0):
    """An archive of (name, bytes), each aligned to 64 bytes as PyTorch does."""
    out, directory = bytearray(), bytearray()
    for name, data in entries:
        name, at = name.encode(), len(out)
        crc = binascii.crc32(data) if SUMS else 0
        pad = -(at + 30 + len(name) + 4) % 64
        extra = b"FB" + struct.pack("<H", pad) + b"Z" * pad
        out += struct.pack("<IHHHHHIIIHH", 0x04034b50, 0, 0x800, method, 0, 0, crc, len(data), len(data), len(name), len(extra))
        out += name + extra + data
        wide = struct.pack("<HHQQQ", 1, 24, len(data), len(data), at) if zip64 else b""
        sizes = (0xffffffff,) * 3 if zip64 else (len(data), len(data), at)
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 0, 0, 0x800, method, 0, 0, crc, sizes[0], sizes[1], len(name), len(wide), 0, 0, 0, 0,
                                 sizes[2]) + name + wide
    at, count = len(out), len(entries)
    end = out + directory
    if zip64:
        end64 = len(end)
        end += struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, count, count, len(directory), at)
        end += struct.pack("<IIQI", 0x07064b50, 0, end64, 1)
        return bytes(end + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0))
    return bytes(end + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, count, count, len(directory), at, 0))


def archive(data_pkl, storages, prefix="archive", zip64=False):
    entries = [(prefix + "/data.pkl", data_pkl), (prefix + "/byteorder", b"little")]
    entries += [("%s/data/%d" % (prefix, i), s) for i, s in enumerate(storages)]
    return zipped(entries + [(prefix + "/version", b"3\n")], zip64)


def saved(value, protocol=2, zip64=False):
    data, storages = pickled(value, protocol)
    return archive(data, [s.bytes for s in storages], zip64=zip64)


def saved_legacy(value, protocol=2):
    data, storages = pickled(value, protocol, legacy=True)
    facts = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    head = b"".join(pickle.dumps(v, 2) for v in (0x1950a86a20f9469cfc6c, 1001, facts))
    tail = b"".join(struct.pack("<q", s.count) + s.bytes for s in storages)
    return head + data + pickle.dumps([str(i) for i in range(len(storages))], 2) + tail


def save(path, value, **how):
    with open(path, "wb") as out:
        out.write(saved(value, **how))


# ---- torch_dist: .metadata, and a file of parts ----

def thing(path, name, **state):
    """An object of a class that only has a name."""
    made = named(path, name)()
    made.__dict__.update(state)
    return made


def torch_dist(tensors, common=None, **change):
    """tensors: name -> (whole shape, [(offset, Tensor)]). Files by name. change: `size`, `parts` and `places` see what is written before it is."""
    home = "torch.distributed.checkpoint.metadata"
    data, places, metadata = bytearray(), {}, {}

    def store(key, offset, value):
        part = saved(value)
        index = thing(home, "MetadataIndex", fqn=key, index=None)
        if offset is not None:
            index.offset = tuple(offset)
        places[index] = thing("torch.distributed.checkpoint.filesystem", "_StorageInfo", relative_path="__0_0.distcp", offset=len(data), length=len(part))
        data.extend(part)

    for key, (shape, parts) in tensors.items():
        chunks = [thing(home, "ChunkStorageMetadata", offsets=tuple(offset), sizes=part.shape) for offset, part in parts]
        metadata[key] = thing(home, "TensorStorageMetadata", size=tuple(shape), chunks=chunks)
        for offset, part in parts:
            store(key, offset, part)
    if common is not None:
        store("common_state/shard_0_1", None, common)
        metadata["common_state/shard_0_1"] = thing(home, "BytesStorageMetadata")
    if "places" in change:
        change["places"](places)
    whole = thing(home, "Metadata", state_dict_metadata=metadata, planner_data={}, storage_data=places, storage_meta=None)
    return {".metadata": pickled(whole)[0], "__0_0.distcp": bytes(data)}
