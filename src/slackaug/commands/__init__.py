"""What a user can ask: one file a command, and in it the function of the same name."""

COMMANDS = ("check", "search", "evaluate", "study", "demo", "show", "figure", "report", "export", "preview", "doctor")
