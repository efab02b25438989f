"""The local model's test is collected only where the local model is installed: `make test-local`."""

from agent_host.proxy import local_model_missing

collect_ignore = ["test_local_model.py"] if local_model_missing() else []
