# Python's greenstalk over TLS. Use: python3 tls_greenstalk.py HOST PORT CA
import socket, ssl, sys
import greenstalk

host, port, ca = sys.argv[1], int(sys.argv[2]), sys.argv[3]
plain = socket.create_connection((host, port))
secure = ssl.create_default_context(cafile=ca).wrap_socket(plain, server_hostname=host)
with greenstalk.Client(secure, use="py.life", watch="py.life") as client:
    id = client.put("first")
    job = client.reserve(timeout=10)
    assert (job.id, job.body) == (id, "first"), job
    client.bury(job)
    assert client.kick(10) == 1
    client.delete(client.reserve(timeout=10))
    try:
        client.delete(id)
        sys.exit("it was deleted twice")
    except greenstalk.NotFoundError:
        pass
print("ok")
