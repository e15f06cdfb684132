"""A stand-in for the service of Weights & Biases on this machine: it answers what `wandb sync` asks and keeps the rows of history that
are uploaded, by run. A row that is sent for a place which has one replaces it."""
import gzip
import http.server
import json
import threading


class Service(http.server.BaseHTTPRequestHandler):
    histories, configs = {}, {}                          # by id of a run

    def log_message(self, *_):
        pass

    def reply(self, answer):
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def body(self):
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        while self.headers.get("Transfer-Encoding") == "chunked" and (size := int(self.rfile.readline() or b"0", 16)):
            data += self.rfile.read(size)
            self.rfile.readline()
        return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

    def do_GET(self):
        self.reply({})

    def do_PUT(self):
        self.body()
        self.reply({})

    def do_POST(self):
        body = self.body().strip()
        if not body.startswith(b"{"):                    # statistics of the program's use
            return self.reply({})
        asked = json.loads(body)
        if "/file_stream" in self.path:
            rows = self.histories.setdefault(self.path.split("/")[4], {})
            part = (asked.get("files") or {}).get("wandb-history.jsonl", {"offset": 0, "content": []})
            for i, row in enumerate(part["content"]):
                rows[part["offset"] + i] = json.loads(row)
            return self.reply({"exitcode": None, "limits": {}})
        query, given = asked.get("query", ""), asked.get("variables") or {}
        self.reply({"data": self.answer(query, given)})

    def answer(self, query, given):
        name = given.get("name") or "none"
        if "upsertBucket" in query:
            self.configs[name] = json.loads(given.get("config") or "{}")
            project = {"id": "UA==", "name": given.get("project"), "entity": {"id": "RQ==", "name": given.get("entity") or "me"}}
            bucket = {"id": "Ug==", "name": name, "displayName": name, "description": None, "config": None, "sweepName": None,
                      "historyLineCount": len(self.histories.get(name, {})), "project": project}
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if "createRunFiles" in query:
            address = "http://%s:%d/up" % self.server.server_address
            return {"createRunFiles": {"runID": "Ug==", "uploadHeaders": [], "files": [{"name": f, "uploadUrl": f"{address}/{f}"} for f in given["files"]]}}
        if "historyLineCount" in query:
            rows = self.histories.get(name, {})
            tail = [json.dumps(rows[max(rows)])] if rows else []
            bucket = {"id": "Ug==", "name": name, "displayName": name, "summaryMetrics": "{}", "logLineCount": 0, "historyLineCount": len(rows),
                      "eventsLineCount": 0, "historyTail": json.dumps(tail), "eventsTail": "[]", "config": "{}", "tags": [], "wandbConfig": '{"t": 1}'}
            return {"model": {"id": "UA==", "name": given.get("project"), "entity": {"id": "RQ==", "name": "me"}, "bucket": bucket if rows else None}}
        versions = {"cliVersionInfo": {"max_cli_version": "99.0.0"}, "latestLocalVersionInfo": None, "features": []}
        viewer = {"id": "Vg==", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}
        return {"viewer": viewer, "serverInfo": versions}


def start():
    """The address of a service that ends with the process."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "http://%s:%d" % server.server_address
