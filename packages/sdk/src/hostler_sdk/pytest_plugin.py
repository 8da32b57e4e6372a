"""The pytest plugin: fixture `host`, a scripted host that runners are driven against."""
