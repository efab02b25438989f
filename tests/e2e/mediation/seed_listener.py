"""The listener of microagent's mediation guide, word for word but for its address: `python seed_listener.py PORT`."""

# listener.py - accept one agent, send one request, read the result
import json
import socket
import sys

srv = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
srv.bind(("127.0.0.1", int(sys.argv[1])))
srv.listen(1)
print("listening", srv.getsockname()[1], flush=True)
while True:
    conn, _ = srv.accept()
    reader = conn.makefile("r")
    line = reader.readline()
    if not line:
        continue  # readiness probe: connect-and-close
    break  # the agent connected
signal = json.loads(line)  # {"signal": "ready"}
request = {"request_id": "req-001", "principal": "operator", "content": "ping"}
conn.sendall(json.dumps(request).encode() + b"\n")
while True:
    msg = json.loads(reader.readline())
    if "signal" in msg:  # lifecycle signals share the channel
        print("signal:", msg["signal"])
        continue
    print("result:", msg)
    break
