"""The package openai of PyPI as a client of the HTTP server: completions, streams, stop words, seeds, log-probabilities, errors, and the
same request among 63 others; before the fake engine, whose texts are known, and before jotun serve, with log-probabilities
of prompts beside those of transformers.      openai_client.py, with JOTUN and SERVE_FAKE"""
import os
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "serve"), os.path.join(HERE, "..", "cli")]
from run import jotun, work_folder  # noqa: E402
from served import Server, expected, shown  # noqa: E402
from serving import Served, trained  # noqa: E402

try:
    import openai
except ImportError:
    print("skipped: no package openai")
    sys.exit(77)


def errors(client, model):
    """The classes of exceptions that the package makes of the server's errors"""
    for members, kind, code in [({"model": "other"}, openai.NotFoundError, "model_not_found"), ({"suffix": "x"}, openai.BadRequestError, "invalid_value"),
                                ({"extra_body": {"tools": []}}, openai.BadRequestError, "unknown_parameter"), ({"max_tokens": 3000}, openai.BadRequestError, "context_length_exceeded")]:
        try:
            client.completions.create(**{"model": model, "prompt": "a", **members})
            sys.exit(f"{members} is taken")
        except kind as e:
            assert e.code == code and e.body["message"], (members, e)
    try:
        openai.OpenAI(base_url=client.base_url, api_key="another", max_retries=0).models.list()
        sys.exit("another token is taken")
    except openai.AuthenticationError as e:
        assert e.code == "invalid_api_key", e


def streamed(events):
    """A choice of a stream, as if it had come at once"""
    choices = [e.choices[0] for e in events if e.choices]
    lists = {name: [x for c in choices if c.logprobs for x in getattr(c.logprobs, name)] for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}
    return "".join(c.text for c in choices), choices[-1].finish_reason, lists


def fields(choice):
    return choice.text, choice.finish_reason, {n: getattr(choice.logprobs, n) for n in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}


def true_engine(folder):
    """What is asked for in another way, or beside others, is the same; greedy tokens are the likeliest of those listed."""
    run = trained(folder)
    with Served("--load", run, "--threads", 2, "--max-model-len", 2048, "--micro-batch-size", 16, JOTUN_TOKEN="token-of-this-test") as server:
        client = openai.OpenAI(base_url=server.address + "v1", api_key="token-of-this-test", max_retries=0)
        assert [m.id for m in client.models.list()] == ["run-1"]
        ask = lambda **members: client.completions.create(model="run-1", **{"prompt": "the ra", "max_tokens": 30, "temperature": 0, "logprobs": 5, **members})  # noqa: E731
        for how in {}, {"temperature": 1, "seed": 4}, {"temperature": 0.8, "seed": 5, "top_p": 0.9, "extra_body": {"top_k": 20, "min_p": 0.01, "repetition_penalty": 1.1}}:
            whole = ask(**how)
            choice, events = whole.choices[0], list(ask(**how, stream=True, stream_options={"include_usage": True}))
            assert streamed(events) == fields(choice) == fields(ask(**how, prompt=list(b"the ra")).choices[0]), (how, choice)
            assert events[-1].usage == whole.usage and whole.usage.prompt_tokens == 6
            lists = choice.logprobs
            assert len(lists.tokens) == whole.usage.completion_tokens and all(p <= 0 for p in lists.token_logprobs)
            assert how or all(p == max(top.values()) for p, top in zip(lists.token_logprobs, lists.top_logprobs, strict=True)), lists
            at = len(choice.text) // 2
            word = choice.text[at:at + 2]
            stopped = ask(**how, stop=[word]).choices[0]
            assert (stopped.text, stopped.finish_reason) == (choice.text.split(word)[0], "stop"), (word, stopped, choice.text)
            assert ask(**how, echo=True, logprobs=None).choices[0].text == "the ra" + choice.text
        pair = ask(prompt=["the ra", "jo tun"], n=2, seed=1, temperature=1).choices
        assert [c.index for c in pair] == [0, 1, 2, 3] and pair[0].text != pair[1].text and pair[2].text != pair[3].text, pair
        assert [fields(c) for c in pair[2:]] == [fields(c) for c in ask(prompt="jo tun", n=2, seed=1, temperature=1).choices]
        assert len({ask(temperature=1).choices[0].text for _ in range(4)}) == 4, "without a seed texts differ"
        for prompt in "the ra", "jo tun sees of " * 20, list(b"in of the"):
            for tokens in 0, 12:
                whole = ask(prompt=prompt, echo=True, max_tokens=tokens)
                choice, events = whole.choices[0], list(ask(prompt=prompt, echo=True, max_tokens=tokens, stream=True, stream_options={"include_usage": True}))
                lists, count = choice.logprobs, whole.usage.prompt_tokens
                assert streamed(events) == fields(choice) and events[-1].usage == whole.usage, (choice, events[-2:])
                assert lists.token_logprobs[0] is None and lists.top_logprobs[0] is None and len(lists.tokens) == count + whole.usage.completion_tokens, lists
                assert choice.text.startswith(prompt if isinstance(prompt, str) else bytes(prompt).decode()) and whole.usage.completion_tokens <= tokens
                assert all(p <= 0 for p in lists.token_logprobs[1:]) and [choice.text[at] for at in lists.text_offset] == lists.tokens, lists
                again = ask(prompt=choice.text, echo=True, max_tokens=0).choices[0]
                assert fields(again)[2] == fields(choice)[2], "a text that was made is scored as when it was made"
        errors(client, "run-1")
        asked = [{"prompt": f"{i} the ra"[i % 3:], "seed": i, "temperature": i % 2} for i in range(64)]
        alone = [fields(ask(**a).choices[0]) for a in asked[:16]]
        with ThreadPoolExecutor(64) as pool:
            among = list(pool.map(lambda a: fields(ask(**a).choices[0]), asked))
        assert among[:16] == alone, "a text depends on those beside it"


def beside_transformers(folder):
    """The log-probabilities of a prompt that the package transformers computes with the same weights, which is asked for beside the run itself"""
    try:
        import torch
        import transformers
    except ImportError:
        return print("not compared with transformers: no package")
    run, theirs = trained(folder, "run-2"), os.path.join(folder, "theirs")
    jotun("convert", "--to", "hf", "--input", run, "--output", theirs)
    ids = list(b"the ra jo tun sees, in <b> of")
    with torch.no_grad():
        logits = transformers.AutoModelForCausalLM.from_pretrained(theirs, dtype=torch.float32)(torch.tensor([ids])).logits[0]
    want = torch.log_softmax(logits[:-1, :257].double(), -1).gather(-1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
    with Served("--load", run, "--compare", "hf:" + theirs, "--tokenizer", "bytes", "--threads", 1) as server:
        client = openai.OpenAI(base_url=server.address + "v1", api_key="none", max_retries=0)
        assert [m.id for m in client.models.list()] == ["run-2", "theirs"]
        for model in "run-2", "theirs":
            lists = client.completions.create(model=model, prompt=ids, max_tokens=0, echo=True, logprobs=1).choices[0].logprobs
            far = max(abs(a - b) for a, b in zip(lists.token_logprobs[1:], want, strict=True))
            assert far < 1e-4, (model, far, lists.token_logprobs, want)
            print(f"{model}: log-probabilities of a prompt are at most {far:.1e} from those of transformers")
    return None


with Server(token="token-of-this-test", rows=64) as server:
    client = openai.OpenAI(base_url=server.address + "v1", api_key="token-of-this-test", max_retries=0)
    assert [m.id for m in client.models.list()] == ["fake"] and client.models.retrieve("fake").owned_by == "jotun"
    ask = lambda **members: client.completions.create(model="fake", **{"prompt": "abc", "max_tokens": 30, "temperature": 0, **members})  # noqa: E731
    plain = ask(logprobs=2, echo=False)
    choice = plain.choices[0]
    assert choice.text == shown(expected("abc", 30)) and choice.finish_reason == "length" and plain.usage.completion_tokens == 30, plain
    assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == len(choice.logprobs.text_offset) == len(choice.logprobs.top_logprobs) == 30
    events = list(ask(stream=True, stream_options={"include_usage": True}))
    assert "".join(e.choices[0].text for e in events if e.choices) == choice.text and events[-1].usage.total_tokens == 33, events[-1]
    stopped = ask(stop=["<b>"]).choices[0]
    assert (stopped.text, stopped.finish_reason) == (choice.text.split("<b>")[0], "stop"), stopped
    assert ask(seed=4, temperature=1).choices[0].text == ask(seed=4, temperature=1).choices[0].text == shown(expected("abc", 30, 4))
    assert ask(extra_body={"top_k": 3, "min_p": 0.1, "repetition_penalty": 1.1}).choices[0].text == choice.text
    assert len(ask(prompt=["a", "b"], n=2, seed=1).choices) == 4 and ask(prompt=[97, 98, 99]).choices[0].text == choice.text
    scored = ask(echo=True, logprobs=1, max_tokens=0)
    assert (scored.choices[0].text, scored.choices[0].logprobs.token_logprobs, scored.usage.completion_tokens) == ("abc", [None, -0.125, -0.25], 0), scored
    errors(client, "fake")
    with ThreadPoolExecutor(64) as pool:
        texts = list(pool.map(lambda i: ask(prompt="abc" if i == 31 else f"another {i}", seed=9, temperature=1).choices[0].text, range(64)))
    assert texts[31] == ask(seed=9, temperature=1).choices[0].text and all(t == shown(expected(f"another {i}", 30, 9)) for i, t in enumerate(texts) if i != 31)
with work_folder() as folder:
    true_engine(folder)
    beside_transformers(folder)
print(f"openai {openai.__version__}: completions, streams, stop words, seeds, log-probabilities and errors")
