#!/bin/sh
# The folders that a host shares with an agent in another container; a new volume takes owner and mode from them.
set -eu
mesh=10002 agents=10001

install -d -o "$mesh" -g "$agents" -m 0750 /run/mesh  # the host's sockets
install -d -o "$mesh" -g "$agents" -m 0750 /run/agent # the agent's secrets
