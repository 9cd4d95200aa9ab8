# Python's standard library over TLS. Use: python3 tls.py HOST PORT CA
import socket, ssl, sys

host, port, ca = sys.argv[1], int(sys.argv[2]), sys.argv[3]
plain = socket.create_connection((host, port))
stream = ssl.create_default_context(cafile=ca).wrap_socket(plain, server_hostname=host).makefile("rwb")


def ask(command, *want):
    stream.write(command + b"\r\n")
    stream.flush()
    for line in want:
        got = stream.readline()
        assert got == line + b"\r\n", (command, got, line)


ask(b"use py.life", b"USING py.life")
ask(b"watch py.life", b"WATCHING 2")
stream.write(b"put 0 0 60 5\r\nfirst\r\n")
stream.flush()
id = stream.readline().split()[1]
ask(b"reserve-with-timeout 10", b"RESERVED " + id + b" 5", b"first")
ask(b"bury " + id + b" 0", b"BURIED")
ask(b"kick 10", b"KICKED 1")
ask(b"reserve-with-timeout 10", b"RESERVED " + id + b" 5", b"first")
ask(b"delete " + id, b"DELETED")
ask(b"delete " + id, b"NOT_FOUND")
print("ok")
