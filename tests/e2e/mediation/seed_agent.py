# pyright: basic
"""The agent of microagent's mediation guide, word for word but for its address: `python seed_agent.py PORT`."""

# agent.py - runs inside the guest
import json
import socket
import sys

sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
sock.connect(("127.0.0.1", int(sys.argv[1])))
reader = sock.makefile("r")


def send(msg):
    sock.sendall(json.dumps(msg).encode() + b"\n")


def process(req):
    # Your model loop goes here. This stub just answers ping with pong.
    print("agent: got request", req["request_id"], flush=True)
    return {"request_id": req["request_id"], "ok": True, "content": "pong"}


send({"signal": "ready"})
while True:
    line = reader.readline()
    if not line:
        break  # host closed the channel
    req = json.loads(line)
    send({"signal": "accepting", "request_id": req["request_id"]})
    send(process(req))
    send({"signal": "completed", "request_id": req["request_id"]})
