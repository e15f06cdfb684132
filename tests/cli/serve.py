"""jotun serve on a checkpoint: its texts are those of jotun generate, alone and among others, on one rank and on many; tokens, ends, refusals."""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from run import JOTUN, LLAMA, MODEL, SKIP, corpus, jotun, work_folder

WAIT = 120


class Served:
    def __init__(self, *words, **environment):
        self.process = subprocess.Popen([JOTUN, "serve", "--port", "0", *map(str, words)], stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.log, self.address = "", None
        for line in self.process.stderr:
            self.log += line
            if (found := re.search(r"serves (\S+) at (http://\S+/)", line)):
                self.name, self.address = found.groups()
                break
        if not self.address:
            sys.exit(f"the server did not start: {self.log}")
        threading.Thread(target=lambda: self.process.stderr.read(), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGKILL if kind else signal.SIGTERM)
        code = self.process.wait(WAIT)
        assert kind or code == 0, f"the server ended with {code}"

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


def generated(run, prompt, *words):
    done = jotun("generate", "--load", run, "--prompt", prompt, "--max-new-tokens", 12, "--temperature", 0, *words)
    return done.stdout[len(prompt):-1]


PROMPTS = ["the ra", "jo tun sees", "in of in of the", "a"]
with work_folder() as folder:
    if "no HTTP server" in jotun("serve", "--load", folder, check=False).stderr:
        print("skipped: this build has no libmicrohttpd")
        sys.exit(SKIP)
    data, run = corpus(folder), os.path.join(folder, "run-1")
    jotun("train", *MODEL, *LLAMA, "--data-path", data, "--train-iters", 30, "--save", run, "--tokenizer", "bytes", "--threads", 1)
    greedy = [generated(run, p) for p in PROMPTS]
    with Served("--load", run, "--threads", 1) as server:
        assert server.name == "run-1", server.name
        alone = [server.text(p, logprobs=3, seed=7, temperature=t) for p in PROMPTS for t in (0, 1)]
        assert [c["text"].encode("ascii", "replace") for c in alone[::2]] == [g.encode("ascii", "replace") for g in greedy], (alone[::2], greedy)
        among = [None] * len(alone)

        def client(i):
            among[i] = server.text(PROMPTS[i // 2], logprobs=3, seed=7, temperature=i % 2)

        noise = [threading.Thread(target=server.text, args=("the " * (i % 3 + 1),), kwargs={"max_tokens": 16, "temperature": 1}) for i in range(16)]
        threads = noise + [threading.Thread(target=client, args=(i,)) for i in range(len(alone))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert among == alone, "a text depends on those beside it"
        assert len({server.text("the", temperature=1)["text"] for _ in range(6)}) > 1
        status, page = server.ask("metrics")
        pages = re.search(r"^jotun_cache_pages (\d+)$", page, re.M)
        assert pages and int(pages[1]) > 0, page
        status, answer = server.ask("v1/completions", {"prompt": "a" * 30, "max_tokens": 3})
        assert status == 400 and "32 positions" in answer, answer
        port = server.address.split(":")[2].strip("/")
        again = jotun("serve", "--load", run, "--port", port, "--threads", 1, check=False)
        assert again.returncode == 1 and "in use" in again.stderr, again.stderr
    with Served("--load", run, "--ranks", 2, "--tp", 2, "--threads", 1, "--served-model-name", "other", "--max-model-len", 64, JOTUN_TOKEN="a-secret-of-this-test") as server:
        assert server.ask("v1/models")[0] == 401
        status, answer = server.ask("v1/completions", {"prompt": PROMPTS[0], "max_tokens": 12, "temperature": 0, "model": "other"}, "a-secret-of-this-test")
        assert status == 200 and json.loads(answer)["choices"][0]["text"].encode("ascii", "replace") == greedy[0].encode("ascii", "replace"), (answer, greedy)
        assert server.ask("v1/completions", {"prompt": "a" * 50, "max_tokens": 14, "temperature": 0}, "a-secret-of-this-test")[0] == 200
    with Served("--load", run, "--threads", 1, "--weights", "int8") as server:
        rounded = server.text(PROMPTS[0], logprobs=3, seed=7)
        assert rounded["text"].encode("ascii", "replace") == generated(run, PROMPTS[0], "--weights", "int8").encode("ascii", "replace"), rounded
        assert rounded["logprobs"]["token_logprobs"] != alone[0]["logprobs"]["token_logprobs"], "--weights int8 changes nothing"
    for words, want in (["--load", run, "--host", "no.such.host.invalid"], "no address of this machine"), ([], "needs --load"), (["--load", run, "--token", "short"], "8 to 512"), \
            (["--load", run, "--token-file", os.path.join(folder, "nowhere")], "nowhere"), (["--load", run, "--prompt", "x"], "--prompt"):
        refused = jotun("serve", *words, check=False)
        assert refused.returncode in (1, 2) and want in refused.stderr, (words, refused.stderr)
print("the server's texts are those of jotun generate, alone and among others")
