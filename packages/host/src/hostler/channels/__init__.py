"""Sources of events and ways out: schedules, hooks and chat channels. Built and run by the host."""
