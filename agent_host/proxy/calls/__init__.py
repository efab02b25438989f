"""Model calls: the endpoint, checks of requests, the relay of answers, and usage."""
