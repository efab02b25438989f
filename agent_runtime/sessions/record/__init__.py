"""Recording of a turn while it runs, repair after a crash, replay."""
