"""jotun serve on a checkpoint, for the scripts that ask it: the process, its answers, a small trained model."""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from run import JOTUN, LLAMA, MODEL, corpus, jotun

WAIT = 120


def descendants(pid):
    children = open(f"/proc/{pid}/task/{pid}/children").read().split()
    return [d for c in map(int, children) for d in (c, *descendants(c))]


class Served:
    """words: options; launcher: the command of an MPI"""
    def __init__(self, *words, launcher=(), **environment):
        self.process = subprocess.Popen([*launcher, JOTUN, "serve", "--port", "0", *map(str, words)], stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.launcher, self.log, self.address = launcher, "", None
        for line in self.process.stderr:
            self.log += line
            if (found := re.search(r"serves (.+) at (http://\S+/)", line)):
                self.name, self.address = found.groups()
                break
        if not self.address:
            sys.exit(f"the server did not start: {self.log}")
        threading.Thread(target=lambda: self.process.stderr.read(), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for pid in self.ranks():
            os.kill(pid, signal.SIGKILL if kind else signal.SIGTERM)
        code = self.process.wait(WAIT)
        assert kind or code == 0, f"the server ended with {code}"

    def ranks(self):
        """Processes to be told of the end: not Open MPI's mpirun, which kills its ranks soon after a SIGTERM."""
        if not self.launcher:
            return [self.process.pid]
        return [pid for pid in descendants(self.process.pid) if open(f"/proc/{pid}/comm").read().strip() == "jotun"]

    def ask(self, path, body=None, token=None):
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        request = urllib.request.Request(self.address + path, json.dumps(body).encode() if body is not None else None, headers)
        try:
            with urllib.request.urlopen(request, timeout=WAIT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def text(self, prompt, **members):
        status, data = self.ask("v1/completions", {"prompt": prompt, "max_tokens": 12, "temperature": 0, **members})
        assert status == 200, data
        return json.loads(data)["choices"][0]

    def metric(self, name, model=None):
        """Of a model, or of all together"""
        label = f'model="{re.escape(model)}"' if model else "[^}]*"
        return sum(map(float, re.findall(rf"^jotun_{name}{{{label}}} (\S+)$", self.ask("metrics")[1], re.M)))


def without_server(folder):
    """Whether this build has no HTTP server, and says which package it wants."""
    said = jotun("serve", "--load", folder, check=False).stderr
    assert "no HTTP server" not in said or "libmicrohttpd-dev" in said, said
    return "no HTTP server" in said


def trained(folder, name="run-1", *words, steps=150):
    """A run whose texts are mostly those syllables."""
    data, run = corpus(folder), os.path.join(folder, name)
    jotun("train", *MODEL, *LLAMA, "--lr", 1e-2, *words, "--data-path", data, "--train-iters", steps, "--save", run, "--tokenizer", "bytes", "--threads", 1)
    return run
