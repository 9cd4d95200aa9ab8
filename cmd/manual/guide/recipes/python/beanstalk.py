"""A client of beanstalkd's protocol in the standard library. Copy it, and change it as you like."""
import socket


class Error(Exception):
    """A reply that is no success, such as NOT_FOUND."""


class Client:
    def __init__(self, host="127.0.0.1", port=11300):
        self.socket = socket.create_connection((host, port))
        self.replies = self.socket.makefile("rb")

    def ask(self, command, body=None, want=()):
        """Send a command, with a body or none, and return the words of the reply and its body."""
        self.socket.sendall(command.encode() + b"\r\n" + (b"" if body is None else body + b"\r\n"))
        line = self.replies.readline().decode()
        words = line.split()
        if not line.endswith("\r\n") or words[0] not in want:
            raise Error(line.strip() or "the server closed the connection")
        if words[0] not in ("RESERVED", "FOUND", "OK"):
            return words, None
        body = self.replies.read(int(words[-1]) + 2)[:-2]
        return words, body

    def use(self, tube):
        self.ask(f"use {tube}", want=["USING"])

    def watch(self, tube):
        self.ask(f"watch {tube}", want=["WATCHING"])

    def ignore(self, tube):
        self.ask(f"ignore {tube}", want=["WATCHING"])

    def put(self, body, priority=100, delay=0, ttr=60):
        words, _ = self.ask(f"put {priority} {delay} {ttr} {len(body)}", body, want=["INSERTED"])
        return int(words[1])

    def reserve(self):
        """Wait for a job, and return its number and body."""
        words, body = self.ask("reserve", want=["RESERVED"])
        return int(words[1]), body

    def delete(self, job):
        self.ask(f"delete {job}", want=["DELETED"])

    def release(self, job, priority=100, delay=0):
        self.ask(f"release {job} {priority} {delay}", want=["RELEASED"])

    def bury(self, job, priority=100):
        self.ask(f"bury {job} {priority}", want=["BURIED"])

    def releases(self, job):
        """Return how often the job was released."""
        _, stats = self.ask(f"stats-job {job}", want=["OK"])
        return int(stats.decode().split("\nreleases: ")[1].split("\n")[0])

    def touch(self, job):
        """Restart the job's time to run."""
        self.ask(f"touch {job}", want=["TOUCHED"])
