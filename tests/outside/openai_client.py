"""The package openai of PyPI as a client of the HTTP server: completions, streams, stop words, seeds, log-probabilities, errors, and the
same request among 63 others.      openai_client.py, with JOTUN and SERVE_FAKE"""
import os
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
from served import Server, expected, shown  # noqa: E402

try:
    import openai
except ImportError:
    print("skipped: no package openai")
    sys.exit(77)

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
    for members, kind, code in [({"model": "other"}, openai.NotFoundError, "model_not_found"), ({"suffix": "x"}, openai.BadRequestError, "invalid_value"),
                                ({"extra_body": {"tools": []}}, openai.BadRequestError, "unknown_parameter"), ({"max_tokens": 3000}, openai.BadRequestError, "context_length_exceeded")]:
        try:
            client.completions.create(**{"model": "fake", "prompt": "a", **members})
            sys.exit(f"{members} is taken")
        except kind as e:
            assert e.code == code and e.body["message"], (members, e)
    try:
        openai.OpenAI(base_url=server.address + "v1", api_key="another", max_retries=0).models.list()
        sys.exit("another token is taken")
    except openai.AuthenticationError as e:
        assert e.code == "invalid_api_key", e
    with ThreadPoolExecutor(64) as pool:
        texts = list(pool.map(lambda i: ask(prompt="abc" if i == 31 else f"another {i}", seed=9, temperature=1).choices[0].text, range(64)))
    assert texts[31] == ask(seed=9, temperature=1).choices[0].text and all(t == shown(expected(f"another {i}", 30, 9)) for i, t in enumerate(texts) if i != 31)
print(f"openai {openai.__version__}: completions, streams, stop words, seeds, log-probabilities and errors")
