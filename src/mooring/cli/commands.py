"""The commands as `mooring --help` lists them, and where each is.

The lines are those of the commands themselves (a test compares them), so that help needs none of them.
"""

from mooring.cli.terminal.layout import Listed

__all__ = ["COMMANDS"]

COMMANDS = {
    "Servers": (
        Listed("run", "mooring.cli.running.run:run", "Run an MCP server and serve it at one URL that stays."),
        Listed("ls", "mooring.cli.servers.commands:ls", "List the servers."),
        Listed("status", "mooring.cli.servers.commands:status", "Tell all that is known of a server."),
        Listed("logs", "mooring.cli.servers.logs:logs", "Show what a server said, and what became of it."),
        Listed("events", "mooring.cli.servers.events:events", "Tell what happened to servers."),
        Listed("start", "mooring.cli.servers.commands:start", "Have servers run, now."),
        Listed("stop", "mooring.cli.servers.commands:stop", "Have servers not run."),
        Listed("restart", "mooring.cli.servers.commands:restart", "Stop servers and start them again."),
        Listed("rm", "mooring.cli.servers.commands:rm", "Forget servers."),
        Listed("stdio", "mooring.cli.stdio:stdio", "Speak MCP on stdin and stdout for a server."),
        Listed(
            "secret", "mooring.cli.secret.command:secret", "Values that servers need and nobody should read."
        ),
    ),
    "Servers elsewhere": (
        Listed("login", "mooring.cli.login.command:login", "Log in to a server elsewhere."),
        Listed("logout", "mooring.cli.login.command:logout", "Forget a login to a server elsewhere."),
    ),
    "Reached from elsewhere": (
        Listed(
            "connect",
            "mooring.cli.connect.command:connect",
            "Make servers here reachable through a relay.",
        ),
        Listed(
            "relay",
            "mooring.cli.relay.command:relay",
            "Run a relay, through which servers are reached from anywhere.",
        ),
    ),
    "AI clients": (
        Listed("client", "mooring.cli.clients.command:client", "Tell AI clients where the servers are."),
    ),
    "Trying them": (
        Listed("tools", "mooring.cli.trying.commands:tools", "Show the tools of a server."),
        Listed(
            "resources",
            "mooring.cli.trying.commands:resources",
            "Show the resources of a server, or read one.",
        ),
        Listed("prompts", "mooring.cli.trying.commands:prompts", "Show the prompts of a server, or get one."),
        Listed("call", "mooring.cli.trying.commands:call", "Call a tool of a server."),
    ),
    "Many at once": (
        Listed("up", "mooring.cli.files.commands:up", "Have the servers that a file names."),
        Listed("down", "mooring.cli.files.commands:down", "Forget the servers made from a file."),
        Listed("export", "mooring.cli.files.commands:export", "Print servers as a file."),
    ),
    "In a cluster": (
        Listed("k8s", "mooring.cli.k8s.command:k8s", "Run servers in Kubernetes."),
        Listed(
            "sessions",
            "mooring.cli.sessions.command:sessions",
            "Look at the sessions that replicas share.",
        ),
    ),
    "The daemon": (
        Listed("serve", "mooring.cli.serve:serve", "Run the daemon in the foreground."),
        Listed("daemon", "mooring.cli.servers.commands:daemon", "The daemon itself."),
        Listed("service", "mooring.cli.service.command:service", "Have the daemon started at every login."),
    ),
    "When you need it": (
        Listed("doctor", "mooring.cli.doctor.command:doctor", "Look for what commonly goes wrong."),
        Listed(
            "completion",
            "mooring.cli.completion:completion",
            "Print a completion script for bash, zsh or fish.",
        ),
        Listed(
            "uninstall",
            "mooring.cli.uninstall.command:uninstall",
            "Remove all that Mooring has put on this machine.",
        ),
    ),
}
