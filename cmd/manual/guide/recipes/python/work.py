"""Sends the mails of the tube python-mail until it is stopped. Use: python3 work.py"""
import json
import os
import sys

import beanstalk


def send(to):
    if to == "nobody":
        raise ValueError(f"{to} has no address")
    print("sent to", to, flush=True)


retries = int(os.environ.get("RETRIES", 5))
queue = beanstalk.Client(os.environ.get("BEANSTALKD_HOST", "127.0.0.1"), int(os.environ.get("BEANSTALKD_PORT", 11300)))
queue.watch("python-mail")
queue.ignore("default")
while True:
    job, body = queue.reserve()
    try:
        send(json.loads(body)["to"])
    except ValueError as e:
        tried = queue.releases(job)
        if tried < retries:
            queue.release(job, delay=2**tried)  # after 1, 2, 4, 8 and 16 seconds
        else:
            print(f"buried job {job}: {e}", file=sys.stderr)
            queue.bury(job)
    else:
        queue.delete(job)
