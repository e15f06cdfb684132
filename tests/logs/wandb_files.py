"""A reader of the record files of Weights & Biases in Python's standard library, written from the description of LevelDB's log format
and the field numbers of wandb_internal.proto."""
import glob
import json
import os
import struct
import zlib

from events import fields

BLOCK = 32768


def records(path):
    """The records of a file up to a truncated one; a wrong checksum or zeros that are none are an error."""
    data = open(path, "rb").read()
    assert data[:7] == b":W&B" + struct.pack("<HB", 0xBEE1, 0), f"{path}: no header"
    at, record = 7, b""
    while True:
        left = BLOCK - at % BLOCK
        if left < 7:
            assert not any(data[at:at + left]), f"{path}: no zeros at byte {at}"
            at += left
        if at + 7 > len(data):
            return
        checksum, size, kind = struct.unpack_from("<IHB", data, at)
        body = data[at + 7:at + 7 + size]
        if len(body) < size:
            return
        assert checksum == zlib.crc32(data[at + 6:at + 7] + body), f"{path}: record at byte {at}"
        assert size + 7 <= BLOCK - at % BLOCK, f"{path}: a record over the end of a block at byte {at}"
        assert (kind in (1, 2)) == (not record) or kind in (3, 4), f"{path}: a part {kind} at byte {at}"
        record += body
        at += 7 + size
        if kind in (1, 4):
            yield record
            record = b""


def items(message):
    return {item[1].decode(): json.loads(item[16]) for number, item in ((n, dict(fields(v))) for n, v in fields(message) if n == 1)}


def folders(directory):
    """For each offline run in the order of time: its id, folder, config, rows of history, summary and exit code."""
    found = []
    for folder in sorted(glob.glob(os.path.join(directory, "wandb", "offline-run-*"))):
        name = folder.rsplit("-", 1)[1]
        run = {"id": name, "folder": folder, "rows": [], "summary": {}, "exit": None}
        for number, record in enumerate(records(os.path.join(folder, f"run-{name}.wandb")), 1):
            record = dict(fields(record))
            assert record[1] == number, f"record {number} has the number {record[1]}"
            if 17 in record:
                about = dict(fields(record[17]))
                run.update(config=items(about[4]), name=about.get(8, b"").decode(), project=about[3].decode(), first=about.get(14, 0), resumed=about.get(18, 0))
                assert about[1].decode() == name
            elif 2 in record:
                row = items(record[2])
                assert dict(fields(dict(fields(record[2]))[2]))[1] == row["_step"]
                run["rows"].append(row)
            elif 3 in record:
                run["summary"].update(items(record[3]))
            elif 18 in record:
                run["exit"] = dict(fields(record[18]))[1]
        found.append(run)
    return found
