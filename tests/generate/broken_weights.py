"""A weight that is not a number in any row of the head ends texts with a message, and is not drawn: jotun generate, and jotun serve,
which goes on to answer others."""
import json
import os
import struct
import sys

import run
import serving

BROKEN_ID = 200                                         # of 257 bytes and ends: not the first, and not one of the text


def broken(folder):
    """A run as a folder of Hugging Face's with a NaN in a row of its head"""
    hf, path = os.path.join(folder, "hf"), os.path.join(folder, "hf", "model.safetensors")
    trained = serving.trained(folder, steps=1)
    run.jotun("convert", "--input", trained, "--to", "hf", "--output", hf, "--tokenizer", "bytes", "--output-dtype", "f32")
    data = bytearray(open(path, "rb").read())
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])["lm_head.weight"]
    width = head["shape"][1]
    at = 8 + size + head["data_offsets"][0] + 4 * width * BROKEN_ID
    assert head["dtype"] == "F32", head
    data[at:at + 4] = struct.pack("<f", float("nan"))
    open(path, "wb").write(data)
    return hf


def main():
    with run.work_folder() as folder:
        hf = broken(folder)
        for more in (("--temperature", 0), ("--temperature", 1), ("--temperature", 1, "--top-p", 0.5)):
            done = run.jotun("generate", "--load", "hf:" + hf, "--tokenizer", "bytes", "--prompt", "the", "--max-new-tokens", 4, *more, check=False)
            assert done.returncode != 0 and "not finite" in done.stderr, (more, done.returncode, done.stdout, done.stderr)
        if serving.without_server(hf):
            return run.SKIP
        with serving.Served("--load", "hf:" + hf, "--tokenizer", "bytes") as server:
            for _ in range(2):
                status, said = server.ask("v1/completions", {"prompt": "the", "max_tokens": 4, "temperature": 1})
                assert status == 500 and json.loads(said)["error"]["code"] == "broken_model", (status, said)
            assert server.ask("health")[0] == 200
    return 0


sys.exit(main())
