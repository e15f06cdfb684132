"""jotun serve on a checkpoint: its texts are those of jotun generate, and to the bit the same alone and among 63 other requests; on one rank
and on many, two models beside each other, as threads and under MPI; foreign folders, tokens, ends, refusals."""
import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from run import SKIP, jotun, launchers, work_folder
from serving import WAIT, Served, trained, without_server

PROMPTS = ["the ra", "jo tun sees", "in of in of the", "a"]
LONG = "the sees of in " * 8                            # has several chunks
OTHERS = 63
EXPERTS = "--num-experts", 4, "--disable-bias-linear"


def generated(folder, run, *words):
    """ids and log-probabilities that jotun generate, asked for one text at a time, gives to the requests of seeded()"""
    texts, path = [], os.path.join(folder, "prompt.jsonl")
    for request in seeded():
        with open(path, "w") as out:
            json.dump({"max_tokens": 12, **request}, out)
        done = jotun("generate", "--load", run, "--prompt-jsonl", path, "--threads", 1, *words)
        texts.append(json.loads(done.stdout))
    return [(t["ids"], t["logprobs"], [sorted((p for _, p in top), reverse=True) for top in t["top_logprobs"]]) for t in texts]


def served(choices):
    """The same of the server's answers, where bytes are tokens"""
    def numbered(token):
        return int(token[8:], 16) if token.startswith("bytes:") else ord(token)

    lists = [c["logprobs"] for c in choices]
    return [([numbered(t) for t in x["tokens"]], x["token_logprobs"], [sorted(top.values(), reverse=True) for top in x["top_logprobs"]]) for x in lists]


def seeded(prompts=PROMPTS):
    """Requests, greedy and drawn"""
    return [{"prompt": p, "logprobs": 3, "seed": 7, "temperature": t} for p in prompts for t in (0, 1)]


def alone_and_among(server, requests, others, at_once=1):
    """Each request's answer alone; the same while `others` clients ask without a pause, and at_once texts run at some moment."""
    alone = [server.text(**r) for r in requests]
    over = threading.Event()

    def disturb(i):
        while not over.is_set():
            server.text("sees " * (i % 3 + 1), max_tokens=16, temperature=1)

    with ThreadPoolExecutor(others) as disturbing, ThreadPoolExecutor(len(requests)) as asking:
        noise = [disturbing.submit(disturb, i) for i in range(others)]
        try:
            until = time.monotonic() + WAIT
            while server.metric("sequences_running") < at_once:
                assert time.monotonic() < until, f"{at_once} texts never ran at once"
            for _ in range(3):
                among = list(asking.map(lambda r: server.text(**r), requests))
                assert among == alone, f"a text depends on those beside it:\n{alone}\n{among}"
        finally:
            over.set()
        for n in noise:
            n.result()
    return alone


def same_texts(ours, theirs, why):
    """Texts are equal, log-probabilities nearly so: a layout adds in another order."""
    for a, b in zip(ours, theirs, strict=True):
        assert a["text"] == b["text"], (why, a, b)
        assert all(abs(x - y) < 1e-4 for x, y in zip(a["logprobs"]["token_logprobs"], b["logprobs"]["token_logprobs"], strict=True)), (why, a, b)


def on_one_rank(folder, run):
    with Served("--load", run, "--threads", 1) as server:
        assert server.name == "run-1", server.name
        alone = alone_and_among(server, seeded(), OTHERS)
        for ours, theirs in zip(served(alone), generated(folder, run), strict=True):
            assert ours == theirs, f"\n{ours}\n{theirs}"
        assert len({server.text("the", temperature=1)["text"] for _ in range(6)}) > 1
        assert server.metric("cache_pages") > 0
        status, answer = server.ask("v1/completions", {"prompt": "a" * 30, "max_tokens": 3})
        assert status == 400 and "32 positions" in answer, answer
        port = server.address.split(":")[2].strip("/")
        again = jotun("serve", "--load", run, "--port", port, "--threads", 1, check=False)
        assert again.returncode == 1 and "in use" in again.stderr, again.stderr
    with Served("--load", run, "--threads", 2, "--micro-batch-size", 64, "--max-model-len", 256) as server:
        wide = alone_and_among(server, seeded(PROMPTS + [LONG]), OTHERS, at_once=40)
        same_texts(wide[:len(alone)], alone, "room for 64 texts")
    with Served("--load", run, "--threads", 1, "--weights", "int8") as server:
        rounded = [server.text(**r) for r in seeded()]
        assert served(rounded) == generated(folder, run, "--weights", "int8"), rounded
        assert served(rounded) != served(alone), "--weights int8 changes nothing"
    return alone


def on_many_ranks(run, alone, experts):
    secret = "a-secret-of-this-test"
    with Served("--load", run, "--ranks", 2, "--tp", 2, "--threads", 1, "--served-model-name", "other", "--max-model-len", 64, JOTUN_TOKEN=secret) as server:
        assert server.ask("v1/models")[0] == 401
        status, answer = server.ask("v1/completions", {"prompt": PROMPTS[0], "max_tokens": 12, "temperature": 0, "model": "other"}, secret)
        assert status == 200 and json.loads(answer)["choices"][0]["text"] == alone[0]["text"], (answer, alone[0])
        assert server.ask("v1/completions", {"prompt": "a" * 50, "max_tokens": 14, "temperature": 0}, secret)[0] == 200
    layouts = [(run, alone, f"--ranks 2 {words}") for words in ("--tp 2", "--pp 2", "--tp 1", "--cp 2")]
    with Served("--load", experts, "--threads", 1) as server:
        experts_alone = [server.text(**r) for r in seeded()]
    layouts += [(experts, experts_alone, "--ranks 2 --ep 2"), (experts, experts_alone, "--ranks 4 --pp 2 --ep 2")]
    for folder, want, words in layouts:
        with Served("--load", folder, "--threads", 1, *words.split()) as server:
            same_texts(alone_and_among(server, seeded(), 12), want, words)
    under_tsan = "thread" in os.environ.get("TEST_SANITIZE", "")             # the MPI libraries' own locks are no affair of ours
    for mpi, launcher in [] if under_tsan else launchers().items():
        with Served("--load", run, "--pp", 2, "--threads", 1, launcher=launcher + ["2"], ASAN_OPTIONS="detect_leaks=0") as server:
            same_texts([server.text(**r) for r in seeded()], alone, mpi)


def foreign(folder, run, alone):
    """A folder of Hugging Face, with the tokenizer that it names"""
    foreign = os.path.join(folder, "theirs")
    jotun("convert", "--to", "hf", "--input", run, "--output", foreign)
    with Served("--load", "hf:" + foreign, "--threads", 1, "--tokenizer", "bytes") as server:
        assert server.name == "theirs", server.name
        same_texts([server.text(**r) for r in seeded()], alone, "hf:")


def preempted(run, experts):
    """A text that makes room for other clients' and continues later is to the bit the one that it is alone, within its prompt, soon after it and late."""
    def newcomers(server, over):
        port, asked = int(server.address.split(":")[2].strip("/")), 0
        while not over.is_set():
            client = HTTPConnection("127.0.0.1", port, WAIT, source_address=(f"127.0.0.{2 + asked % 100}", 0))
            client.request("POST", "/v1/completions", json.dumps({"prompt": "in", "max_tokens": 1}), {"Content-Type": "application/json"})
            assert client.getresponse().status == 200
            client.close()
            asked += 1

    penalties = {"repetition_penalty": 1.1, "frequency_penalty": 0.1}
    requests = [{**r, "max_tokens": 120, **(penalties if r["temperature"] else {})} for r in seeded(["a", LONG])]
    for folder, words in (run, ""), (run, "--weights int8"), (run, "--ranks 2 --tp 2"), (run, "--ranks 2 --cp 2"), (run, "--ranks 2 --pp 2"), (experts, "--ranks 2 --ep 2"):
        with Served("--load", folder, "--threads", 1, "--micro-batch-size", 2, "--max-model-len", 256, *words.split()) as server:
            alone, over = [server.text(**r) for r in requests], threading.Event()
            with ThreadPoolExecutor(2 * len(requests) + 1) as pool:
                others = pool.submit(newcomers, server, over)
                try:
                    for _ in range(2):
                        assert list(pool.map(lambda r: server.text(**r), 2 * requests)) == 2 * alone, f"{words}: a text that was preempted is another one"
                finally:
                    over.set()
                others.result()
            assert server.metric("preemptions_total") > 5, server.metric("preemptions_total")


def steps_of(run):
    return sorted(os.path.join(run, name) for name in os.listdir(run) if re.fullmatch(r"step_\d+", name) and not os.path.islink(os.path.join(run, name)))


def names(server):
    return [m["id"] for m in json.loads(server.ask("v1/models")[1])["data"]]


def scored(server, ids, **members):
    """The log-probabilities of a prompt's tokens, and those likeliest"""
    lists = server.text(ids, echo=True, logprobs=3, max_tokens=0, **members)["logprobs"]
    assert lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None and len(lists["tokens"]) == len(ids), lists
    return lists["token_logprobs"], [sorted(top.values(), reverse=True) for top in lists["top_logprobs"][1:]]


def prompts_scored(folder, run):
    """echo with logprobs: a prompt that is a text as jotun generate has made it has the log-probabilities that it had then, to the bit, for prompts
    shorter and longer than a chunk, alone and beside others, under every axis; their mean is the loss of jotun eval."""
    def checked(server, near=0):
        for (ids, logprobs, tops), request in zip(texts, seeded(PROMPTS + [LONG])):
            prompt = list(request["prompt"].encode())
            own, likely = scored(server, prompt + ids)
            for ours, theirs in [(own[len(prompt):], logprobs), *zip(likely[len(prompt) - 1:], tops)]:
                assert ours == theirs if not near else all(abs(a - b) < near for a, b in zip(ours, theirs, strict=True)), (request, ours, theirs)

    with Served("--load", run, "--threads", 1, "--micro-batch-size", 4, "--max-model-len", 256) as server:
        texts = [(t[0], t[1], t[2]) for t in served([server.text(**r) for r in seeded(PROMPTS + [LONG])])]
        for ours, theirs in zip(texts, generated(folder, run)):
            assert ours == theirs, (ours, theirs)
        checked(server)
        with ThreadPoolExecutor(12) as pool:
            for n in [pool.submit(checked, server) for _ in range(4)] + [pool.submit(server.text, "sees", max_tokens=100) for _ in range(40)]:
                n.result()
        cut = server.text("jo tun sees", echo=True, logprobs=3, max_tokens=5)
        assert cut["text"] == "jo tun sees" + server.text("jo tun sees", max_tokens=5)["text"] and len(cut["logprobs"]["tokens"]) == 16, cut
        text = os.path.join(folder, "scored.txt")
        with open(text, "w") as out:
            out.write((LONG + "jo ")[:33])              # one window of 32 positions, from its first token
        losses = scored(server, list((LONG + "jo ")[:33].encode()))[0][1:]
        said = json.loads(jotun("eval", "perplexity", "--load", run, "--text", text, "--threads", 1).stdout)
        assert said["tokens"] == len(losses) == 32 and abs(said["loss"] + sum(losses) / 32) < 1e-5, (said, losses)
    for words in ("--tp 2", "--pp 2", "--tp 1", "--cp 2"):
        with Served("--load", run, "--threads", 1, "--max-model-len", 256, "--ranks", 2, *words.split()) as server:
            checked(server, 1e-4)


def side_by_side(folder, run):
    """Two steps of a run, and a folder of Hugging Face: each model's texts are those that it has alone, also while both are asked; limits and counts are each model's own."""
    early, late = steps_of(run)[:2]
    alone = {}
    for path in early, late:
        with Served("--load", path, "--threads", 1) as server:
            assert names(server) == [os.path.basename(path)], names(server)
            alone[names(server)[0]] = [server.text(**r) for r in seeded()]
    first, second = map(os.path.basename, (early, late))
    assert alone[first] != alone[second], "the two steps write the same"
    foreign = os.path.join(folder, "theirs")
    for load, compare, words in (early, late, ["--max-prompt-tokens", 20]), (late, early, ["--ranks", 2, "--tp", 2]), (early, "hf:" + foreign, ["--tokenizer", "bytes", "--served-model-name", "a \\\"quoted\" name"]):
        with Served("--load", load, "--compare", compare, "--threads", 1, *words) as server:
            a, b = names(server)
            wants = {a: alone[os.path.basename(load)], b: alone.get(b)}
            if "--ranks" in words:
                wants = {}                              # sums are in another order
            assert server.text(PROMPTS[0], logprobs=0) == server.text(PROMPTS[0], logprobs=0, model=a) != server.text(PROMPTS[0], logprobs=0, model=b)
            with ThreadPoolExecutor(16) as pool:
                asked = [(m, r, pool.submit(server.text, model=m, **r)) for _ in range(4) for r in seeded() for m in (a, b)]
                for model, request, answer in asked:
                    want = wants[model][seeded().index(request)] if wants.get(model) else server.text(model=model, **request)
                    assert answer.result() == want, (model, request, answer.result(), want)
            if "--max-prompt-tokens" in words:
                assert all("20" in server.ask("v1/completions", {"prompt": "a" * 21, "model": m})[1] for m in (a, b))
            status, answer = server.ask("v1/completions", {"prompt": "a", "model": "neither"})
            assert status == 404 and json.loads(answer)["error"]["code"] == "model_not_found" and a.split('"')[0] in answer, answer
            label = a.replace("\\", "\\\\").replace('"', '\\"')
            before = [server.metric("generated_tokens_total", m) for m in (label, b)]
            server.text("a", model=b, max_tokens=5)
            server.text("a", model=a, max_tokens=3)
            assert [server.metric("generated_tokens_total", m) - n for m, n in zip((label, b), before)] == [3, 5]
            assert all(server.metric("cache_pages", m) > 0 for m in (label, b))


def memory_of_both(run):
    """An address space in which either model has room, and not both: refused before any weights are read."""
    early, late = steps_of(run)[:2]
    words = "--threads", 1, "--micro-batch-size", 64, "--max-model-len", 16384
    with Served("--load", early, *words) as server:
        peak = int(re.search(r"VmPeak:\s+(\d+)", open(f"/proc/{server.process.pid}/status").read())[1]) << 10
    room = peak + (128 << 20)
    with Served("--load", early, *words, launcher=["prlimit", f"--as={room}", "--"]) as server:
        server.launcher = ()                            # prlimit has become the server
    command = [os.environ["JOTUN"], "serve", "--port", "0", "--load", early, "--compare", late, *map(str, words)]
    refused = subprocess.run(["prlimit", f"--as={room}", "--", *command], capture_output=True, text=True, timeout=WAIT)
    assert refused.returncode and "the system has no" in refused.stderr and "serves step" not in refused.stderr, (refused.returncode, refused.stderr)


def refusals(folder, run):
    early = steps_of(run)[0]
    again = os.path.join(folder, "again")
    os.symlink(os.path.dirname(early), again)
    for words, want in (["--load", early, "--compare", os.path.join(again, os.path.basename(early))], "both called"), (["--load", early, "--compare", "/nowhere/here"], "/nowhere/here"), \
            (["--load", early, "--compare", ""], "--compare"), (["--load", "/nowhere/here", "--compare", early], "/nowhere/here"):
        refused = jotun("serve", *words, "--port", 0, check=False)
        assert refused.returncode in (1, 2) and want in refused.stderr, (words, refused.stderr)
    for mpi, launcher in list(launchers().items())[:1] if "thread" not in os.environ.get("TEST_SANITIZE", "") else []:
        refused = subprocess.run([*launcher, "2", os.environ["JOTUN"], "serve", "--port", "0", "--load", run, "--compare", early, "--tp", "2"], capture_output=True, text=True, timeout=WAIT)
        assert refused.returncode and "without mpirun" in refused.stderr, (mpi, refused.stderr)
    for words, want in (["--load", run, "--host", "no.such.host.invalid"], "no address of this machine"), ([], "needs --load"), (["--load", run, "--token", "short"], "8 to 512"), \
            (["--load", run, "--token-file", os.path.join(folder, "nowhere")], "nowhere"), (["--load", run, "--prompt", "x"], "--prompt"):
        refused = jotun("serve", *words, check=False)
        assert refused.returncode in (1, 2) and want in refused.stderr, (words, refused.stderr)


with work_folder() as folder:
    if without_server(folder):
        print("skipped: this build has no libmicrohttpd")
        sys.exit(SKIP)
    run, experts = trained(folder, "run-1", "--save-interval", 60), trained(folder, "experts", *EXPERTS)
    alone = on_one_rank(folder, run)
    on_many_ranks(run, alone, experts)
    preempted(run, experts)
    foreign(folder, run, alone)
    prompts_scored(folder, run)
    side_by_side(folder, run)
    if not os.environ.get("TEST_SANITIZE"):             # sanitizers reserve address space of their own
        memory_of_both(run)
    refusals(folder, run)
print(f"the server's texts are those of jotun generate, alone and among {OTHERS} others, on one rank and many")
