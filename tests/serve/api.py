"""The HTTP server answers as OpenAI's API does: texts, choices, streams, stop words across tokens, log-probabilities, errors."""
import json
import re
import time
from served import TEXT, Server, basic, bearer, expected, shown

REFUSED = [                                             # members, status, param, code, words of the message
    ({"prompt": ...}, 400, "prompt", "invalid_value", "missing"),
    ({"prompt": 5}, 400, "prompt", "invalid_value", "a list of texts"),
    ({"prompt": []}, 400, "prompt", "invalid_value", "empty list"),
    ({"prompt": ["a", [1]]}, 400, "prompt", "invalid_value", "one kind"),
    ({"prompt": [1, "a"]}, 400, "prompt", "invalid_value", "whole numbers"),
    ({"prompt": [257]}, 400, "prompt", "invalid_value", "from 0 to 256"),
    ({"prompt": [-1]}, 400, "prompt", "invalid_value", "from 0 to 256"),
    ({"prompt": ["a"] * 9}, 400, "prompt", "invalid_value", "8 texts at most"),
    ({"prompt": ["a"] * 5, "n": 2}, 400, "prompt", "invalid_value", "8 texts at most"),
    ({"prompt": "a" * 2040}, 400, "prompt", "context_length_exceeded", "2048 positions"),
    ({"prompt": "a" * 2048, "max_tokens": ...}, 400, "prompt", "context_length_exceeded", "2048 positions"),
    ({"model": "other"}, 404, "model", "model_not_found", "other"),
    ({"model": "fake\0"}, 404, "model", "model_not_found", "fake"),
    ({"model": 3}, 400, "model", "invalid_value", "name"),
    ({"max_tokens": 0}, 400, "max_tokens", "invalid_value", "0 with echo alone"),
    ({"max_tokens": -1}, 400, "max_tokens", "invalid_value", "from 0"),
    ({"max_tokens": 1.5}, 400, "max_tokens", "invalid_value", "whole"),
    ({"max_tokens": 4097}, 400, "max_tokens", "invalid_value", "4096"),
    ({"max_tokens": 600, "n": 8}, 400, "max_tokens", "invalid_value", "8 texts of 600"),
    ({"temperature": -1}, 400, "temperature", "invalid_value", "from 0"),
    ({"temperature": "1"}, 400, "temperature", "invalid_value", "number"),
    ({"top_p": -0.1}, 400, "top_p", "invalid_value", "must be from 0 to 1"),
    ({"top_p": "1"}, 400, "top_p", "invalid_value", "top_p must be a number from 0 to 1"),
    ({"top_p": 1.1}, 400, "top_p", "invalid_value", "1.1"),
    ({"top_k": 1.5}, 400, "top_k", "invalid_value", "whole"),
    ({"min_p": 2}, 400, "min_p", "invalid_value", "from 0 to 1"),
    ({"n": 0}, 400, "n", "invalid_value", "from 1"),
    ({"best_of": 2}, 400, "best_of", "invalid_value", "give n"),
    ({"suffix": "x"}, 400, "suffix", "invalid_value", "not built"),
    ({"logit_bias": {"5": 1}}, 400, "logit_bias", "invalid_value", "not built"),
    ({"presence_penalty": 3}, 400, "presence_penalty", "invalid_value", "from -2 to 2"),
    ({"logprobs": 21}, 400, "logprobs", "invalid_value", "20"),
    ({"logprobs": True}, 400, "logprobs", "invalid_value", "whole"),
    ({"logprobs": 1, "echo": True, "prompt": ["a" * 600] * 7}, 400, "max_tokens", "invalid_value", "4200 tokens of prompts"),
    ({"echo": True, "logprobs": 1, "prompt": "a" * 1000, "max_tokens": 1049}, 400, "prompt", "context_length_exceeded", "2048 positions"),
    ({"echo": True, "logprobs": 1, "prompt": ["a" * 600] * 6, "max_tokens": 100}, 400, "max_tokens", "invalid_value", "6 texts of 100"),
    ({"stop": ["a", "b", "c", "d", "e"]}, 400, "stop", "invalid_value", "4 at most"),
    ({"stop": ""}, 400, "stop", "invalid_value", "1 to 1,024"),
    ({"stop": 3}, 400, "stop", "invalid_value", "text"),
    ({"seed": "x"}, 400, "seed", "invalid_value", "whole"),
    ({"user": 3}, 400, "user", "invalid_value", "text"),
    ({"stream": 1}, 400, "stream", "invalid_value", "true or false"),
    ({"stream_options": {"include_usage": True}}, 400, "stream_options", "invalid_value", "stream"),
    ({"stream": True, "stream_options": {"other": True}}, 400, "stream_options", "unknown_parameter", "other"),
    ({"tools": [{"type": "function"}]}, 400, "tools", "invalid_value", "must be one of [[]]: a base model continues a text"),
    ({"ignore_eos": True}, 400, "ignore_eos", "invalid_value", "must be one of [false]"), ({"min_tokens": 1}, 400, "min_tokens", "invalid_value", "a text may end"),
    ({"skip_special_tokens": False}, 400, "skip_special_tokens", "invalid_value", "special tokens"), ({"response_format": {"type": "json_object"}}, 400, "response_format", "invalid_value", "grammar"),
    ({"metadata": {"a": "b"}}, 400, "metadata", "invalid_value", "nothing is kept"), ({"typical_p": 0.9}, 400, "typical_p", "invalid_value", "not built"),
    ({"add_special_tokens": False}, 400, "add_special_tokens", "invalid_value", "tokenizer"), ({"logit_bias": {"5": 1}}, 400, "logit_bias", "invalid_value", "not built"),
    ({"something": False}, 400, "something", "unknown_parameter", "not known here"),
    ({"Temperature": 1}, 400, "Temperature", "unknown_parameter", "Temperature"),
]


def check_error(status, data, want, param, code, words):
    error = data["error"]
    assert (status, error["param"], error["code"]) == (want, param, code) and words in error["message"], (want, param, code, words, status, data)
    assert error["type"] and set(error) == {"message", "type", "param", "code"}, data


def errors(server):
    for members, *want in REFUSED:
        status, data = ask(server, {"prompt": "a", **members})
        check_error(status, data, *want)
    for body in b"", b"{", b"[]", b'{"prompt": "a", "prompt": "b"}', b'{"prompt": "\xff"}', b"[" * 5000, b'{"a":' * 3000 + b"1" + b"}" * 3000, \
            b'{"prompt": "a", "seed": 1e400}', b'{"prompt": "a", "temperature": NaN}', b'{"prompt": "a", "temperature": -Infinity}', b'{"prompt": "\\ud800"}', \
            b'{"prompt": "a", "n": 1, "n": 1}', b'{"a\\u0000": 1}', b'{"prompt": "a"}x', b"\xef\xbb\xbf{}", b'{"prompt": "a", "stop": "\xc0\x80"}', b'{"seed": 99999999999999999999, "prompt": "a"}':
        status, headers, data = server.ask("POST", "/v1/completions", body)
        check_error(status, json.loads(data), 400, None, "invalid_json", "")
        assert headers["content-type"] == "application/json", headers
    for method, path, want, code in [("GET", "/nothing", 404, "not_found"), ("GET", "/v1/models/none", 404, "model_not_found"), ("POST", "/health", 405, "method_not_allowed"),
                                     ("GET", "/v1/completions", 405, "method_not_allowed"), ("DELETE", "/v1/models", 405, "method_not_allowed"), ("GET", "/v1/completions/x", 404, "not_found"), ("OPTIONS", "/v1/completions", 405, "method_not_allowed"), ("OPTIONS", "*", 404, "not_found"),
                                     ("TRACE", "/health", 405, "method_not_allowed"), ("get", "/health", 405, "method_not_allowed"), ("GET", "/health%00", 404, "not_found"), ("GET", "/health%00x", 404, "not_found"),
                                     ("GET", "/v1/models/fake%00", 404, "model_not_found"), ("GET", "//health", 404, "not_found"), ("GET", "/v1/../health", 404, "not_found"), ("GET", "/%0d%0aX:y", 404, "not_found"),
                                     ("GET", "/v1/models/%0d%0aSet-Cookie:x", 404, "model_not_found"), ("GET", "/v1/models/%ff", 404, "model_not_found"), ("GET", "/" + "a" * 5000, 404, "not_found")]:
        status, headers, data = server.ask(method, path)
        assert status == want and json.loads(data)["error"]["code"] == code, (method, path, status, data)
        assert (status == 405) == ("allow" in headers) and "set-cookie" not in headers and "x" not in headers, headers
    for kind in "text/plain", "application/x-www-form-urlencoded", None:
        status, _, data = server.ask("POST", "/v1/completions", {"prompt": "a"}, json_type=kind)
        assert status == 415 and json.loads(data)["error"]["code"] == "unsupported_media_type", data
    assert server.ask("POST", "/v1/completions", {"prompt": "a"}, json_type="application/json; charset=utf-8")[0] == 200
    for headers, want in [({"Sec-Fetch-Site": "same-origin", "Origin": "https://name.of.a.proxy"}, 200), ({"Sec-Fetch-Site": "none"}, 200), ({"Origin": "http://127.0.0.1"}, 200),
                          ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"}, 403), ({"Origin": "http://evil.example"}, 403),
                          ({"Origin": "null"}, 403), ({"Origin": "http://127.0.0.1:1"}, 403), ({"Origin": "http://127.0.0.1.evil.example"}, 403), ({"Origin": ""}, 403)]:
        status, _, data = server.ask("POST", "/v1/completions", {"prompt": "a"}, headers)
        assert status == want and (want == 200 or json.loads(data)["error"]["code"] == "forbidden_origin"), (headers, status, data)
        assert server.ask("GET", "/health", headers=headers)[0] == 200 and "access-control-allow-origin" not in server.ask("OPTIONS", "/v1/completions", headers=headers)[1], headers
    for host, want in [("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("localhost.evil", 403)]:
        assert server.ask("GET", "/health", host=host)[0] == want, host


# Members that ask for nothing: v01 of vLLM's and OpenAI's clients, and others.
NEUTRAL = [{"skip_special_tokens": True}, {"ignore_eos": False}, {"min_tokens": 0}, {"use_beam_search": False}, {"response_format": {"type": "text"}}, {"metadata": {}},
           {"min_tokens": 0.0}, {"length_penalty": 1.0, "early_stopping": False}, {"stop_token_ids": [], "bad_words": [], "allowed_token_ids": []}, {"typical_p": 1, "mirostat": 0},
           {"guided_json": None, "anything": None}, {"logit_bias": {"5": 0, "7": 0.0}}, {"tools": [], "tool_choice": "none"}, {"store": False, "service_tier": "auto"},
           {"detokenize": True, "add_special_tokens": True, "spaces_between_special_tokens": True, "include_stop_str_in_output": False}, {"top_k": -1, "min_p": 0}]


def neutral(server):
    wanted = ask(server, {"prompt": "abc"})[1]["choices"]
    for members in NEUTRAL:
        status, data = ask(server, {"prompt": "abc", **members})
        assert status == 200 and data["choices"] == wanted, (members, status, data)


def paths(server):
    """A slash at the end is taken, and what clients of chats ask for is answered with what is here."""
    assert server.ask("POST", "/v1/completions/", {"prompt": "a"})[0] == 200
    for path in "/v1/models/", "/health/", "/metrics/":
        assert server.ask("GET", path)[0] == 200, path
    for path, words in (("/v1/chat/completions", "base models, without a chat; POST the text to continue to /v1/completions"), ("/v1/chat/completions/", "base models"),
                        ("/v1/embeddings", "no embeddings"), ("/v1/responses", "/v1/completions"), ("/v1/completions//", "nothing at this path"), ("/v1/chat/completionsx", "nothing at this path")):
        status, _, data = server.ask("POST", path, {"messages": []})
        check_error(status, json.loads(data), 404, None, "not_found", words)


def ask(server, members):
    body = {"max_tokens": 16, "temperature": 0, **members}
    status, _, data = server.ask("POST", "/v1/completions", {k: v for k, v in body.items() if v is not ...})
    return status, json.loads(data)


def texts(server):
    status, data = server.complete("abc", 40)
    choice = data["choices"][0]
    assert status == 200 and data["object"] == "text_completion" and data["model"] == "fake" and re.fullmatch(r"cmpl-[0-9a-f]{16}", data["id"]), data
    assert choice == {"text": shown(expected("abc", 40)), "index": 0, "logprobs": None, "finish_reason": "length"}, choice
    assert data["usage"] == {"prompt_tokens": 3, "completion_tokens": 40, "total_tokens": 43}, data
    assert server.complete("abc", ..., user="me", suffix=None, best_of=1, presence_penalty=0, logit_bias={})[1]["choices"][0]["text"] == shown(expected("abc", 16))
    assert server.complete("abc", 40, top_p=0)[1]["choices"][0]["text"] == shown(expected("abc", 40)), "top_p 0 is no restriction"
    data = server.complete("b!", 40)[1]
    assert (data["choices"][0]["text"], data["choices"][0]["finish_reason"]) == (shown(expected("b!", 40)), "stop"), data
    many = server.complete(["a", "bc"], 9, n=2, seed=5, temperature=1)[1]
    assert [c["index"] for c in many["choices"]] == [0, 1, 2, 3] and many["usage"]["prompt_tokens"] == 3, many
    for i, choice in enumerate(many["choices"]):
        assert choice["text"] == shown(expected(["a", "bc"][i // 2], 9, 5, i % 2)), (i, choice)
    alone = server.complete("bc", 9, seed=5, temperature=1)[1]
    assert alone["choices"][0]["text"] == many["choices"][2]["text"], "a prompt of a list is continued as alone"
    free = {server.complete("a", 30, temperature=1)[1]["choices"][0]["text"] for _ in range(8)}
    assert len(free) > 1, "without a seed each text is another"
    for prompt in [7, 8, 9], [[7, 8], [9]]:
        data = server.complete(prompt, 12, echo=True)[1]
        lists = prompt if isinstance(prompt[0], list) else [prompt]
        for ids, choice in zip(lists, data["choices"]):
            assert choice["text"] == shown(bytes(ids)) + shown(expected(ids, 12)), (ids, choice)
    assert server.complete("", 5)[1]["choices"][0]["text"] == shown(expected([256], 5)), "an empty prompt begins a document"
    hostile = "<script>alert(1)</script>\u0000\u0007\u001b[31m\u2028\"'\\ \U0001f600"
    assert server.complete(hostile, 5, echo=True)[1]["choices"][0]["text"] == hostile.replace("\0", "\ufffd") + shown(expected(hostile, 5))


def stops(server):
    whole = expected("xyz", 150)
    for stop in [" sees", "\u96e8 and", "goes.\nthe", "\u00e5", "e", "nowhere", "it goes.\nthe r\u00e4ksm\u00f6rg\u00e5s sees \u96e8 an"]:
        for words in stop, ["nowhere else", stop], [stop, stop + "x", "nowhere", stop[0] + "\u0001"]:
            first = [whole.find(w.encode()) for w in ([words] if isinstance(words, str) else words) if w.encode() in whole]
            want, reason = (shown(whole[:min(first)]), "stop") if first else (shown(whole), "length")
            plain = server.complete("xyz", 150, stop=words)[1]["choices"][0]
            events, reasons = streamed(server, "xyz", 150, stop=words)
            assert (plain["text"], plain["finish_reason"]) == (want, reason), (words, plain, want)
            assert ("".join(events), reasons[-1]) == (want, reason), (words, events)
            assert server.complete("xyz", 150, stop=words)[1]["usage"]["completion_tokens"] <= (min(first) + max(len(w.encode()) for w in ([words] if isinstance(words, str) else words)) if first else 150)


def streamed(server, prompt, tokens, **members):
    with server.send("POST", "/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True, **members}) as client:
        assert client.head() == 200 and client.headers["content-type"].startswith("text/event-stream"), client.headers
        events = list(client.events())
    assert events[-1] is None and events.count(None) == 1, events[-3:]
    choices = [e["choices"][0] for e in events[:-1] if e["choices"]]
    assert all(c["finish_reason"] is None for c in choices[:-1]) and choices[-1]["finish_reason"], choices
    return [c["text"] for c in choices], [c["finish_reason"] for c in choices]


def streams(server):
    pieces, reasons = streamed(server, "abc", 100)
    whole = expected("abc", 100)
    assert "".join(pieces) == shown(whole) and reasons[-1] == "length" and len(pieces) > 50, pieces
    assert not any("\ufffd" in p for p in pieces[1:-1]), "characters come whole"
    pieces, reasons = streamed(server, "abc!", 100)
    assert "".join(pieces) == shown(expected("abc!", 100)) and reasons[-1] == "stop", pieces
    body = {"prompt": ["a", "b"], "n": 2, "seed": 1, "max_tokens": 30, "stream": True, "stream_options": {"include_usage": True}, "echo": True}
    with server.send("POST", "/v1/completions", body) as client:
        client.head()
        *events, last, done = client.events()
    assert done is None and last["choices"] == [] and last["usage"] == {"prompt_tokens": 2, "completion_tokens": 120, "total_tokens": 122}, last
    assert all(e["usage"] is None and e["id"] == last["id"] for e in events)
    for i in range(4):
        text = "".join(e["choices"][0]["text"] for e in events if e["choices"][0]["index"] == i)
        assert text == "ab"[i // 2] + shown(expected("ab"[i // 2], 30, 1, i % 2)), (i, text)


def logprobs(server):
    plain = server.complete("q", 60, logprobs=2)[1]["choices"][0]
    lists, text, bytes_ = plain["logprobs"], plain["text"], expected("q", 60)
    assert {k: len(v) for k, v in lists.items()} == dict.fromkeys(["tokens", "token_logprobs", "top_logprobs", "text_offset"], 60), lists
    at = 0
    for i, (token, offset) in enumerate(zip(lists["tokens"], lists["text_offset"])):
        want = chr(bytes_[i]) if bytes_[i] < 128 else f"bytes:\\x{bytes_[i]:02x}"
        assert token == want and lists["token_logprobs"][i] == -0.25, (i, token, want)
        assert list(lists["top_logprobs"][i].values()) == [-0.25, -1.25] and lists["top_logprobs"][i][token] == -0.25, (i, lists["top_logprobs"][i])
        if bytes_[i] < 128:
            assert text[offset] == token, (i, offset, token, text)
        assert offset >= at
        at = offset
    assert server.complete("q", 6, logprobs=0)[1]["choices"][0]["logprobs"]["top_logprobs"] is None
    for stop in None, " and", "<b>":
        plain = server.complete("q", 60, logprobs=2, stop=stop)[1]["choices"][0]["logprobs"]
        with server.send("POST", "/v1/completions", {"prompt": "q", "max_tokens": 60, "temperature": 0, "logprobs": 2, "stop": stop, "stream": True}) as client:
            client.head()
            parts = [e["choices"][0]["logprobs"] for e in client.events() if e]
        for name in plain:
            assert sum((p[name] for p in parts), []) == plain[name], (stop, name)
        cut = expected("q", 60).find(stop.encode()) if stop else 60
        assert len(plain["tokens"]) == (cut if cut >= 0 else 60), (stop, plain["tokens"])


def merged(server, prompt, tokens, **members):
    """A choice of a stream, as if it had come at once"""
    with server.send("POST", "/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True, **members}) as client:
        client.head()
        choices = [e["choices"][0] for e in client.events() if e]
    lists = [c["logprobs"] for c in choices]
    whole = {name: sum((part[name] or [] for part in lists), []) if lists[0][name] is not None else None for name in lists[0]}
    return {"text": "".join(c["text"] for c in choices), "index": 0, "logprobs": whole, "finish_reason": choices[-1]["finish_reason"]}


def echoed_logprobs(server):
    """The prompt's tokens come before the text's, the first without a log-probability; with max_tokens 0 they come alone."""
    for prompt in "abc sees", "r\u00e4ks\u96e8", [97, 98, 0xc3], [256, 97], "", "q":
        ids = list(prompt.encode()) if isinstance(prompt, str) else prompt
        ids = ids or [256]
        shown_prompt = shown(bytes(i for i in ids if i < 256))
        for tokens in 0, 1, 30:
            answer = server.complete(prompt, tokens, echo=True, logprobs=2)[1]
            choice, lists = answer["choices"][0], answer["choices"][0]["logprobs"]
            made = expected(ids, tokens)
            assert answer["usage"] == {"prompt_tokens": len(ids), "completion_tokens": tokens, "total_tokens": len(ids) + tokens}, answer
            assert choice["text"] == (shown(bytes(i for i in ids if i < 256) + made) if ids[-1:] == [0xc3] else shown_prompt + shown(made)), choice
            assert choice["finish_reason"] == "length" and {k: len(v) for k, v in lists.items()} == dict.fromkeys(lists, len(ids) + tokens), choice
            assert lists["token_logprobs"] == [None, *(-(i % 8) / 8 for i in range(1, len(ids))), *[-0.25] * tokens], lists
            assert lists["top_logprobs"][0] is None and all(t[n] == p for t, n, p in list(zip(lists["top_logprobs"], lists["tokens"], lists["token_logprobs"]))[1:]), lists
            assert all(choice["text"][at] == token for at, token in zip(lists["text_offset"], lists["tokens"]) if len(token) == 1), choice
            assert lists["text_offset"] == sorted(lists["text_offset"]) and lists["text_offset"][0] == 0, lists
            assert merged(server, prompt, tokens, echo=True, logprobs=2) == choice, (prompt, tokens)
    lists = server.complete("abc", 0, echo=True, logprobs=0)[1]["choices"][0]["logprobs"]
    assert lists["token_logprobs"] == [None, -0.125, -0.25] and lists["top_logprobs"] is None, lists
    plain = server.complete("abc", 0, echo=True)[1]["choices"][0]
    assert plain == {"text": "abc", "index": 0, "logprobs": None, "finish_reason": "length"}, plain
    assert streamed(server, "abc", 0, echo=True) == (["abc"], ["length"])
    ends = server.complete("ab sees", 40, echo=True, logprobs=1, stop=" sees")[1]["choices"][0]
    want = shown(expected("ab sees", 40).split(b" sees")[0])
    assert ends["text"] == "ab sees" + want and ends["finish_reason"] == "stop" and len(ends["logprobs"]["tokens"]) == 7 + len(want.encode()), ends
    many = server.complete(["ab", "cde"], 3, echo=True, logprobs=1, n=2, temperature=1, seed=5)[1]["choices"]
    assert [len(c["logprobs"]["tokens"]) for c in many] == [5, 5, 6, 6] and [c["text"][:3] for c in many[2:]] == ["cde"] * 2, many


def pages(server):
    status, headers, data = server.ask("GET", "/")
    assert status == 200 and headers["content-type"].startswith("text/html") and b"PAGE_NONCE" not in data, headers
    policy = headers["content-security-policy"]
    nonce = re.search(r"script-src 'nonce-([0-9a-f]{32})'", policy)[1]
    assert "default-src 'none'" in policy and nonce not in server.ask("GET", "/")[1]["content-security-policy"], policy
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store", headers
    assert server.ask("GET", "/health")[0] == 200 and server.ask("GET", "/favicon.ico")[0] == 204
    models = json.loads(server.ask("GET", "/v1/models")[2])
    assert [m["id"] for m in models["data"]] == ["fake", "fake-2"] and models["object"] == "list", models
    assert json.loads(server.ask("GET", "/v1/models/fake-2")[2])["max_model_len"] == 2048
    assert server.complete("a", model="fake-2")[1]["model"] == "fake-2"
    with server.send("HEAD", "/health") as client:
        assert client.head() == 200


def metrics():
    with Server(models=2) as server:
        server.complete("abc", 20)
        server.complete("abc", 0)
        for polls in range(100):                              # until the server has seen that the earlier connections are closed
            page = server.ask("GET", "/metrics")[2].decode()
            if re.search(r"^jotun_connections 1$", page, re.M):
                break
            time.sleep(0.05)
        for line in page.splitlines():
            assert re.fullmatch(r"# (HELP|TYPE) jotun_\w+ .+|jotun_\w+(\{\w+=\"[^\"]*\"(,le=\"[^\"]*\")?\})? -?[0-9.]+(e[+-]\d+)?", line), line
        for name, want in [('requests_total{status="200"}', 1 + polls), ('requests_total{status="400"}', 1), ("connections", 1), ('prompt_tokens_total{model="fake"}', 3), ('generated_tokens_total{model="fake"}', 20),
                           ('sequences_running{model="fake"}', 0), ('sequences_waiting{model="fake"}', 0), ('request_seconds_count{model="fake"}', 1), ('first_token_seconds_count{model="fake"}', 1),
                           ('token_seconds_count{model="fake"}', 1), ('request_seconds_bucket{model="fake",le="+Inf"}', 1), ('generated_tokens_total{model="fake-2"}', 0), ('request_seconds_count{model="fake-2"}', 0)]:
            found = re.search(rf"^jotun_{re.escape(name)} (\S+)$", page, re.M)
            assert found and float(found[1]) == want, (name, want, found)


def token(tmp="token-of-a-test"):
    with Server(token=tmp) as server:
        paths = [("GET", p) for p in ("/", "/health", "/metrics", "/v1/models", "/v1/models/fake", "/nothing", "/favicon.ico")] + [("POST", "/v1/completions")]
        for method, path in paths:
            body = {"prompt": "a"} if method == "POST" else None
            for headers in {}, bearer("token-of-a-tesT"), bearer(tmp + "x"), bearer(tmp[:-1]), bearer(""), basic("x"), {"Authorization": tmp}, {"Authorization": "Basic !!"}:
                status, answer, data = server.ask(method, path, body, headers)
                assert status == 401 and json.loads(data)["error"]["code"] == "invalid_api_key" and "www-authenticate" in answer, (method, path, headers, status)
            for headers in bearer(tmp), basic(tmp):
                assert server.ask(method, path, body, headers, host="name.example")[0] == (404 if path == "/nothing" else 204 if "icon" in path else 200), (path, headers)


assert TEXT
with Server(models=2, step_us=100) as fake:
    texts(fake)
    stops(fake)
    streams(fake)
    logprobs(fake)
    echoed_logprobs(fake)
    errors(fake)
    neutral(fake)
    paths(fake)
    pages(fake)
metrics()
token()
print("the server answers as its API says")
